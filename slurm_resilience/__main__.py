"""`python -m slurm_resilience` is the `slurm-resilience` command."""

import sys

from slurm_resilience.cli import main

sys.exit(main())
