"""Combine all errors that prevent a command from running into a single error.

The error message lists the remedies and a demo command.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from suite.common import conf
from suite.config.compose import Composed
from suite.config.sweeps import counts_up_to
from suite.machine import devices
from suite.plan.job import Plan

KEPT = ("workload", "framework", "plugins", "output", "environment")
"""Keys of the overrides that the proposed demo command copies from the user's command. Overrides
`environment.*` are copied, too.
"""


def combine_errors(
    jobs: Sequence[Composed], plans: Sequence[Plan], here: bool = True
) -> ValueError:
    """Return the error for a command that cannot run.

    The error message is a single line if there is a single finding. Otherwise the message is a
    numbered list of all findings.

    Args:
        jobs: Composed jobs of the command.
        plans: Plans of the jobs. At least one of the plans has findings.
        here: True if the command runs on this machine. The list of findings then ends with a demo
            command that this machine can run.
    """
    lines = list(dict.fromkeys(str(error) for plan in plans for error in plan.findings))
    if len(lines) < 2:
        return ValueError(lines[0])
    numbered = [f"  {number}. {line}" for number, line in enumerate(lines, start=1)]
    head = f"{len(lines)} problems prevent this command from running here:"
    return ValueError("\n".join([head, *numbered, *([_demo(jobs[0])] if here else [])]))


def _demo(composed: Composed) -> str:
    """Return a demo command that fits the devices of this machine.

    The demo has the same workload and framework as the user's command. The function does not check
    whether the demo's data set and environment are installed.
    """
    try:
        here = len(devices.gpus())
    except ValueError:  # A GPU does not respond. A separate finding reports the failed GPU.
        here = 0
    count = counts_up_to(min(composed.config.gpus, here or len(devices.cpu_cores())))[-1]
    kept = [word for word in composed.overrides if _is_kept(word.partition("=")[0])]
    arguments = shlex.join([*conf.flags(), *kept, "profile=demo", f"gpus={count}"])
    return f"for a demo on the devices of this machine, run: python run_suite.py {arguments}"


def _is_kept(key: str) -> bool:
    return key in KEPT or key.startswith("environment.")
