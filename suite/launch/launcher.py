"""Launcher definition: how agents are started on remote machines.

Agents also import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from suite.common.run_config import LaunchConfig
from suite.launch.host_facts import HostFacts


@dataclass(frozen=True)
class Launcher:
    """Definition of a launcher, which starts agents on remote machines.

    A package registers the definition in the entry-point group `suite.launchers`. Users select a
    launcher with `launch=NAME`.
    """

    name: str
    list_hosts: Callable[[LaunchConfig, Mapping[str, str]], list[str]]
    """Function that returns the names of all available machines, in order.

    The function's arguments are the `launch.*` settings and the environment variables.

    The function raises ValueError if no machines are available or the configuration is invalid.
    """
    build_argv: Callable[[str, LaunchConfig, Sequence[str]], list[str]]
    """Function that returns the command line that starts an agent on a machine.

    The started command must connect its standard input and output to the agent's standard input and
    output. The function's arguments are the name of the machine, the `launch.*` settings, and the
    agent's command.
    """
    build_kill_argv: Callable[[str, LaunchConfig, HostFacts], list[str]] = (
        lambda name, launch, facts: []
    )
    """Function that returns the command line that kills an agent, even if the agent does not
    respond. The list is empty if no such command exists.

    The function's arguments are the name of the machine, the `launch.*` settings, and the
    description of the machine.
    """
    available_text: str = "{} named"
    """Phrase for error messages about too few machines. `{}` is replaced by the number of available
    machines.
    """
    shortage_hint: str = "name more in launch.hosts"
    """Hint for error messages about too few machines, which explains how to get more. `{}` is
    replaced by the number of required machines.
    """
