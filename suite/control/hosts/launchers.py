"""Which machines a command may take, and how an agent is started on each: srun, ssh, or what a package brings."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from suite.agent.message_stream import Message, MessageStream
from suite.common import registry
from suite.common.paths import PROJECT, expand_user
from suite.common.run_config import LaunchConfig
from suite.control.hosts.connection import AgentConnection, Client
from suite.launch.children import die_with_parent
from suite.launch.launcher import Launcher
from workloads import files

_NAME = re.compile(r"[A-Za-z0-9_][\w.@:-]*")
NOT_THERE = 66  # EX_NOINPUT of sysexits.h


def way(launch: LaunchConfig, variables: Mapping[str, str] = os.environ) -> str:
    """The name of a launcher, `local` or `external`: what `launch=auto` means here."""
    if launch.by != "auto":
        return str(launch.by)
    if launch.hosts or launch.hostfile:
        return "ssh"
    return "slurm" if in_allocation(variables) else "local"


def in_allocation(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether SLURM has given this process machines."""
    return bool(variables.get("SLURM_JOB_ID") and variables.get("SLURM_JOB_NODELIST"))


def machine_names(launch: LaunchConfig, variables: Mapping[str, str] = os.environ) -> list[str]:
    """All machines that the launcher of a command may take, in order. Raises ValueError."""
    return launcher(way(launch, variables)).machines(launch, variables)


def named(launch: LaunchConfig, variables: Mapping[str, str]) -> list[str]:
    """Those of `launch.hosts` or `launch.hostfile`. Raises ValueError."""
    if launch.hosts and launch.hostfile:
        raise ValueError("launch.hosts and launch.hostfile name machines both; type one of them")
    given = launch.hosts or (_in_file(launch.hostfile) if launch.hostfile else [])
    if not given:
        raise ValueError(f"launch={launch.by}: which machines? type launch.hosts=[a,b] or launch.hostfile=FILE")
    names = expanded([str(item) for item in ([given] if isinstance(given, str) else given)])
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"launch: machine {twice} is named twice; name every machine once")
    return names


def expanded(texts: Sequence[str]) -> list[str]:
    """Host lists as SLURM writes them, `node[1-3,7]`, to names. Raises ValueError for one that is none."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        names = [str(name) for text in texts for name in NodeSet(text)]
    except NodeSetException as error:
        raise ValueError(
            f"{', '.join(texts)}: not a list of hosts ({error}); type for example node[1-4] or a,b"
        ) from None
    strange = next((name for name in names if not _NAME.fullmatch(name)), None)
    if strange is not None:  # `-oProxyCommand=…` would be an option of ssh
        raise ValueError(f"{strange}: not a name of a host; allowed: letters, digits, and . _ - @ : after the first")
    return names


def _in_file(path: str) -> list[str]:
    """The first word of each line, as hosts files of MPI have it (`name slots=8`). Raises ValueError."""
    try:
        lines = files.read_text(expand_user(path)).splitlines()
    except OSError as error:
        raise ValueError(f"launch.hostfile={path}: {error.strerror}") from None
    words = [line.partition("#")[0].split() for line in lines]
    names = [line[0] for line in words if line]
    if not names:
        raise ValueError(f"launch.hostfile={path} names no machine; write one a line")
    return names


def agent_argv(lease_seconds: float) -> list[str]:
    """Return the command that starts an agent, in the controller's Python and the controller's checkout."""
    project, python = shlex.quote(str(PROJECT)), shlex.quote(sys.executable)
    missing = shlex.quote(f"the suite is not in {PROJECT} there: install it at the same place on every machine")
    no_python = shlex.quote(f"{sys.executable} is not there: install the suite at the same place on every machine")
    text = (
        f"cd {project} 2>/dev/null && [ -d suite/agent ] || {{ echo {missing} >&2; exit {NOT_THERE}; }}; "
        f"[ -x {python} ] || {{ echo {no_python} >&2; exit {NOT_THERE}; }}; "
        f"PYTHONSAFEPATH= exec {python} -m suite.agent --lease {lease_seconds:g}"
    )
    return ["sh", "-c", text]


def srun_argv(name: str, variables: Mapping[str, str] = os.environ) -> list[str]:
    """A step of one task on one machine of the allocation, beside the step that this process may be of, with all its CPUs."""
    cpus = [int(count) for count in re.findall(r"(\d+)(?:\(x\d+\))?", variables.get("SLURM_JOB_CPUS_PER_NODE", ""))]
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
    """No terminal: it would change bytes, and the agent ends with its input and its lease anyway. Nothing is asked for."""
    options = ("BatchMode=yes", f"ConnectTimeout={max(1, int(wait_seconds) - 2)}")
    return ["ssh", "-T", *(word for option in options for word in ("-o", option)), name]


SLURM = Launcher(
    "slurm",
    machines=lambda launch, variables: expanded([variables["SLURM_JOB_NODELIST"]]),
    words=lambda name, launch, words: [*srun_argv(name), *words],
    ending=lambda name, launch, facts: ["scancel", facts["slurm_step"]],
    has="the allocation has {}",
    more="allocate more: salloc -N{}",
)
SSH = Launcher(
    "ssh",
    machines=named,
    words=lambda name, launch, words: [*ssh_argv(name, launch.wait_seconds), shlex.join(words)],
    ending=lambda name, launch, facts: [*ssh_argv(name, launch.wait_seconds), f"kill -KILL {int(facts['pid'])}"],
)


def launcher(name: str) -> Launcher:
    """The launcher called `name`, which may be a package's. Raises ValueError with the allowed names."""
    return next((own for own in (SLURM, SSH) if own.name == name), None) or registry.load_launcher(name)


def started(name: str, by: str, launch: LaunchConfig) -> AgentConnection:
    """The link to an agent that starts now on a machine. Raises ValueError where what starts it is not here."""
    found = launcher(by)
    words = found.words(name, launch, agent_argv(launch.lease_seconds))
    return connect_agent(name, words, launch, lambda facts: found.ending(name, launch, facts))


def connect_agent(
    name: str, words: Sequence[str], launch: LaunchConfig, ending: Callable[[Message], list[str]] = lambda facts: []
) -> AgentConnection:
    """The link to the agent that a command starts on its own standard input and output; `ending` ends it from outside."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - read when the line has ended
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is the controller's
            preexec_fn=die_with_parent,
        )
    except FileNotFoundError:
        raise ValueError(f"{words[0]} is not installed here; install it, or type another launch=…") from None
    assert process.stdin is not None
    assert process.stdout is not None
    wire = MessageStream(process.stdout, process.stdin)
    return AgentConnection(
        name,
        wire,
        launch.lease_seconds,
        launch.wait_seconds,
        Client(process, Path(words[0]).name, ending, errors),
    )
