"""
`slurm-resilience run`: the supervisor, on the batch host of a job.

What travels where:

    supervisor -> srun          argv: `slurm-resilience agent -- CMD…`, nothing secret
    supervisor -> agents        environment of the step: one JSON value (`watch.assignment`) with
                                the job's token, ports, run directory and limits
    agent      -> supervisor    TCP, JSON lines (`watch.messages`): reports, stacks, how it ended
    supervisor -> agent         the same line: stop, dump, end
    supervisor -> run directory heartbeat.json, stacks, incident.json
    supervisor -> Slurm         the job's Comment at the start; a requeue at the end, where no
                                controller takes the job
"""
