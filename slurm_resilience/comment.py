"""Our word in a job's Comment: whether the job takes part."""

TOKEN = "slurm-resilience"  # noqa: S105 - a word in the job's Comment, not a secret


def takes_part(comment: str) -> bool:
    """Whether a job's Comment says that it takes part."""
    return any(word == TOKEN or word.startswith(f"{TOKEN}=") for word in comment.split())
