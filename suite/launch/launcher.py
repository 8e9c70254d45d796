"""Launcher definition: how agents are started on remote machines.

Agents import this package, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from suite.common.run_config import LaunchConfig
from suite.launch.host_facts import HostFacts


@dataclass(frozen=True)
class Launcher:
    """Definition of a launcher, which starts agents on remote machines.

    A package registers it under the entry-point group `suite.launchers`. Users select it with
    `launch=NAME`.
    """

    name: str
    list_hosts: Callable[[LaunchConfig, Mapping[str, str]], list[str]]
    """Returns the names of all available machines, in order.

    The arguments are `launch.*` and the environment variables.

    Raises ValueError if there are none or the configuration is invalid.
    """
    build_argv: Callable[[str, LaunchConfig, Sequence[str]], list[str]]
    """Returns the argv that runs the agent's command on a machine and connects its standard input
    and output.

    The arguments are the name of the machine, `launch.*`, and the agent's command.
    """
    build_kill_argv: Callable[[str, LaunchConfig, HostFacts], list[str]] = (
        lambda name, launch, facts: []
    )
    """Returns the argv that ends an agent without its cooperation. Empty: there is no such command.

    The arguments are the name of the machine, `launch.*`, and the description of the machine.
    """
    available_text: str = "{} named"
    """Phrase for the number of available machines (`{}`), for an error message."""
    shortage_hint: str = "name more in launch.hosts"
    """Instruction for an error message: how to get `{}` machines if fewer are available."""
