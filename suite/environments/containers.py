"""Build command lines for docker, podman, apptainer, and enroot.

The module also checks container images and ends leftover containers.

A container is implemented as a command prefix. The container shares the machine's network, shared
memory, and process ids, so that collectives and supervision work as without a container. Code,
plugins, and data are mounted read-only. Only the folder of the run is writable. The command lines
for docker were tested. The command lines for podman, apptainer, and enroot follow their manuals and
were not tested.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from suite.common.paths import expand_user
from suite.common.run_config import EnvironmentConfig
from suite.environments.captured_command import CommandResult, captured, last_line
from suite.launch.registered_frameworks import tuning_variables
from suite.launch.worker_env import inherited_variables

PROGRAMS = ("docker", "podman", "apptainer", "enroot")
"""Container programs, which are also values of `environment=`."""
WITH_DAEMON = ("docker", "podman")
"""Container programs whose containers are not child processes of the client, and outlive the
client.
"""
ANSWER_SECONDS = 8.0
"""Timeout in seconds for a query to a container program.

The limit is short because the user waits for the query before the run starts.
"""
RUN_LABEL, OWNER_LABEL = "suite.run", "suite.owner"
PASSED_VARIABLES = ("CUDA_", "NVIDIA_")
"""Prefixes of environment variables that are passed into a container. The variables tune devices,
collectives, and threads.
"""
OWN_VARIABLES = {
    "HOME": "/tmp",
    "USER": "suite",
    "LOGNAME": "suite",
    "PYTHONNOUSERSITE": "1",
    "PYTHONSAFEPATH": "1",
}
"""Environment variables that are set in a container. Libraries read the user's name and home
folder, which may not exist in the container, so these variables replace both.
"""


@dataclass(frozen=True)
class Mount:
    """A file or folder of the machine that is mounted in the container."""

    source: str
    target: str
    writable: bool = False

    @classmethod
    def read(cls, text: str) -> Mount:
        """Parse `HOST`, `HOST:INSIDE`, or `HOST:INSIDE:rw`.

        Raises ValueError if the text has a different format.
        """
        source, target, mode, *rest = [*text.split(":"), "", ""]
        if (
            not source.startswith("/")
            or target[:1] not in ("", "/")
            or mode not in ("", "ro", "rw")
            or any(rest)
        ):
            raise ValueError(
                f"environment.mounts={text}: expected absolute paths in the form HOST, HOST:INSIDE,"
                " or HOST:INSIDE:rw"
            )
        return cls(source, target or source, mode == "rw")


@dataclass(frozen=True)
class Container:
    """Settings of a container. If `run` is set, the container is for a run's process."""

    program: str
    """Container program, which is an element of PROGRAMS."""
    image: str
    image_id: str = ""
    """Digest of the image, as reported by docker or podman. The string is empty if the image is a
    file.
    """
    gpus: bool = False
    """True if the GPUs are available in the container."""
    mounts: tuple[str, ...] = ()
    """Mounts that the user configured, in the format that `Mount.read` parses."""
    options: tuple[str, ...] = ()
    """Options for the container program that the user configured."""
    run: str = ""
    """Folder of the run.

    In the container, the folder is writable and is the working directory. The path of the folder is
    also the label by which the run's containers are found. The string is empty if the container is
    for a query before a run.
    """
    process: str = ""
    """Name of the process in the run, such as `server` or `worker-3`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the process."""

    def run_argv(self, mounts: Sequence[Mount]) -> list[str]:
        """Return the command line up to the command that runs in the container.

        The command line includes the environment variables.

        Args:
            mounts: Mounts that the suite needs. The user's mounts are added to the command line.
        """
        all_mounts = [*mounts, *map(Mount.read, self.mounts)]
        env = {**OWN_VARIABLES, **passed_variables(), **self.env}
        return [
            *_BUILDERS[self.program](self, all_mounts),
            "env",
            *(f"{name}={value}" for name, value in env.items()),
        ]

    def ending(self, processes: Sequence[str]) -> list[str]:
        """Return the command line that ends the containers of the given processes.

        The list is empty if containers end with their client processes. If no container is left,
        the command prints an error message, which can be ignored.
        """
        if self.program not in WITH_DAEMON:
            return []
        return [
            self.program,
            "rm",
            "--force",
            *(container_name(self.run, name) for name in processes),
        ]


def passed_variables() -> dict[str, str]:
    """Return the environment variables that are passed from this process into a container."""
    prefixes = (*PASSED_VARIABLES, *tuning_variables())
    return {
        name: value
        for name, value in inherited_variables(os.environ).items()
        if name.startswith(prefixes)
    }


