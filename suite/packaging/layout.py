"""Layout of a submission tree, and the file names that are allowed in the tree.

The rules are those of mlperf-logging 4.1.68, package_checker.
"""

from __future__ import annotations

import re
from pathlib import Path

from suite.common.registry import suggestion
from suite.common.run_folder import safe_name
from suite.results.scoring_rules import find_scoring_rule

RESULTS, SYSTEMS, BENCHMARKS = "results", "systems", "benchmarks"
FILE_BYTES_LIMIT = 50 << 20
"""Maximum size of a file in a submission, in bytes (mlperf-logging repo_checker)."""
PACKAGED = ("resnet", "ssd", "maskrcnn", "gnmt", "transformer", "ncf", "llama31_8b")
"""Benchmarks that a package can contain, as named in the MLPerf rules."""
SCALING_FILE = "scaling.json"
"""File in which mlperf-logging's RCP checker stores the factor of a result's score."""
_NAME = re.compile(r"[A-Za-z0-9_][\w.=+-]{0,99}", re.ASCII)


def runs_required(benchmark: str) -> int:
    """Return the number of runs in a complete result of a benchmark."""
    rule = find_scoring_rule(benchmark)
    assert rule is not None, f"no scoring rule for {benchmark}"
    return rule.runs_required


def failed_allowed(benchmark: str) -> int:
    """Return how many runs of a result set may miss the target.

    The limit is four runs for 3D U-Net, 50 for NCF, and one for most other benchmarks.
    """
    rule = find_scoring_rule(benchmark)
    return 1 if rule is None else rule.allowed_failures


def is_tree(folder: Path) -> bool:
    """Return True if a folder contains `results`, and `systems` or `benchmarks`."""
    return (folder / RESULTS).is_dir() and any(
        (folder / name).is_dir() for name in (SYSTEMS, BENCHMARKS)
    )


def is_valid_name(name: str) -> bool:
    """Return True if a name is allowed in a submission tree.

    A name has at most 100 characters, which are letters, digits, and `_.=+-`. It must not begin
    with a dot or a dash.
    """
    return _NAME.fullmatch(name) is not None


def validated_name(what: str, name: str) -> str:
    """Return `name` if it is allowed in a submission tree.

    Raises ValueError if the name is not allowed. The function does not correct the name, because it
    comes from the user.
    """
    if not is_valid_name(name):
        raise ValueError(
            f"{what} {name[:100]!a}: letters, digits and _.=+- are allowed, at most 100, the first"
            f" a letter or digit. For example: {what} {sanitized_name(name)}"
        )
    return name


def sanitized_name(text: str) -> str:
    """Convert a string from a log to an allowed name.

    The name is ASCII, contains no path separators, and is never empty.
    """
    name = safe_name(text[:1000].encode("ascii", "replace").decode().replace("?", "_")).strip(
        "._-=+"
    )[:80]
    return name if is_valid_name(name) else "unnamed"


def validated_benchmark(name: str) -> str:
    """Return `name` if a submission can contain this benchmark.

    Raises ValueError, with the allowed names, if a submission cannot contain the benchmark.
    """
    if name not in PACKAGED:
        shown = ascii(name[:80])
        raise ValueError(
            f"benchmark {shown}: a package can contain"
            f" {', '.join(sorted(PACKAGED))}{suggestion(name[:80], PACKAGED)}"
        )
    return name
