"""
An sbatch file, judged before it costs a night.

    options, shell, quoting, expansion    how Slurm and bash read the text
    facts                                 the script as read
    launches, asked                       what starts the ranks; what is asked of Slurm
    view                                  the script as rules look at it
    rules                                 one function a rule, in modules by subject
    fix                                   the safe changes; act: files read and replaced
"""
