"""What a submission tree looks like, and what a name in it may be (mlperf-logging 4.1.68, package_checker)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from suite.common.registry import nearest
from suite.common.runspec import safe_name
from suite.results.targets import RUNS_REQUIRED

RESULTS, SYSTEMS, BENCHMARKS = "results", "systems", "benchmarks"
FILE_BYTES_LIMIT = 50 << 20
"""Largest file of a submission (mlperf-logging repo_checker)."""
FAILED_ALLOWED: Mapping[str, int] = {"ncf": RUNS_REQUIRED["ncf"] // 2}
"""Runs of a set that may miss the target: NCF scores the first 50 of 100 that reach it (v0.5 rules), elsewhere it is one."""
_NAME = re.compile(r"[A-Za-z0-9_][\w.=+-]{0,99}", re.ASCII)


def failed_allowed(benchmark: str) -> int:
    """How many runs of a complete set may miss the target."""
    return FAILED_ALLOWED.get(benchmark, 1)


def is_tree(folder: Path) -> bool:
    """True for a folder with `results` and one of `systems` and `benchmarks` in it."""
    return (folder / RESULTS).is_dir() and any((folder / name).is_dir() for name in (SYSTEMS, BENCHMARKS))


def good_name(name: str) -> bool:
    """True for a name that may stand in a tree: letters, digits and `_.=+-`, at most 100, no dot or dash first."""
    return _NAME.fullmatch(name) is not None


def checked_name(what: str, name: str) -> str:
    """`name`, if it may stand in a tree. Raises ValueError: what the user types is refused, never bent."""
    if not good_name(name):
        raise ValueError(
            f"{what} {name[:100]!a}: letters, digits and _.=+- are allowed, at most 100, the first a letter or digit; "
            f"for example {what} {made_name(name)}"
        )
    return name


def made_name(text: str) -> str:
    """A name made of text that came from a log: no separator, nothing but ASCII, never empty."""
    name = safe_name(text[:1000].encode("ascii", "replace").decode().replace("?", "_")).strip("._-=+")[:80]
    return name if good_name(name) else "unnamed"


def checked_benchmark(name: str) -> str:
    """`name`, if a submission can have that benchmark. Raises ValueError with the allowed ones."""
    if name not in RUNS_REQUIRED:
        shown = ascii(name[:80])
        raise ValueError(
            f"benchmark {shown}: a package can hold {', '.join(sorted(RUNS_REQUIRED))}{nearest(name[:80], RUNS_REQUIRED)}"
        )
    return name
