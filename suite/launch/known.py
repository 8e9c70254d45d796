"""The frameworks that are registered here: what the runner says of one by its name, it asks its value."""

from __future__ import annotations

import contextlib

from suite.common import registry
from suite.launch.base import TUNING_VARIABLES, Framework


def known() -> dict[str, Framework]:
    """By name; one that cannot be imported is as unknown as one that is not installed: logs are read without it."""
    frameworks = {}
    for name in registry.names(registry.FRAMEWORKS):
        with contextlib.suppress(ImportError, AttributeError):
            frameworks[name] = registry.load_framework(name)
    return {name: one for name, one in frameworks.items() if isinstance(one, Framework)}


def title_of(name: str) -> str:
    """`PyTorch` of `pytorch`; a name that nobody registered as it is."""
    framework = known().get(name)
    return framework.title or name if framework else name


def tuning_variables() -> tuple[str, ...]:
    """Beginnings of the names of variables by which a user tunes workers of any framework."""
    return (*TUNING_VARIABLES, *(start for one in known().values() for start in one.tuning_variables))
