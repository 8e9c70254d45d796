"""Run a `suite` command on several machines, for example `suite doctor --hosts a,b`.

Each line of output is printed with the name of its machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from suite.agent.messages import RUN_COMMAND, CommandOutput
from suite.common.run_config import LaunchConfig
from suite.control.hosts import launchers
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.host_control import ConnectionLost
from suite.control.hosts.remote_host import suite_variables
from suite.launch.children import exit_text

MAX_SECONDS = 6 * 3600.0
"""Time limit for a command. The command may read every image of a data set, or download an
environment.
"""
NOT_CARRIED_OUT = 2
"""Exit code for a machine that cannot be reached or cannot start the command.

A user error has the same exit code.
"""


def run_on_hosts(
    arguments: Sequence[str],
    launch: LaunchConfig,
    print_line: Callable[[str], None],
    env: Mapping[str, str] = os.environ,
) -> int:
    """Run `suite ARGUMENTS` on all machines in parallel, and return the highest exit code.

    Args:
        arguments: Arguments of `suite`.
        launch: `launch.*` settings of the command.
        print_line: Function that receives each output line, in the order of the machines. Lines are
            prefixed with the machine's name. For a machine that cannot be reached, the line
            contains the reason.
        env: Environment variables.

    Raises:
        ValueError: The machines are not configured, or the program that connects to them is not
            installed on this machine.
    """
    by, connections = launchers.resolve_launcher_name(launch, env), list[AgentConnection]()
    command = [sys.executable, "-m", "suite.cli", *arguments]
    names = launchers.machine_names(launch, env)
    with ThreadPoolExecutor(len(names)) as pool:
        try:
            # Start all agents in this thread, because the kernel kills a client process when the
            # thread that started the client ends.
            for name in names:
                connections.append(launchers.start_agent(name, by, launch))
            codes = []
            for connection, response in [
                (connection, pool.submit(_answer, connection, command))
                for connection in connections
            ]:
                # Print the output of the machines in the order of the machines, each output as
                # early as possible.
                code, lines = response.result()
                codes.append(code)
                for line in lines:
                    print_line(f"{connection.name}: {line}")
            return max(codes)
        finally:
            for connection in connections:
                connection.close()


def _answer(connection: AgentConnection, command: Sequence[str]) -> tuple[int, list[str]]:
    """Run a command on a machine, and return its exit code and output lines."""
    order = {"command": list(command), "most_seconds": MAX_SECONDS, "env": suite_variables()}
    try:
        connection.greet()
        return _read(connection.call(RUN_COMMAND, MAX_SECONDS, **order))
    except (ValueError, ConnectionLost) as error:
        return NOT_CARRIED_OUT, [str(error).removeprefix(f"{connection.name}: ")]


def _read(response: CommandOutput) -> tuple[int, list[str]]:
    """Return the exit code and output lines of a command that an agent ran."""
    code = response.code
    lines = [
        line
        for line in (*response.output.splitlines(), *response.errors.splitlines())
        if line.strip()
    ]
    if code < 0:
        return 128 - code, [*lines, f"ended with {exit_text(code)}"]
    return code, lines or [f"no output, exit code {code}"]
