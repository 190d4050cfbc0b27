"""Figures: each module prints JSON lines, `python -m benchmarks.<name> [--short]`."""
