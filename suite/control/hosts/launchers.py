"""Select the machines that a command may use, and start an agent on each machine.

Agents are started with srun, ssh, or a launcher that a plugin defines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from suite.agent.message_stream import MessageStream
from suite.common import registry
from suite.common.paths import PROJECT, expand_user
from suite.common.run_config import LaunchConfig
from suite.control.hosts.connection import AgentConnection, Client
from suite.launch.children import die_with_parent
from suite.launch.host_facts import HostFacts
from suite.launch.launcher import Launcher
from workloads import files

_NAME = re.compile(r"[A-Za-z0-9_][\w.@:-]*")
NOT_THERE = 66
"""Exit code if the suite or its Python is missing on a machine (EX_NOINPUT of sysexits.h)."""


def resolve_launcher_name(launch: LaunchConfig, env: Mapping[str, str] = os.environ) -> str:
    """Return the name of the launcher that a command uses.

    The name may also be `local` or `external`. `launch=auto` is resolved with the environment
    variables of this process.
    """
    if launch.by != "auto":
        return str(launch.by)
    if launch.hosts or launch.hostfile:
        return "ssh"
    return "slurm" if in_allocation(env) else "local"


def in_allocation(env: Mapping[str, str] = os.environ) -> bool:
    """Check whether this process runs in a SLURM allocation."""
    return bool(env.get("SLURM_JOB_ID") and env.get("SLURM_JOB_NODELIST"))


def machine_names(launch: LaunchConfig, env: Mapping[str, str] = os.environ) -> list[str]:
    """Return all machines that a command's launcher may use, in order.

    Raises ValueError if the settings are invalid.
    """
    return launcher(resolve_launcher_name(launch, env)).list_hosts(launch, env)


def hosts_from_options(launch: LaunchConfig, env: Mapping[str, str]) -> list[str]:
    """Return the machines in `launch.hosts` or `launch.hostfile`.

    Raises ValueError if the settings are invalid.
    """
    if launch.hosts and launch.hostfile:
        raise ValueError(
            "launch.hosts and launch.hostfile are both set. Omit launch.hosts or launch.hostfile"
        )
    hosts = launch.hosts or (_in_file(launch.hostfile) if launch.hostfile else [])
    if not hosts:
        raise ValueError(
            f"launch={launch.by} needs machines. Set launch.hosts=[a,b] or launch.hostfile=FILE"
        )
    names = expanded([str(item) for item in ([hosts] if isinstance(hosts, str) else hosts)])
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise ValueError(f"launch: machine {duplicate} is listed twice. List each machine once")
    return names


def expanded(texts: Sequence[str]) -> list[str]:
    """Expand host lists in SLURM's format, such as `node[1-3,7]`, to host names.

    Raises ValueError for an invalid list.
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        names = [str(name) for text in texts for name in NodeSet(text)]
    except NodeSetException as error:
        raise ValueError(
            f"{', '.join(texts)}: expected a list of hosts, for example node[1-4] or a,b ({error})"
        ) from None
    invalid = next((name for name in names if not _NAME.fullmatch(name)), None)
    # a leading dash is invalid, because ssh would interpret a name such as `-oProxyCommand=…` as an
    # option
    if invalid is not None:
        raise ValueError(
            f"{invalid}: expected a host name. Allowed: letters, digits, _, and after the first"
            " character . - @ :"
        )
    return names


def _in_file(path: str) -> list[str]:
    """Return the first word of each line in an MPI hosts file (`name slots=8`).

    Raises ValueError if the file is invalid.
    """
    try:
        lines = files.read_text(expand_user(path)).splitlines()
    except OSError as error:
        raise ValueError(f"launch.hostfile={path}: {error.strerror}") from None
    fields = [line.partition("#")[0].split() for line in lines]
    names = [line[0] for line in fields if line]
    if not names:
        raise ValueError(f"launch.hostfile={path} names no machine. Write a machine on each line")
    return names


def agent_argv(lease_seconds: float) -> list[str]:
    """Return the command that starts an agent.

    The command uses the Python and the checkout of the controller.
    """
    project, python = shlex.quote(str(PROJECT)), shlex.quote(sys.executable)
    missing = shlex.quote(
        f"the suite is not in {PROJECT} on that machine. Install it in the same folder on all"
        " machines"
    )
    no_python = shlex.quote(
        f"{sys.executable} is missing on that machine. Install the suite in the same folder on all"
        " machines"
    )
    text = (
        f"cd {project} 2>/dev/null && [ -d suite/agent ] || {{ echo {missing} >&2; exit"
        f" {NOT_THERE}; }}; [ -x {python} ] || {{ echo {no_python} >&2; exit {NOT_THERE}; }};"
        f" PYTHONSAFEPATH= exec {python} -m suite.agent --lease {lease_seconds:g}"
    )
    return ["sh", "-c", text]


