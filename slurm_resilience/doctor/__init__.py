"""Is this cluster set up so that the rest can work: its slurm.conf, our hooks in it, who may change them."""
