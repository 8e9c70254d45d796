"""Containers: what docker, podman, apptainer and enroot are told, what stands in their way, and how one that was left is ended.

A container is an argv prefix like any other. Network, shared memory and process ids are the machine's own, so that collectives
and supervision work as outside; code, plugins and data are mounted read-only, the run's folder alone is writable. Docker was
tried; the command lines of the others follow their manuals.
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
from suite.environments.answers import Answer, answer, last_line
from suite.launch.known import tuning_variables
from suite.launch.worker_env import inherited_variables

PROGRAMS = ("docker", "podman", "apptainer", "enroot")
"""Values of `environment=`, and the programs that are called."""
WITH_DAEMON = ("docker", "podman")
"""Their containers are no children of the process that was started, and outlive it."""
ANSWER_SECONDS = 8.0
"""How long a program may take to say whether it works: a user waits for that before any clock starts."""
RUN_LABEL, OWNER_LABEL = "suite.run", "suite.owner"
PASSED_VARIABLES = ("CUDA_", "NVIDIA_")
"""Starts of the names of variables that reach a container from outside: what tunes devices, collectives and threads."""
OWN_VARIABLES = {"HOME": "/tmp", "USER": "suite", "LOGNAME": "suite", "PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1"}
"""The user's id may have no name inside, and its home is not there: libraries ask for both."""


@dataclass(frozen=True)
class Mount:
    """A file or folder that stands inside too."""

    source: str
    target: str
    writable: bool = False

    @classmethod
    def read(cls, text: str) -> Mount:
        """From `HOST`, `HOST:INSIDE` or `HOST:INSIDE:rw`. Raises ValueError."""
        source, target, mode, *more = [*text.split(":"), "", ""]
        if not source.startswith("/") or target[:1] not in ("", "/") or mode not in ("", "ro", "rw") or any(more):
            raise ValueError(
                f"environment.mounts={text}: absolute paths are allowed, as HOST, HOST:INSIDE or HOST:INSIDE:rw"
            )
        return cls(source, target or source, mode == "rw")


@dataclass(frozen=True)
class Container:
    """What is asked of a container; with `run`, of one for a process of a run."""

    program: str
    """One of PROGRAMS."""
    image: str
    image_id: str = ""
    """Docker's and podman's digest of the image; empty for files."""
    gpus: bool = False
    """Pass the GPUs through."""
    mounts: tuple[str, ...] = ()
    """The user's own, as `Mount.read` reads them."""
    options: tuple[str, ...] = ()
    """The user's own words for the program."""
    run: str = ""
    """The run's folder: writable, the working directory, and what containers are found by. Empty: a question before any run."""
    process: str = ""
    """Which process of the run: `server`, `worker-3`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the process is told."""

    def words(self, mounts: Sequence[Mount]) -> list[str]:
        """The argv before the command that runs inside, ending with the variables that it sees."""
        every = [*mounts, *map(Mount.read, self.mounts)]
        variables = {**OWN_VARIABLES, **passed_variables(), **self.variables}
        return [*_WORDS[self.program](self, every), "env", *(f"{name}={value}" for name, value in variables.items())]

    def ending(self, processes: Sequence[str]) -> list[str]:
        """The argv that ends the containers of these processes of the run; empty where they end with their clients.

        It fails, and says so, where none is left: that is no error.
        """
        if self.program not in WITH_DAEMON:
            return []
        return [self.program, "rm", "--force", *(container_name(self.run, name) for name in processes)]


def passed_variables() -> dict[str, str]:
    """Those of this process that workers in a container get."""
    passed = (*PASSED_VARIABLES, *tuning_variables())
    return {name: value for name, value in inherited_variables(os.environ).items() if name.startswith(passed)}


def container_name(run: str, process: str) -> str:
    """The same name for the same process of the same run's folder, allowed by docker and podman."""
    return f"suite-{hashlib.sha256(run.encode()).hexdigest()[:12]}-{process}"


def from_config(config: EnvironmentConfig, gpus: bool, tell: Callable[[str], object]) -> Container:
    """The container that `environment.*` asks for, looked for: what is in the way is said now, not after a clock has started.

    Containers that earlier runs left here are ended, of which `tell` hears. Raises ValueError in one line.
    """
    program, image = config.name, config.image or ""
    if not image:
        example = {"apptainer": "/path/of/image.sif", "enroot": "/path/of/image.sqsh"}.get(program, "NAME:TAG")
        raise ValueError(f"environment={program} needs an image; type environment.image={example}")
    mounts, options = (tuple(map(str, values)) for values in (config.mounts, config.options))
    for mount in map(Mount.read, mounts):
        if not Path(mount.source).exists():
            raise ValueError(f"environment.mounts: {mount.source} does not exist here")
    if shutil.which(program) is None:
        raise ValueError(f"environment={program}: {program} is not installed on this machine (looked for it in PATH)")
    if program in WITH_DAEMON:
        image_id = _image_id(program, image)
        end_leftovers(program, tell)
    else:
        image, image_id = _image_file(program, image), ""
    return Container(program, image, image_id, gpus, mounts, options)


def _image_id(program: str, image: str) -> str:
    """The image's digest. Raises ValueError: the daemon does not answer, or has no such image."""
    done = _asked(
        program, "version", "--format={{.Client.Version}}" if program == "podman" else "--format={{.Server.Version}}"
    )
    if done.code != 0:
        what = "its daemon does not answer" if program == "docker" else "it does not work here"
        raise ValueError(
            f"environment={program}: {what}: {last_line(done.errors) or 'no reason given'}; `{program} version` must work first"
        )
    done = _asked(program, "image", "inspect", "--format={{.Id}}", image)
    if done.code != 0:
        raise ValueError(
            f"environment.image={image}: {program} has no such image on this machine; type: {program} pull {image}"
        )
    return done.out


