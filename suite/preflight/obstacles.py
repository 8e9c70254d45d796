"""Everything at once that keeps a command from running here, what to type about it, and what would run now.

Planning ends at the first thing that is wrong. After such an end the same checks are made again, each for itself: where
the machine lacks devices or cores, the others go on with what it has.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.common import registry
from suite.config.compose import Composed, Request, compose
from suite.environments import environment
from suite.launch.base import Framework
from suite.plan.capacity import check_memory
from suite.plan.jobs import kinds
from suite.plan.settings import Config, Missing, resolve_settings
from workloads.api import Json, Settings, Workload

KEPT = ("workload", "framework", "plugins")
"""Keys of the command that a smaller run keeps, beside those of the environment."""


@dataclass(frozen=True)
class Looked:
    """What stands in the way of one job."""

    lines: tuple[str, ...]
    """Each obstacle with what to type."""
    instead: Mapping[str, Json]
    """The settings with which the job can do without the devices and cores that are missing."""
    avoided: bool
    """Whether it would run with them."""
    settings: Settings | None
    """Of the job with them; None where they cannot be resolved."""


def explained(error: ValueError, request: Request) -> ValueError:
    """`error`, or where more is missing than it says: all of it, and what would run now.

    One obstacle is one line, several are numbered. Whatever is no obstacle of this machine or its data, but a mistake, stays
    as it is.
    """
    with _silent():
        found = [look(composed.config) for composed in request.jobs]
        lines = list(dict.fromkeys(line for looked in found for line in looked.lines))
        if len(lines) < 2 or str(error) not in lines:
            return error
        runs = _runs(request.jobs[0], found[0])
    numbered = [f"  {number}. {line}" for number, line in enumerate(lines, start=1)]
    return ValueError("\n".join([f"{len(lines)} things are in the way here:", *numbered, *([runs] if runs else [])]))


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without warnings about environments, which planning has given or will give."""

    def refuse(record: logging.LogRecord) -> bool:
        return False

    environment.LOG.addFilter(refuse)
    try:
        yield
    finally:
        environment.LOG.removeFilter(refuse)


def look(config: Config, environment_made: bool = False) -> Looked:
    """All obstacles of a configuration, in the order in which they are to be removed; none if it would run.

    `environment_made`: as if its environment were there.
    """
    lines: list[str] = []
    instead: dict[str, Json] = {}
    try:
        workload, framework = kinds(config)
        while True:
            try:
                settings = resolve_settings(_with(config, instead), workload, framework)
                break
            except Missing as error:
                lines.append(str(error))
                if error.instead.items() <= instead.items():
                    return Looked(tuple(lines), instead, False, None)
                instead |= error.instead
    except ValueError as error:
        return Looked((*lines, str(error)), instead, False, None)
    checks = _checks(config, workload, framework, settings)[environment_made:]
    others = [line for check in checks for line in _line(check)]
    return Looked((*lines, *others), instead, not others, settings)


def _checks(
    config: Config, workload: type[Workload], framework: Framework, settings: Settings
) -> list[Callable[[], object]]:
    """What is asked of settings that this machine has devices for, the environment first."""
    return [
        lambda: environment.resolve(config["environment"], framework.environments[settings.device], settings.device),
        lambda: workload.resolve(settings),
        lambda: _check_data(workload, settings),
        lambda: check_memory(workload, settings),
    ]


def _check_data(workload: type[Workload], settings: Settings) -> None:
    """Raise ValueError, with what to type, if the data set is not prepared. What a demo generates is never missing."""
    if not settings.data_dir:
        return
    recipe = registry.load_dataset(settings.dataset)
    if recipe.is_prepared(Path(settings.data_dir)) or (settings.profile == "demo" and recipe.generated):
        return
    workload.read_facts(settings)


def _line(check: Callable[[], object]) -> list[str]:
    """What a check complains of."""
    try:
        check()
    except ValueError as error:
        return [str(error)]
    return []


def _runs(composed: Composed, looked: Looked) -> str:
    """The nearest command that would run now, in words; empty where none is found."""
    if looked.avoided:
        return f"this would run now: {_command(_replaced(composed.overrides, looked.instead))}"
    name = str(composed.config["framework"]["name"])
    offered = registry.frameworks_of(str(composed.config["workload"]["name"]))
    for framework in (name, *(other for other in offered if other != name)):
        words = _demo(composed, {"framework": framework} if framework != name else {})
        if words:
            return f"this would run now: {_command(words)}"
    words = _demo(composed, {}, environment_made=True)
    return f"with its environment alone this would run: {_command(words)}" if words else ""


def _demo(composed: Composed, other: Mapping[str, Json], environment_made: bool = False) -> list[str]:
    """The words of a demo of the same workload on the most devices, up to those asked for; empty where it cannot run."""
    kept = [word for word in composed.overrides if _is_kept(word.partition("=")[0])]
    words = _replaced(kept, {**other, "profile": "demo"})
    try:
        config = compose(words).jobs[0].config
    except ValueError:
        return []
    asked = int(composed.config["gpus"])
    fitting = int(look(_with(config, {"gpus": asked}), environment_made).instead.get("gpus", asked))
    for count in range(fitting, 0, -1):
        looked = look(_with(config, {"gpus": count}), environment_made)
        if not looked.lines and looked.settings and looked.settings.batch_size_global % count == 0:
            return _replaced(words, {"gpus": count})
    return []


def _is_kept(key: str) -> bool:
    return key in KEPT or key.partition(".")[0] == "environment"


def _with(config: Config, instead: Mapping[str, Json]) -> dict[str, Any]:
    """The configuration with other values."""
    return {**config, **instead}


def _replaced(words: Sequence[str], instead: Mapping[str, Json]) -> list[str]:
    """Overrides with other values: `gpus=2`."""
    kept = [word for word in words if word.partition("=")[0] not in instead]
    typed = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in instead.items()]
    return [*kept, *typed]


def _command(words: Sequence[str]) -> str:
    return f"python run_suite.py {shlex.join(words)}"