def srun_argv(name: str, env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the srun command that runs a single task on a machine of the allocation.

    The srun step gets all CPUs of the machine. The step may overlap with the step that runs this
    process.
    """
    cpus = [
        int(count)
        for count in re.findall(r"(\d+)(?:\(x\d+\))?", env.get("SLURM_JOB_CPUS_PER_NODE", ""))
    ]
    width = [f"--cpus-per-task={min(cpus)}"] if cpus else []
    return [
        "srun",
        "--overlap",
        "-N1",
        "-n1",
        f"--nodelist={name}",
        *width,
        "--cpu-bind=none",
        "--unbuffered",
        "--quiet",
    ]


def ssh_argv(name: str, wait_seconds: float) -> list[str]:
    """Return the ssh command for a machine, without a terminal and without prompts.

    A terminal would modify the bytes of the messages. Without a terminal, the agent ends when its
    input closes or its lease expires.
    """
    options = ("BatchMode=yes", f"ConnectTimeout={max(1, int(wait_seconds) - 2)}")
    return ["ssh", "-T", *(word for option in options for word in ("-o", option)), name]


SLURM = Launcher(
    "slurm",
    list_hosts=lambda launch, env: expanded([env["SLURM_JOB_NODELIST"]]),
    build_argv=lambda name, launch, argv: [*srun_argv(name), *argv],
    build_kill_argv=lambda name, launch, facts: ["scancel", facts.slurm_step],
    available_text="the allocation has {}",
    shortage_hint="allocate more: salloc -N{}",
)
SSH = Launcher(
    "ssh",
    list_hosts=hosts_from_options,
    build_argv=lambda name, launch, argv: [*ssh_argv(name, launch.wait_seconds), shlex.join(argv)],
    build_kill_argv=lambda name, launch, facts: [
        *ssh_argv(name, launch.wait_seconds),
        f"kill -KILL {facts.pid}",
    ],
)


def launcher(name: str) -> Launcher:
    """Return a launcher by name. A plugin may define the launcher.

    Raises ValueError, with the allowed names, if the launcher does not exist.
    """
    return next(
        (builtin for builtin in (SLURM, SSH) if builtin.name == name), None
    ) or registry.load_launcher(name)


def start_agent(name: str, by: str, launch: LaunchConfig) -> AgentConnection:
    """Start an agent on a machine, and return the connection to the agent.

    Args:
        name: Name of the machine.
        by: Name of the launcher.
        launch: `launch.*` settings of the command.

    Raises:
        ValueError: The launcher is unknown, or its program is not installed on this machine.
    """
    selected = launcher(by)
    argv = selected.build_argv(name, launch, agent_argv(launch.lease_seconds))
    return connect_agent(
        name, argv, launch, lambda facts: selected.build_kill_argv(name, launch, facts)
    )


def connect_agent(
    name: str,
    argv: Sequence[str],
    launch: LaunchConfig,
    ending: Callable[[HostFacts], list[str]] = lambda facts: [],
) -> AgentConnection:
    """Run a command that starts an agent, and return the connection to the agent.

    Args:
        name: Name of the machine.
        argv: The command. The controller communicates with the agent through the command's standard
            input and output.
        launch: `launch.*` settings of the command.
        ending: Function that returns the command that kills the agent, given the machine's
            description. The returned list is empty if no such command exists.

    Raises:
        ValueError: The program is not installed on this machine.
    """
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - read when the connection has ended
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # in a new session, because only the controller handles Ctrl-C
            preexec_fn=die_with_parent,
        )
    except FileNotFoundError:
        raise ValueError(
            f"{argv[0]} is not installed here. Install it, or set a different launch=…"
        ) from None
    assert process.stdin is not None
    assert process.stdout is not None
    stream = MessageStream(process.stdout, process.stdin)
    return AgentConnection(
        name,
        stream,
        launch.lease_seconds,
        launch.wait_seconds,
        Client(process, Path(argv[0]).name, ending, errors),
    )
