"""Whole commands of the suite that a benchmark measures: their time, their processor time, and what their logs say."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Spent:
    """What a command took, from its start to its end: the suite's own start and all of its processes included."""

    seconds: float
    cpu_seconds: float
    """User and system time of the process tree, which other work on the machine disturbs less."""
    load_average: float
    """Of the last minute, at the end."""

    def figures(self) -> dict[str, float]:
        """Rounded, for JSON."""
        return {name: round(value, 1) for name, value in vars(self).items()}


def run(words: Sequence[str], output: Path) -> Spent:
    """`python run_suite.py WORDS output=OUTPUT` to its end. Raises SystemExit with what it said if it fails."""
    before, start = _used(), time.monotonic()
    command = [sys.executable, str(PROJECT / "run_suite.py"), *words, f"output={output}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return Spent(time.monotonic() - start, _used() - before, os.getloadavg()[0])


def blocks(output: Path) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl` of the one run below `output`: one for each evaluation."""
    (path,) = output.glob("**/run_0/metrics.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
