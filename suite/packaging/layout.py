"""The layout of a submission tree, and the names that are allowed in it.

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
"""Largest file of a submission (mlperf-logging repo_checker)."""
PACKAGED = ("resnet", "ssd", "maskrcnn", "gnmt", "transformer", "ncf")
"""Benchmarks that a package can contain, by their names in the rules."""
_NAME = re.compile(r"[A-Za-z0-9_][\w.=+-]{0,99}", re.ASCII)


def failed_allowed(benchmark: str) -> int:
    """Return how many runs of a result set may miss the target.

    This is four for 3D U-Net, 50 for NCF, and one for most benchmarks.
    """
    rule = find_scoring_rule(benchmark)
    return 1 if rule is None else rule.allowed_failures


def is_tree(folder: Path) -> bool:
    """Return True for a folder with `results`, and with `systems` or `benchmarks`."""
    return (folder / RESULTS).is_dir() and any(
        (folder / name).is_dir() for name in (SYSTEMS, BENCHMARKS)
    )


def is_valid_name(name: str) -> bool:
    """Return True for a name that is allowed in a tree.

    Such a name has at most 100 letters, digits, and `_.=+-`. It does not begin with a dot or a
    dash.
    """
    return _NAME.fullmatch(name) is not None


def validated_name(what: str, name: str) -> str:
    """Return `name` if it is allowed in a tree.

    Raises ValueError otherwise, because a user's input is never changed.
    """
    if not is_valid_name(name):
        raise ValueError(
            f"{what} {name[:100]!a}: letters, digits and _.=+- are allowed, at most 100, the first"
            f" a letter or digit. For example: {what} {sanitized_name(name)}"
        )
    return name


def sanitized_name(text: str) -> str:
    """Return an allowed name for a text from a log: ASCII only, without separators, never empty."""
    name = safe_name(text[:1000].encode("ascii", "replace").decode().replace("?", "_")).strip(
        "._-=+"
    )[:80]
    return name if is_valid_name(name) else "unnamed"


def validated_benchmark(name: str) -> str:
    """Return `name` if a submission can contain this benchmark.

    Raises ValueError, with the allowed names, otherwise.
    """
    if name not in PACKAGED:
        shown = ascii(name[:80])
        raise ValueError(
            f"benchmark {shown}: a package can contain"
            f" {', '.join(sorted(PACKAGED))}{suggestion(name[:80], PACKAGED)}"
        )
    return name