def container_name(run: str, process: str) -> str:
    """Return a container name that is valid for docker and podman.

    The name depends only on the folder of the run and the name of the process.
    """
    return f"suite-{hashlib.sha256(run.encode()).hexdigest()[:12]}-{process}"


def from_config(config: EnvironmentConfig, gpus: bool, log: Callable[[str], object]) -> Container:
    """Return the container that `environment.*` specifies, after checking it.

    The container is checked here, so that a problem is reported before the clock of a run starts.
    Containers that earlier runs left on this machine are ended.

    Args:
        config: Settings of the environment.
        gpus: Make the GPUs available in the container.
        log: Function that receives a line for each container that is ended.

    Raises:
        ValueError: The container cannot be used. The message is a single line.
    """
    program, image = config.name, config.image or ""
    if not image:
        example = {"apptainer": "/path/of/image.sif", "enroot": "/path/of/image.sqsh"}.get(
            program, "NAME:TAG"
        )
        raise ValueError(f"environment={program} needs an image. Set environment.image={example}")
    mounts, options = (tuple(map(str, values)) for values in (config.mounts, config.options))
    for mount in map(Mount.read, mounts):
        if not Path(mount.source).exists():
            raise ValueError(f"environment.mounts: {mount.source} does not exist on this machine")
    if shutil.which(program) is None:
        raise ValueError(
            f"environment={program}: {program} is not installed on this machine (not found in PATH)"
        )
    if program in WITH_DAEMON:
        image_id = _image_id(program, image)
        end_leftovers(program, log)
    else:
        image, image_id = _image_file(program, image), ""
    return Container(program, image, image_id, gpus, mounts, options)


def _image_id(program: str, image: str) -> str:
    """Return the digest of an image.

    Raises ValueError if the daemon does not respond or does not have the image.
    """
    result = _query(
        program,
        "version",
        "--format={{.Client.Version}}" if program == "podman" else "--format={{.Server.Version}}",
    )
    if result.code != 0:
        problem = (
            "its daemon does not respond"
            if program == "docker"
            else "it does not work on this machine"
        )
        reason = last_line(result.errors) or "no reason was printed"
        raise ValueError(
            f"environment={program}: {problem}: {reason}. `{program} version` must work first"
        )
    result = _query(program, "image", "inspect", "--format={{.Id}}", image)
    if result.code != 0:
        raise ValueError(
            f"environment.image={image}: {program} does not have this image on this machine. Run:"
            f" {program} pull {image}"
        )
    return result.out


def _image_file(program: str, image: str) -> str:
    """Return the absolute path of an image, or the name of an enroot container.

    An image is a file or a folder.

    Raises:
        ValueError: The image does not exist, or is a URL.
    """
    if "://" in image:
        command = (
            f"apptainer pull image.sif {image}"
            if program == "apptainer"
            else f"enroot import --output image.sqsh {image}"
        )
        raise ValueError(
            f"environment.image={image}: a run does not download images. Run: {command}"
        )
    path = expand_user(image).absolute()
    if path.exists():
        return str(path)
    if program == "enroot" and image in _query(program, "list").out.split():
        return image
    unlisted = (
        ", and `enroot list` does not list a container with this name"
        if program == "enroot"
        else ""
    )
    raise ValueError(f"environment.image={image}: no such file{unlisted}")


def _query(*argv: str) -> CommandResult:
    """Run a query command of a container program.

    Raises ValueError if the program does not respond in time or cannot be started.
    """
    outcome = captured(argv, ANSWER_SECONDS)
    if outcome.code is None:
        raise ValueError(
            f"environment={argv[0]}: {outcome.errors}. `{' '.join(argv[:2])}` must work first"
        )
    return outcome


def end_leftovers(program: str, log: Callable[[str], object]) -> None:
    """End the containers that killed controllers on this machine have left.

    Args:
        program: `docker` or `podman`.
        log: Function that receives a line for each container that is ended.
    """
    columns = f'--format={{{{.ID}}}}\t{{{{.Label "{OWNER_LABEL}"}}}}\t{{{{.Label "{RUN_LABEL}"}}}}'
    for line in _query(
        program, "ps", "--all", f"--filter=label={OWNER_LABEL}", columns
    ).out.splitlines():
        container_id, owner, run = line.split("\t")
        if _is_gone(owner):
            log(f"ended a container that a killed command left behind{f': {run}' if run else ''}")
            _query(program, "rm", "--force", container_id)


