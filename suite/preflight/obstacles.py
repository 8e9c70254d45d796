"""Everything at once that keeps a command from running here, what to type about it, and what would run now."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence

from suite.common import conf, registry
from suite.config.compose import Composed, compose
from suite.plan.jobs import Plan, plan
from suite.plan.settings import Missing
from workloads.api import Json

KEPT = ("workload", "framework", "plugins", "output")
"""Keys of the command that a smaller run keeps, beside those of the environment."""


def explained(jobs: Sequence[Composed], plans: Sequence[Plan], here: bool = True) -> ValueError:
    """The error of plans of which one at least has findings: one line, or where more is in the way all of it, numbered, and
    what would run now `here`, on this machine."""
    lines = list(dict.fromkeys(str(error) for one in plans for error in one.findings))
    if len(lines) < 2:
        return ValueError(lines[0])
    runs = _runs(jobs[0], plans[0]) if here else ""
    numbered = [f"  {number}. {line}" for number, line in enumerate(lines, start=1)]
    return ValueError("\n".join([f"{len(lines)} things are in the way here:", *numbered, *([runs] if runs else [])]))


def _runs(composed: Composed, planned: Plan) -> str:
    """The nearest command that would run now, in words; empty where none is found."""
    if planned.findings and all(isinstance(error, Missing) for error in planned.findings):
        instead = {key: value for error in planned.findings for key, value in error.instead.items()}  # type: ignore[attr-defined]
        return f"this would run now: {_command(_replaced(composed.overrides, instead))}"
    name = str(composed.config["framework"]["name"])
    offered = registry.frameworks_of(str(composed.config["workload"]["name"]))
    own = _demo(composed, name)
    others = (_demo(composed, other) for other in offered if other != name)
    words = next((words for words, lacks in itertools.chain([own], others) if words and not lacks), [])
    if words:
        return f"this would run now: {_command(words)}"
    words, _ = own
    return f"with its environment alone this would run: {_command(words)}" if words else ""


def _demo(composed: Composed, framework: str) -> tuple[list[str], bool]:
    """(The words of a demo of the same workload on the most devices, up to those asked for, whether it lacks its environment);
    no words where it cannot run."""
    kept = [*conf.search_words(), *(word for word in composed.overrides if _is_kept(word.partition("=")[0]))]
    other = {"framework": framework} if framework != composed.config["framework"]["name"] else {}
    words = _replaced(kept, {**other, "profile": "demo"})
    try:
        config = compose(words).jobs[0].config
    except ValueError:
        return [], False
    draft = plan({**config, "gpus": composed.config["gpus"]}).draft
    for count in range(draft.settings.devices if draft else 0, 0, -1):
        _, findings, draft, _ = plan({**config, "gpus": count})
        lacks = draft is not None and draft.environment is None
        if len(findings) == lacks and draft and draft.settings.batch_size_global % count == 0:
            return _replaced(words, {"gpus": count}), lacks
    return [], False


def _is_kept(key: str) -> bool:
    return key in KEPT or key.partition(".")[0] == "environment"


def _replaced(words: Sequence[str], instead: Mapping[str, Json]) -> list[str]:
    """Overrides with other values: `gpus=2`."""
    kept = [word for word in words if word.partition("=")[0] not in instead]
    typed = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in instead.items()]
    return [*kept, *typed]


def _command(words: Sequence[str]) -> str:
    """As it is typed: with the user's folders, and to run."""
    typed = [word for word in words if not word.startswith(("dry_run=", "hydra.searchpath="))]
    return f"python run_suite.py {shlex.join([*conf.flags(), *typed])}"
