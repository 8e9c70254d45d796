"""Builds command lines for docker, podman, apptainer, and enroot.

It also checks their images, and ends leftover containers.

A container is a command prefix. It shares the network, the shared memory, and the process ids of
the machine, so that collectives and supervision work as without a container. Code, plugins, and
data are mounted read-only. Only the folder of the run is writable. Docker was tried. The command
lines of podman, apptainer, and enroot follow their manuals.
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
"""Values of `environment=`, which are also the programs that are called."""
WITH_DAEMON = ("docker", "podman")
"""Programs whose containers are not children of the started process, and outlive it."""
ANSWER_SECONDS = 8.0
"""Timeout for a query to a program.

The user waits for the answer before the time of a run starts.
"""
RUN_LABEL, OWNER_LABEL = "suite.run", "suite.owner"
PASSED_VARIABLES = ("CUDA_", "NVIDIA_")
"""Prefixes of the environment variables that are passed into a container: they tune devices,
collectives, and threads.
"""
OWN_VARIABLES = {
    "HOME": "/tmp",
    "USER": "suite",
    "LOGNAME": "suite",
    "PYTHONNOUSERSITE": "1",
    "PYTHONSAFEPATH": "1",
}
"""Environment variables that replace the name and the home folder of the user, which may not exist
in the container. Libraries read both.
"""


@dataclass(frozen=True)
class Mount:
    """A file or folder of the machine that is visible in the container."""

    source: str
    target: str
    writable: bool = False

    @classmethod
    def read(cls, text: str) -> Mount:
        """Parse `HOST`, `HOST:INSIDE`, or `HOST:INSIDE:rw`.

        Raises ValueError if the text has a different form.
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
    """Settings of a container. With `run`, the container is for a process of a run."""

    program: str
    """A program of PROGRAMS."""
    image: str
    image_id: str = ""
    """Digest of the image, from docker or podman. Empty for an image that is a file."""
    gpus: bool = False
    """The GPUs are available in the container."""
    mounts: tuple[str, ...] = ()
    """Mounts of the user, in the form that `Mount.read` parses."""
    options: tuple[str, ...] = ()
    """Options of the user for the program."""
    run: str = ""
    """Folder of the run.

    It is writable, the working directory, and the label by which the containers of the run are
    found. Empty for a query before a run.
    """
    process: str = ""
    """Name of the process in the run, such as `server` or `worker-3`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the process."""

    def run_argv(self, mounts: Sequence[Mount]) -> list[str]:
        """Return the command line that precedes the command in the container.

        It ends with the environment variables.

        Args:
            mounts: Mounts of the suite. The mounts of the user are added.
        """
        all_mounts = [*mounts, *map(Mount.read, self.mounts)]
        env = {**OWN_VARIABLES, **passed_variables(), **self.env}
        return [
            *_BUILDERS[self.program](self, all_mounts),
            "env",
            *(f"{name}={value}" for name, value in env.items()),
        ]

    def ending(self, processes: Sequence[str]) -> list[str]:
        """Return the command line that ends the containers of these processes of the run.

        It is empty if containers end with their clients. The command fails with a message if no
        container is left, which is not an error.
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
    """Return the environment variables of this process that workers in a container receive."""
    prefixes = (*PASSED_VARIABLES, *tuning_variables())
    return {
        name: value
        for name, value in inherited_variables(os.environ).items()
        if name.startswith(prefixes)
    }


def container_name(run: str, process: str) -> str:
    """Return a container name that docker and podman accept.

    It depends only on the folder of the run and the process.
    """
    return f"suite-{hashlib.sha256(run.encode()).hexdigest()[:12]}-{process}"


def from_config(config: EnvironmentConfig, gpus: bool, log: Callable[[str], object]) -> Container:
    """Return the container that `environment.*` specifies, after checking that it can be used.

    The checks are made here so that an obstacle is reported before the time of a run starts.
    Containers that earlier runs left on this machine are ended.

    Args:
        config: Settings of the environment.
        gpus: Make the GPUs available in the container.
        log: Receives a line for each container that is ended.

    Raises:
        ValueError: The container cannot be used. The message has one line.
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

    Raises ValueError if the daemon does not respond, or does not have the image.
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
    """Return the absolute path of an image, or the name of a container of enroot.

    The image is a file or a folder.

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
    """Run a command of a container program.

    Raises ValueError if it does not respond in time or cannot be started.
    """
    outcome = captured(argv, ANSWER_SECONDS)
    if outcome.code is None:
        raise ValueError(
            f"environment={argv[0]}: {outcome.errors}. `{' '.join(argv[:2])}` must work first"
        )
    return outcome


def end_leftovers(program: str, log: Callable[[str], object]) -> None:
    """End containers whose controller ran on this machine and was killed before it could end them.

    Args:
        program: `docker` or `podman`.
        log: Receives a line for each container that is ended.
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
    """Return the owner of the containers that this process starts.

    The text contains the machine, the process id, and the start time in whole seconds.
    """
    return f"{platform.node()}/{os.getpid()}/{psutil.Process().create_time():.0f}"


def _is_gone(owner: str) -> bool:
    """Check whether the owner was a process on this machine and has ended."""
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
"""Limits for GPUs and InfiniBand, which access locked memory: more than a daemon allows.

Runs on CPUs do not lock memory.
"""


def _docker(container: Container, mounts: Sequence[Mount]) -> list[str]:
    # --userns: files belong to the user, even if the daemon maps the user ids of containers to a
    # different range.
    argv = ["--userns=host"]
    argv += [f"--group-add={group}" for group in os.getgroups() if group != os.getgid()]
    argv += ["--gpus=all", *_LOCKS] if container.gpus else []
    return [*_with_daemon(container, mounts), *argv, *container.options, container.image]


def _podman(container: Container, mounts: Sequence[Mount]) -> list[str]:
    # Without root, files belong to the user, the user's groups are kept, and limits cannot be
    # raised above the user's limits.
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
    """Return the fields of `--mount`.

    The programs use different names for the target and for read-only.
    """
    return [
        "type=bind",
        f"source={mount.source}",
        f"{target}={mount.target}",
        *([] if mount.writable else [read_only]),
    ]


def _csv(fields: Sequence[str]) -> str:
    """Return fields as a line of CSV, the format of `--mount`.

    A comma in a path therefore does not separate fields.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _inside(container: Container, mounts: Sequence[Mount]) -> str:
    """Return the path of the folder of the run in the container."""
    return next(mount.target for mount in mounts if mount.source == container.run)