def _owner() -> str:
    """Return a string that identifies this process as the owner of its containers.

    The string contains the name of the machine, the process id, and the start time in whole
    seconds.
    """
    return f"{platform.node()}/{os.getpid()}/{psutil.Process().create_time():.0f}"


def _is_gone(owner: str) -> bool:
    """Check whether the owner of a container was a process on this machine and has ended."""
    node, pid, created = owner.rsplit("/", 2)
    if node != platform.node():
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.0f}" != created
    except psutil.NoSuchProcess:
        return True


def _with_daemon(container: Container, mounts: Sequence[Mount]) -> list[str]:
    """Return the options that docker and podman have in common, without the image."""
    argv = [
        container.program,
        "run",
        "--rm",
        "--pull=never",
        "--network=host",
        "--ipc=host",
        "--pid=host",
    ]
    argv += [f"--user={os.getuid()}:{os.getgid()}", f"--label={OWNER_LABEL}={_owner()}"]
    argv += [f"--mount={_csv(_fields(mount, 'target', 'readonly'))}" for mount in mounts]
    if container.run:
        argv += [
            f"--name={container_name(container.run, container.process)}",
            f"--workdir={_inside(container, mounts)}",
        ]
        argv += [f"--label={RUN_LABEL}={container.run}"]
    return argv


_LOCKS = ["--ulimit=memlock=-1", "--ulimit=stack=67108864"]
"""Limits on locked memory and stack size. GPUs and InfiniBand need more locked memory than a daemon
allows by default.

Runs on CPUs do not need these limits.
"""


def _docker(container: Container, mounts: Sequence[Mount]) -> list[str]:
    # --userns=host: the user owns the files even if the daemon maps the container's user ids to a
    # different range.
    argv = ["--userns=host"]
    argv += [f"--group-add={group}" for group in os.getgroups() if group != os.getgid()]
    argv += ["--gpus=all", *_LOCKS] if container.gpus else []
    return [*_with_daemon(container, mounts), *argv, *container.options, container.image]


def _podman(container: Container, mounts: Sequence[Mount]) -> list[str]:
    # Rootless mode: the user owns the files, the user's groups are kept, and limits cannot exceed
    # the user's limits.
    argv = ["--security-opt=label=disable"]
    if os.getuid() != 0:
        argv += ["--userns=keep-id", "--group-add=keep-groups", "--ulimit=host"]
    argv += ["--device=nvidia.com/gpu=all"] if container.gpus else []
    argv += _LOCKS if container.gpus and os.getuid() == 0 else []
    return [*_with_daemon(container, mounts), *argv, *container.options, container.image]


def _apptainer(container: Container, mounts: Sequence[Mount]) -> list[str]:
    argv = ["apptainer", "exec", "--cleanenv", "--no-home", *(["--nv"] if container.gpus else [])]
    argv += [f"--mount={_csv(_fields(mount, 'destination', 'ro'))}" for mount in mounts]
    argv += [f"--pwd={_inside(container, mounts)}"] if container.run else []
    return [*argv, *container.options, container.image]


def _enroot(container: Container, mounts: Sequence[Mount]) -> list[str]:
    argv = ["enroot", "start", *(["--env=NVIDIA_VISIBLE_DEVICES=all"] if container.gpus else [])]
    for mount in mounts:
        mode = "rw" if mount.writable else "ro"
        argv.append(f"--mount={mount.source}:{mount.target}:none:x-create=auto,rbind,{mode}")
    return [*argv, *container.options, container.image]


_BUILDERS: dict[str, Callable[[Container, Sequence[Mount]], list[str]]] = {
    "docker": _docker,
    "podman": _podman,
    "apptainer": _apptainer,
    "enroot": _enroot,
}


def _fields(mount: Mount, target: str, read_only: str) -> list[str]:
    """Return the fields of a `--mount` option.

    docker and podman have different names for the fields of the target and of read-only mounts.
    """
    return [
        "type=bind",
        f"source={mount.source}",
        f"{target}={mount.target}",
        *([] if mount.writable else [read_only]),
    ]


def _csv(fields: Sequence[str]) -> str:
    """Format fields as a line of CSV, which is the format of `--mount`.

    CSV puts a path with a comma into quotes, so that the comma does not separate fields.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _inside(container: Container, mounts: Sequence[Mount]) -> str:
    """Return the path of the run's folder in the container."""
    return next(mount.target for mount in mounts if mount.source == container.run)
