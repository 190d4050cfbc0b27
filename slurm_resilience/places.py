"""Where things lie unless somebody says otherwise. No imports: the prolog reads this first."""

SITE_CONFIG = "/etc/slurm-resilience/config.yaml"
STATE = "/var/lib/slurm-resilience"
