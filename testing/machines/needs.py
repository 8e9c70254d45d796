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
"""PATH with the folders of daemons, which an unprivileged user's PATH does not contain."""
NAMESPACES = {
    **dict.fromkeys(("unshare", "nsenter", "setpriv", "taskset"), "util-linux"),
    **dict.fromkeys(("ip", "tc"), "iproute2"),
}
SSH = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
SLURM = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client"}
DOCKER = {"dockerd": "docker.io", "docker": "docker.io", "docker-init": "tini"}
PROGRAMS = {**NAMESPACES, **SSH, **SLURM, **DOCKER}
"""Debian package of each program."""


def program(name: str) -> str:
    """Return the path of a program.

    The function raises FileNotFoundError with the name of the Debian package if the program is
    missing.
    """
    found = shutil.which(name, path=SYSTEM_PATH)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: apt-get install {PROGRAMS[name]}")
    return found


def packages(programs: Mapping[str, str]) -> list[str]:
    """Return the distinct Debian packages of these programs."""
    return sorted(set(programs.values()))


def _absent(programs: Mapping[str, str]) -> dict[str, str]:
    return {
        name: package
        for name, package in programs.items()
        if shutil.which(name, path=SYSTEM_PATH) is None
    }


def missing(*groups: dict[str, str]) -> str:
    """Return why machines with these programs are not available here, or ""."""
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
    """Return the kernel's error message if namespaces are not permitted, or ""."""
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
    """Return the `unshare` command with all namespaces of a machine.

    The started process is killed when `unshare` ends. `user` is true outside of a user namespace:
    an unprivileged user then also needs a user namespace, in which the user is root.
    """
    namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid"]
    if user and os.geteuid() != 0:
        namespaces += ["--user", "--map-root-user"]
    return [program("unshare"), *namespaces, "--fork", "--kill-child=KILL", "--mount-proc"]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{package}\n" for package in packages(_absent(PROGRAMS))))
