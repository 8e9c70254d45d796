"""Registered frameworks, and functions that look up a framework's definition."""

from __future__ import annotations

import contextlib

from suite.common import registry
from suite.launch.base import TUNING_VARIABLES, Framework


def registered_frameworks() -> dict[str, Framework]:
    """Return the registered frameworks by name.

    A framework whose package cannot be imported is excluded, as if the framework were not
    installed. Reading logs does not require the framework.
    """
    loaded = {}
    for name in registry.names(registry.FRAMEWORKS):
        with contextlib.suppress(ImportError, AttributeError):
            loaded[name] = registry.load_framework(name)
    return {
        name: framework for name, framework in loaded.items() if isinstance(framework, Framework)
    }


def title_of(name: str) -> str:
    """Return the display name of a framework, such as `PyTorch` for `pytorch`.

    If no framework with this name is registered, the name is returned unchanged.
    """
    framework = registered_frameworks().get(name)
    return framework.title or name if framework else name


def tuning_variables() -> tuple[str, ...]:
    """Return the prefixes of environment variables that tune workers.

    The tuple combines the prefixes of all registered frameworks.
    """
    return (
        *TUNING_VARIABLES,
        *(
            prefix
            for framework in registered_frameworks().values()
            for prefix in framework.tuning_variables
        ),
    )
