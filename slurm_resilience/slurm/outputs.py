"""Where a job's output lies, from the pattern that `sbatch --output` took."""

import glob
import re
from collections.abc import Iterator
from pathlib import Path

MOST_OUTPUTS = 64
_FILLED_IN = re.compile(r"%(\d*)([A-Za-z%])")


def outputs_of(pattern: str, job: str) -> Iterator[Path]:
    """
    The files that a job's output *pattern* (as `sbatch --output` takes it) stands for.

    Slurm fills in the name, user and node only where they are written; here anything may stand for
    them in the file's name and folder, as long as the job's own number stands there too.
    """
    array, _, task = job.partition("_")
    own = {"A": array} if task else {"A": array, "j": job}
    known = {"%": "%", "a": task or "*", **own}
    is_own = any(found[2] in own for found in _FILLED_IN.finditer(pattern))

    def filled(found: "re.Match[str]") -> str:
        text = known.get(found[2], "*")
        return text.zfill(int(found[1])) if found[1] and text.isdigit() else text

    path = _FILLED_IN.sub(filled, pattern.replace("[", "[[]"))
    if "*" not in path:
        yield from (one for one in (Path(path.replace("[[]", "[")),) if one.is_file())
    elif is_own:
        yield from sorted(map(Path, glob.glob(path)))[:MOST_OUTPUTS]  # noqa: PTH207 - it is absolute
