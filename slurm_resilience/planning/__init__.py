"""
Before a run: how large a checkpoint is, how often to save, how early to be told, what is lost.

    facts      what is asked and what was measured
    rules      the arithmetic
    findings   the answer
    measured   earlier attempts and checkpoints, read
"""
