"""Keeps large-model training on Slurm going: find the fault, leave the node, resume."""

__version__ = "0.1.0"
