"""One machine of namespaces: commands and processes on it."""

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
    """A command that runs on a machine."""

    client: subprocess.Popen[bytes]
    """`nsenter`, here: it ends with the command, and has its exit code."""
    process: psutil.Process
    """The command itself, by its id as seen from here: what signals go to."""

    def end(self) -> None:
        """Kill it, if it runs, and wait for it."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.process.kill()
        self.client.wait(DOWN_SECONDS)


@dataclasses.dataclass(frozen=True)
class Machine:
    """One machine. Files of `folder` are its own; `folder/tmp` is what it has at /tmp."""

    name: str
    address: str
    folder: Path
    init: int
    """Its process 1, by its id as seen from here."""
    created: float
    """When that was started, in seconds since 1970: tells it from a later process of the same id.
    """
    cores: tuple[int, ...] = ()
    """Of this machine's, on which alone its processes run; empty: on all."""
    holder: subprocess.Popen[str] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    """`unshare`, where this process started it."""

    def record(self) -> dict[str, object]:
        """What another process needs to know of it."""
        own = {
            "name": self.name,
            "address": self.address,
            "folder": str(self.folder),
            "init": self.init,
        }
        return {**own, "created": self.created, "cores": self.cores}

    @property
    def hosts_file(self) -> Path:
        """What it has at /etc/hosts; to be written in place."""
        return self.folder / "hosts"

    @property
    def tmp(self) -> Path:
        """What it has at /tmp."""
        return self.folder / "tmp"

    @property
    def is_up(self) -> bool:
        """True until it is powered off."""
        try:
            return abs(psutil.Process(self.init).create_time() - self.created) < 1
        except psutil.NoSuchProcess:
            return False

    def enter(self, *kinds: str) -> list[str]:
        """`nsenter` into its namespaces, all or those of `kinds` (`net`, `mount`, …)."""
        own = kinds or ("net", "uts", "ipc", "mount", "pid")
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return [
            needs.program("nsenter"),
            "--target",
            str(self.init),
            *user,
            *(f"--{kind}" for kind in own),
            "--",
        ]

    def command(self, arguments: Words, cwd: Path | str = "/", user: str = "") -> list[str]:
        """The argv that runs `arguments` there, in folder `cwd`, as `user` if one is named."""
        words = [*self.enter(), "env", f"--chdir={cwd}"]
        if self.cores:
            words += ["taskset", "--cpu-list", ",".join(map(str, self.cores))]
        if user:
            entry = pwd.getpwnam(user)
            words += [
                "setpriv",
                f"--reuid={entry.pw_uid}",
                f"--regid={entry.pw_gid}",
                "--clear-groups",
            ]
        return [*words, *map(os.fspath, arguments)]

    def run(
        self,
        arguments: Words,
        cwd: Path | str = "/",
        user: str = "",
        timeout: float = 60.0,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end.

        Raises AssertionError with all that it wrote if it fails and `check` is true.
        """
        done = subprocess.run(
            self.command(arguments, cwd, user), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout, check=False, env=environment(env),
        )  # fmt: skip
        said = (
            f"{self.name}: {' '.join(map(os.fspath, arguments))}:"
            f" {done.returncode}\n{done.stdout}{done.stderr}"
        )
        assert done.returncode == 0 or not check, said
        return done

    def start(
        self,
        arguments: Words,
        log: Path,
        cwd: Path | str = "/",
        user: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Started:
        """Start a command there, its output appended to `log`; it ends with the machine at the
        latest.
        """
        with open(log, "ab") as output:
            client = subprocess.Popen(
                self.command(arguments, cwd, user), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=environment(env), start_new_session=True
            )  # fmt: skip
        return Started(client, only_child(client))

    def processes(self) -> list[psutil.Process]:
        """All of its processes but process 1; zombies are none."""
        try:
            own = _namespace(self.init)
        except OSError:
            return []
        return [
            process
            for process in psutil.process_iter()
            if process.pid != self.init and _is_in(process, own)
        ]

    def kill_all(self) -> None:
        """Kill every process but process 1, daemons too; its network stays."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def power_off(self) -> None:
        """End it for good: process 1, with it all others, and its network.

        Waits until it is gone.
        """
        if self.is_up:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(self.init)
                process.kill()
                process.wait(DOWN_SECONDS)
        if self.holder is not None:
            self.holder.communicate(timeout=DOWN_SECONDS)

    def bind(self, source: Path, target: str) -> None:
        """`source` stands at `target`, which exists, on this machine alone."""
        words = [*self.enter("mount"), "mount", "--rbind", os.fspath(source), target]
        subprocess.run(words, check=True, env=environment())

    def open_to_all(self, path: Path) -> None:
        """Every user of the machine reaches `path`, whatever folders above it are closed here, such
        as root's home.
        """
        closed = next(
            (parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), None
        )
        if closed is not None:
            script = 'mkdir -p /run/open && mount --rbind "$0" /run/open && mount -t tmpfs -o mode=755 none "$1" && ' \
                'mkdir -p "$0" && mount --rbind /run/open "$0"'  # fmt: skip
            self.run(["sh", "-c", script, path, closed])


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables of a command on a machine: those of this process, its PATH with the folders of
    daemons, and `env`.
    """
    own: dict[str, str] = {
        **os.environ,
        "PATH": f"{os.environ.get('PATH', '')}:{needs.SYSTEM_PATH}",
    }
    return {**own, **(env or {})}


def only_child(client: subprocess.Popen[Any]) -> psutil.Process:
    """The process that `nsenter` or `unshare` forks.

    Raises AssertionError if it ends without having one.
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
