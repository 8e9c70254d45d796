"""Virtual machine that consists of Linux namespaces, with its commands and processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from testing.machines import needs

Words = Sequence[str | os.PathLike[str]]
DOWN_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Started:
    """A command that was started on a virtual machine."""

    client: subprocess.Popen[bytes]
    """The `nsenter` process on the host. It ends when the command ends, and returns the
    command's exit code.
    """
    process: psutil.Process
    """The command's process, with its process id on the host. Signals are sent to this process."""

    def end(self) -> None:
        """Kill the command if it is running, and wait until it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.process.kill()
        self.client.wait(DOWN_SECONDS)


@dataclasses.dataclass(frozen=True)
class Machine:
    """A virtual machine.

    The files of the machine are in `folder`, and its /tmp is `folder/tmp`.
    """

    name: str
    address: str
    folder: Path
    init: int
    """Process id on the host of the machine's process 1."""
    created: float
    """Start time of process 1 in seconds since 1970.

    The start time distinguishes process 1 from a later process with the same process id.
    """
    cores: tuple[int, ...] = ()
    """Cores of the host on which the machine's processes run. If empty, the processes run on all
    cores.
    """
    holder: subprocess.Popen[str] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    """The `unshare` process, or None if another process started the machine."""

    def record(self) -> dict[str, object]:
        """Return the fields that another process needs to use this machine."""
        fields = {
            "name": self.name,
            "address": self.address,
            "folder": str(self.folder),
            "init": self.init,
        }
        return {**fields, "created": self.created, "cores": self.cores}

    @property
    def hosts_file(self) -> Path:
        """Return the path of the machine's /etc/hosts.

        Changes must be written in place, because a replaced file would not be visible on the
        machine.
        """
        return self.folder / "hosts"

    @property
    def tmp(self) -> Path:
        """Return the path of the machine's /tmp."""
        return self.folder / "tmp"

    @property
    def is_up(self) -> bool:
        """Return whether the machine is running."""
        try:
            return abs(psutil.Process(self.init).create_time() - self.created) < 1
        except psutil.NoSuchProcess:
            return False

    def enter(self, *kinds: str) -> list[str]:
        """Return the `nsenter` command that enters the machine's namespaces.

        If `kinds` (`net`, `mount`, …) is empty, the command enters all namespaces.
        """
        namespaces = kinds or ("net", "uts", "ipc", "mount", "pid")
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return [
            needs.program("nsenter"),
            "--target",
            str(self.init),
            *user,
            *(f"--{kind}" for kind in namespaces),
            "--",
        ]

    def command(self, arguments: Words, cwd: Path | str = "/", user: str = "") -> list[str]:
        """Return the argv that runs `arguments` on the machine.

        Args:
            arguments: Command to run.
            cwd: Working directory of the command.
            user: Name of the user that runs the command. If empty, the user of this process.
        """
        argv = [*self.enter(), "env", f"--chdir={cwd}"]
        if self.cores:
            argv += ["taskset", "--cpu-list", ",".join(map(str, self.cores))]
        if user:
            entry = pwd.getpwnam(user)
            argv += [
                "setpriv",
                f"--reuid={entry.pw_uid}",
                f"--regid={entry.pw_gid}",
                "--clear-groups",
            ]
        return [*argv, *map(os.fspath, arguments)]

    def run(
        self,
        arguments: Words,
        cwd: Path | str = "/",
        user: str = "",
        timeout: float = 60.0,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the machine and wait until it has ended.

        If the command fails and `check` is true, the method raises AssertionError with the
        command's output.
        """
        done = subprocess.run(
            self.command(arguments, cwd, user), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=timeout, check=False, env=environment(env),
        )  # fmt: skip
        message = (
            f"{self.name}: {' '.join(map(os.fspath, arguments))}:"
            f" {done.returncode}\n{done.stdout}{done.stderr}"
        )
        assert done.returncode == 0 or not check, message
        return done

    def start(
        self,
        arguments: Words,
        log: Path,
        cwd: Path | str = "/",
        user: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Started:
        """Start a command on the machine, and append its output to `log`.

        The command is killed when the machine stops.
        """
        with open(log, "ab") as output:
            client = subprocess.Popen(
                self.command(arguments, cwd, user), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env=environment(env), start_new_session=True
            )  # fmt: skip
        return Started(client, only_child(client))

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the machine except process 1 and zombies."""
        try:
            namespace = _namespace(self.init)
        except OSError:
            return []
        return [
            process
            for process in psutil.process_iter()
            if process.pid != self.init and _is_in(process, namespace)
        ]

    def kill_all(self) -> None:
        """Kill all processes except process 1, including daemons.

        The machine's network stays connected.
        """
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def power_off(self) -> None:
        """Stop the machine permanently, with all of its processes and its network.

        The method returns when all processes have ended.
        """
        if self.is_up:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(self.init)
                process.kill()
                process.wait(DOWN_SECONDS)
        if self.holder is not None:
            self.holder.communicate(timeout=DOWN_SECONDS)

    def bind(self, source: Path, target: str) -> None:
        """Mount `source` at the existing path `target` on this machine only."""
        argv = [*self.enter("mount"), "mount", "--rbind", os.fspath(source), target]
        subprocess.run(argv, check=True, env=environment())

    def open_to_all(self, path: Path) -> None:
        """Make `path` accessible to all users of the machine.

        The method also works if these users cannot access a parent folder, such as root's home.
        """
        closed = next(
            (parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), None
        )
        if closed is not None:
            script = (
                'mkdir -p /run/open && mount --rbind "$0" /run/open &&'
                ' mount -t tmpfs -o mode=755 none "$1" &&'
                ' mkdir -p "$0" && mount --rbind /run/open "$0"'
            )
            self.run(["sh", "-c", script, path, closed])


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables of a command on a machine.

    The variables are the variables of this process, replaced or extended by `env`. The folders of
    daemons are added to PATH.
    """
    variables: dict[str, str] = {
        **os.environ,
        "PATH": f"{os.environ.get('PATH', '')}:{needs.SYSTEM_PATH}",
    }
    return {**variables, **(env or {})}


def only_child(client: subprocess.Popen[Any]) -> psutil.Process:
    """Return the child process that an `nsenter` or `unshare` process forks.

    Raises AssertionError if the `nsenter` or `unshare` process ends without forking.
    """
    deadline = time.monotonic() + DOWN_SECONDS
    while time.monotonic() < deadline and client.poll() is None:
        if children := psutil.Process(client.pid).children():
            return children[0]
        time.sleep(0.005)
    raise AssertionError(f"{client.args} has no process: exit code {client.poll()}")


def _namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/pid")


def _is_in(process: psutil.Process, namespace: str) -> bool:
    try:
        return _namespace(process.pid) == namespace and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.NoSuchProcess):
        return False
