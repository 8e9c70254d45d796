"""Which library multiplies matrices in linear layers: measured once on each kind of machine, before any run exists.

What is faster depends on the processor, not on the model: docs/design.md has figures.
"""

from __future__ import annotations

import json
from pathlib import Path

from suite.common.paths import cache_root
from suite.common.runspec import write_atomically
from suite.environments.answers import answer
from suite.environments.environment import Environment
from suite.launch.base import Framework
from suite.machine import sysfiles
from workloads import files
from workloads.api import Json

LIBRARIES = ("mkl", "onednn")
SECONDS = 120.0
"""Importing the framework from a cold disk, and a second of products."""


def chosen_library(typed: str, framework: Framework, environment: Environment, version: str) -> str:
    """`typed`, or for `auto` the faster library: from the cache, else measured now. Empty where the framework is not installed.

    Raises ValueError in one line if it cannot be measured.
    """
    if typed != "auto" or version == "unknown":
        return "" if typed == "auto" else typed
    path = cache_root() / "linear.json"
    key = f"{sysfiles.cpu_kind()}, {framework.name} {version}"
    known = _known(path)
    answer = known.get(key)
    if not isinstance(answer, dict) or answer.get("library") not in LIBRARIES:
        answer = _measured(framework, environment)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({**known, key: answer}, indent=1))
    return str(answer["library"])


def _known(path: Path) -> dict[str, Json]:
    """What the cache holds; nothing where it is missing or damaged: then it is measured anew."""
    try:
        answers = files.read_json(path)
    except (OSError, ValueError):
        return {}
    return answers if isinstance(answers, dict) else {}


def _measured(framework: Framework, environment: Environment) -> dict[str, Json]:
    """What the framework's module prints. Raises ValueError."""
    said = answer(environment.command("-m", framework.linear_module), SECONDS)
    try:
        if said.code != 0:
            raise ValueError(said.why)
        found = json.loads(said.out.splitlines()[-1])
        if found["library"] not in LIBRARIES:
            raise ValueError(f"{found['library']} is none of {', '.join(LIBRARIES)}")
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"framework.linear=auto: nothing was measured in environment {environment.name}: {error}; "
            f"type framework.linear=onednn or framework.linear=mkl"
        ) from None
    return dict(found)
