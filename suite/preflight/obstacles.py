"""Everything at once that keeps a command from running here, what to type about it, and the demo that needs none of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from suite.common import conf
from suite.config.compose import Composed
from suite.plan.jobs import Plan

_KEPT = ("workload", "framework", "plugins", "output")
"""Keys of the command that its demo keeps."""


def explained(jobs: Sequence[Composed], plans: Sequence[Plan], here: bool = True) -> ValueError:
    """The error of plans of which one at least has findings: one line, or where more is in the way all of it, numbered, and
    on this machine (`here`) the demo of the same workload."""
    lines = list(dict.fromkeys(str(error) for one in plans for error in one.findings))
    if len(lines) < 2:
        return ValueError(lines[0])
    numbered = [f"  {number}. {line}" for number, line in enumerate(lines, start=1)]
    demo = [_demo(jobs[0])] if here and jobs[0].config["profile"]["name"] != "demo" else []
    return ValueError("\n".join([f"{len(lines)} things are in the way here:", *numbered, *demo]))


def _demo(composed: Composed) -> str:
    """As it is typed, with the user's folders."""
    kept = [word for word in composed.overrides if word.partition("=")[0] in _KEPT]
    words = shlex.join([*conf.flags(), *kept, "profile=demo"])
    return f"its demo needs no GPU and no data set: python run_suite.py {words}"
