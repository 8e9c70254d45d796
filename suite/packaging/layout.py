"""The layout of a submission tree, and the names allowed in it (mlperf-logging 4.1.68,
package_checker).
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
"""The rules' names of what a package can hold."""
_NAME = re.compile(r"[A-Za-z0-9_][\w.=+-]{0,99}", re.ASCII)


def failed_allowed(benchmark: str) -> int:
    """Return how many runs of a set may miss the target: four for 3D U-Net, 50 for NCF, one for
    most benchmarks.
    """
    rule = find_scoring_rule(benchmark)
    return 1 if rule is None else rule.allowed_failures


def is_tree(folder: Path) -> bool:
    """True for a folder with `results` and one of `systems` and `benchmarks` in it."""
    return (folder / RESULTS).is_dir() and any(
        (folder / name).is_dir() for name in (SYSTEMS, BENCHMARKS)
    )


def is_valid_name(name: str) -> bool:
    """True for a name that is allowed in a tree: letters, digits and `_.=+-`, at most 100, no dot
    or dash first.
    """
    return _NAME.fullmatch(name) is not None


def validated_name(what: str, name: str) -> str:
    """`name`, if it is allowed in a tree.

    Raises ValueError: what the user types is refused, never changed.
    """
    if not is_valid_name(name):
        raise ValueError(
            f"{what} {name[:100]!a}: letters, digits and _.=+- are allowed, at most 100, the first"
            f" a letter or digit; for example {what} {sanitized_name(name)}"
        )
    return name


def sanitized_name(text: str) -> str:
    """An allowed name made from text in a log: no separator, ASCII only, never empty."""
    name = safe_name(text[:1000].encode("ascii", "replace").decode().replace("?", "_")).strip(
        "._-=+"
    )[:80]
    return name if is_valid_name(name) else "unnamed"


def validated_benchmark(name: str) -> str:
    """`name`, if a submission can contain that benchmark.

    Raises ValueError with the allowed ones.
    """
    if name not in PACKAGED:
        shown = ascii(name[:80])
        raise ValueError(
            f"benchmark {shown}: a package can hold"
            f" {', '.join(sorted(PACKAGED))}{suggestion(name[:80], PACKAGED)}"
        )
    return name
