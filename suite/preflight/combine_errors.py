"""Everything at once that keeps a command from running here, what to type about it, and the demo to type instead."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from suite.common import conf
from suite.config.compose import Composed
from suite.config.sweeps import counts_up_to
from suite.machine import devices
from suite.plan.job import Plan

KEPT = ("workload", "framework", "plugins", "output", "environment")
"""Keys of the command that its demo keeps, beside `environment.*`."""


def combine_errors(jobs: Sequence[Composed], plans: Sequence[Plan], here: bool = True) -> ValueError:
    """The error of plans of which one at least has findings: one line, or where more is in the way all of it, numbered, and
    the demo to type `here`, on this machine."""
    lines = list(dict.fromkeys(str(error) for one in plans for error in one.findings))
    if len(lines) < 2:
        return ValueError(lines[0])
    numbered = [f"  {number}. {line}" for number, line in enumerate(lines, start=1)]
    return ValueError(
        "\n".join([f"{len(lines)} things are in the way here:", *numbered, *([_demo(jobs[0])] if here else [])])
    )


def _demo(composed: Composed) -> str:
    """The demo of the same workload and framework on the devices that are here; what it lacks itself is not looked at."""
    try:
        here = len(devices.gpus())
    except ValueError:  # one that does not answer, as is said above
        here = 0
    count = counts_up_to(min(composed.config.gpus, here or len(devices.cpu_cores())))[-1]
    kept = [word for word in composed.overrides if _is_kept(word.partition("=")[0])]
    words = shlex.join([*conf.flags(), *kept, "profile=demo", f"gpus={count}"])
    return f"for a demo on the devices that are here type: python run_suite.py {words}"


def _is_kept(key: str) -> bool:
    return key in KEPT or key.startswith("environment.")