def _image_file(program: str, image: str) -> str:
    """The absolute path of an image that is a file or a folder; enroot's containers have names too. Raises ValueError."""
    if "://" in image:
        how = (
            f"apptainer pull image.sif {image}"
            if program == "apptainer"
            else f"enroot import --output image.sqsh {image}"
        )
        raise ValueError(f"environment.image={image}: nothing is downloaded for a run; type: {how}")
    path = expand_user(image).absolute()
    if path.exists():
        return str(path)
    if program == "enroot" and image in _asked(program, "list").out.split():
        return image
    also = " and no container that `enroot list` shows" if program == "enroot" else ""
    raise ValueError(f"environment.image={image}: no such file{also}")


def _asked(*words: str) -> Answer:
    """What the program says. Raises ValueError if that takes long."""
    outcome = answer(words, ANSWER_SECONDS)
    if outcome.code is None:
        raise ValueError(f"environment={words[0]}: {outcome.errors}; `{' '.join(words[:2])}` must work first")
    return outcome


def end_leftovers(program: str, tell: Callable[[str], object]) -> None:
    """End containers whose controller, on this machine, is gone: it was killed before it could end them."""
    shown = f'--format={{{{.ID}}}}\t{{{{.Label "{OWNER_LABEL}"}}}}\t{{{{.Label "{RUN_LABEL}"}}}}'
    for line in _asked(program, "ps", "--all", f"--filter=label={OWNER_LABEL}", shown).out.splitlines():
        number, owner, run = line.split("\t")
        if _is_gone(owner):
            tell(f"ended a container that a killed command left{f': {run}' if run else ''}")
            _asked(program, "rm", "--force", number)


def _owner() -> str:
    """Who starts a container: machine, process, and when that was started, in whole seconds."""
    return f"{platform.node()}/{os.getpid()}/{psutil.Process().create_time():.0f}"


def _is_gone(owner: str) -> bool:
    """True if that process was one of this machine and has ended."""
    node, pid, created = owner.rsplit("/", 2)
    if node != platform.node():
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.0f}" != created
    except psutil.NoSuchProcess:
        return True


def _with_daemon(container: Container, mounts: Sequence[Mount]) -> list[str]:
    """docker's and podman's options that are spelled alike, without the image."""
    words = [container.program, "run", "--rm", "--pull=never", "--network=host", "--ipc=host", "--pid=host"]
    words += [f"--user={os.getuid()}:{os.getgid()}", f"--label={OWNER_LABEL}={_owner()}"]
    words += [f"--mount={_csv(_fields(mount, 'target', 'readonly'))}" for mount in mounts]
    if container.run:
        words += [
            f"--name={container_name(container.run, container.process)}",
            f"--workdir={_inside(container, mounts)}",
        ]
        words += [f"--label={RUN_LABEL}={container.run}"]
    return words


_LOCKS = ["--ulimit=memlock=-1", "--ulimit=stack=67108864"]
"""Memory that GPUs and InfiniBand reach into is locked, more than a daemon's limit lets through. CPU runs lock nothing."""


def _docker(container: Container, mounts: Sequence[Mount]) -> list[str]:
    # userns: ids of files are the user's also where the daemon shifts those of containers.
    words = ["--userns=host"]
    words += [f"--group-add={group}" for group in os.getgroups() if group != os.getgid()]
    words += ["--gpus=all", *_LOCKS] if container.gpus else []
    return [*_with_daemon(container, mounts), *words, *container.options, container.image]


def _podman(container: Container, mounts: Sequence[Mount]) -> list[str]:
    # Without root: ids of files are the user's, his groups stay, and limits cannot be raised above his own.
    words = ["--security-opt=label=disable"]
    if os.getuid() != 0:
        words += ["--userns=keep-id", "--group-add=keep-groups", "--ulimit=host"]
    words += ["--device=nvidia.com/gpu=all"] if container.gpus else []
    words += _LOCKS if container.gpus and os.getuid() == 0 else []
    return [*_with_daemon(container, mounts), *words, *container.options, container.image]


def _apptainer(container: Container, mounts: Sequence[Mount]) -> list[str]:
    words = ["apptainer", "exec", "--cleanenv", "--no-home", *(["--nv"] if container.gpus else [])]
    words += [f"--mount={_csv(_fields(mount, 'destination', 'ro'))}" for mount in mounts]
    words += [f"--pwd={_inside(container, mounts)}"] if container.run else []
    return [*words, *container.options, container.image]


def _enroot(container: Container, mounts: Sequence[Mount]) -> list[str]:
    words = ["enroot", "start", *(["--env=NVIDIA_VISIBLE_DEVICES=all"] if container.gpus else [])]
    for mount in mounts:
        mode = "rw" if mount.writable else "ro"
        words.append(f"--mount={mount.source}:{mount.target}:none:x-create=auto,rbind,{mode}")
    return [*words, *container.options, container.image]


_WORDS: dict[str, Callable[[Container, Sequence[Mount]], list[str]]] = {
    "docker": _docker,
    "podman": _podman,
    "apptainer": _apptainer,
    "enroot": _enroot,
}


def _fields(mount: Mount, target: str, read_only: str) -> list[str]:
    """The parts of `--mount`, whose spelling the programs differ in."""
    return ["type=bind", f"source={mount.source}", f"{target}={mount.target}", *([] if mount.writable else [read_only])]


def _csv(fields: Sequence[str]) -> str:
    """A line of CSV, which `--mount` takes: a comma in a path is no separator."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _inside(container: Container, mounts: Sequence[Mount]) -> str:
    """The run's folder as the container sees it."""
    return next(mount.target for mount in mounts if mount.source == container.run)
