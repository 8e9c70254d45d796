"""What must be said of a way to start agents on other machines. Standard library only: agents use this room too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.common.run_config import LaunchConfig


@dataclass(frozen=True)
class Launcher:
    """A way to start agents. A package brings one under the entry-point group `suite.launchers`: then it is `launch=NAME`."""

    name: str
    machines: Callable[[LaunchConfig, Mapping[str, str]], list[str]]
    """(`launch.*`, environment variables) to all machines that it may take, in order. Raises ValueError."""
    words: Callable[[str, LaunchConfig, Sequence[str]], list[str]]
    """(machine, `launch.*`, the agent's command) to the argv that runs it there, with the argv's own input and output."""
    ending: Callable[[str, LaunchConfig, Mapping[str, Any]], list[str]] = lambda name, launch, facts: []
    """(machine, `launch.*`, the agent's facts) to the argv that ends it without its help; empty: there is none."""
    has: str = "{} named"
    """How many machines it has, in words."""
    more: str = "name more in launch.hosts"
    """What to do for `{}` machines where it has fewer."""
