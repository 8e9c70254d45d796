"""What machines need of this one; a line for each thing that is missing, with the Debian package
that has it.

As a program (`python3 testing/machines/needs.py`, with the standard library alone) it prints the
packages that are missing.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where daemons lie, which a plain user's PATH leaves out."""
NAMESPACES = {
    **dict.fromkeys(("unshare", "nsenter", "setpriv", "taskset"), "util-linux"),
    **dict.fromkeys(("ip", "tc"), "iproute2"),
}
SSH = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
SLURM = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client"}
DOCKER = {"dockerd": "docker.io", "docker": "docker.io", "docker-init": "tini"}
PROGRAMS = {**NAMESPACES, **SSH, **SLURM, **DOCKER}
"""Program to the Debian package that has it."""


def program(name: str) -> str:
    """Its path. Raises FileNotFoundError, naming the Debian package."""
    found = shutil.which(name, path=SYSTEM_PATH)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: apt-get install {PROGRAMS[name]}")
    return found


def packages(programs: Mapping[str, str]) -> list[str]:
    """The Debian packages of these programs, each once."""
    return sorted(set(programs.values()))


def _absent(programs: Mapping[str, str]) -> dict[str, str]:
    return {
        name: package
        for name, package in programs.items()
        if shutil.which(name, path=SYSTEM_PATH) is None
    }


def missing(*groups: dict[str, str]) -> str:
    """Why machines with these programs cannot be had here, in one line; empty: they can."""
    absent = _absent(
        {name: package for group in (NAMESPACES, *groups) for name, package in group.items()}
    )
    if absent:
        return f"{', '.join(absent)} not installed: apt-get install {' '.join(packages(absent))}"
    if groups and os.geteuid() != 0:
        return (
            "daemons on machines need root: they change users, and a plain user's namespace has"
            " one; machines alone do not"
        )
    return _refused()


@functools.cache
def _refused() -> str:
    """What the kernel says against namespaces; empty: nothing."""
    own = {"PATH": SYSTEM_PATH}
    done = subprocess.run(
        [*unshare_command(), "true"], capture_output=True, text=True, check=False, env=own
    )
    who = "root" if os.geteuid() == 0 else "a plain user (user namespaces)"
    return f"{who} may make no namespaces here: {done.stderr.strip()}" if done.returncode else ""


def unshare_command(user: bool = True) -> list[str]:
    """`unshare` with all that a machine has of its own; what is started dies with it.

    `user`: a plain user needs a namespace of users too, to be root there; false inside one.
    """
    own = ["--net", "--uts", "--ipc", "--mount", "--pid"]
    if user and os.geteuid() != 0:
        own += ["--user", "--map-root-user"]
    return [program("unshare"), *own, "--fork", "--kill-child=KILL", "--mount-proc"]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{package}\n" for package in packages(_absent(PROGRAMS))))
