"""Requirements of virtual machines: programs, Debian packages, and permissions.

`python3 testing/machines/needs.py` prints the names of the missing packages. The script needs only
the standard library.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH that includes the folders of daemons, which are missing in the PATH of an unprivileged
user.
"""
NAMESPACES = {
    **dict.fromkeys(("unshare", "nsenter", "setpriv", "taskset"), "util-linux"),
    **dict.fromkeys(("ip", "tc"), "iproute2"),
}
SSH = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
SLURM = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client"}
DOCKER = {"dockerd": "docker.io", "docker": "docker.io", "docker-init": "tini"}
PROGRAMS = {**NAMESPACES, **SSH, **SLURM, **DOCKER}
"""Maps each program to the Debian package that contains it."""


def program(name: str) -> str:
    """Return the path of a program.

    If the program is missing, the function raises FileNotFoundError with the name of the program's
    Debian package.
    """
    found = shutil.which(name, path=SYSTEM_PATH)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: apt-get install {PROGRAMS[name]}")
    return found


def packages(programs: Mapping[str, str]) -> list[str]:
    """Return the Debian packages of the given programs, without repetitions."""
    return sorted(set(programs.values()))


def _absent(programs: Mapping[str, str]) -> dict[str, str]:
    return {
        name: package
        for name, package in programs.items()
        if shutil.which(name, path=SYSTEM_PATH) is None
    }


def missing(*groups: dict[str, str]) -> str:
    """Return the reason why virtual machines with these programs cannot run here.

    The string is empty if they can run.
    """
    absent = _absent(
        {name: package for group in (NAMESPACES, *groups) for name, package in group.items()}
    )
    if absent:
        return f"{', '.join(absent)} not installed: apt-get install {' '.join(packages(absent))}"
    if groups and os.geteuid() != 0:
        return (
            "daemons on machines need root, because they change users; machines without daemons"
            " do not"
        )
    return _refused()


@functools.cache
def _refused() -> str:
    """Return the kernel's error message if the kernel does not permit namespaces.

    The string is empty if namespaces are permitted.
    """
    done = subprocess.run(
        [*unshare_command(), "true"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": SYSTEM_PATH},
    )
    who = "root" if os.geteuid() == 0 else "a plain user (user namespaces)"
    return f"{who} may not create namespaces here: {done.stderr.strip()}" if done.returncode else ""


def unshare_command(user: bool = True) -> list[str]:
    """Return the `unshare` command that creates all namespaces of a machine.

    The started process is killed when `unshare` ends.

    Args:
        user: True to create a user namespace as well if the current user is not root. The current
            user is root in this namespace. False inside of such a namespace.
    """
    namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid"]
    if user and os.geteuid() != 0:
        namespaces += ["--user", "--map-root-user"]
    return [program("unshare"), *namespaces, "--fork", "--kill-child=KILL", "--mount-proc"]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{package}\n" for package in packages(_absent(PROGRAMS))))
