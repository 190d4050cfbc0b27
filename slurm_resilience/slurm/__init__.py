"""The door to Slurm: values, what may be asked (`Slurm`), and the adapters that ask."""
