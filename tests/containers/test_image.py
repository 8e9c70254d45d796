"""containers/Dockerfile, built by a real Docker on a minimal base image, runs without a network."""

import functools
import io
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from suite.common.paths import env_root
from suite.environments import locks
from suite.environments.check_environment import installed
from testing.machines import needs
from testing.machines.docker import daemon
from tests.helpers import PROJECT, only, status

LOCK = "mxnet-cpu"
IMAGE = f"suite-test:{LOCK}"
PYTHON = "python{}.{}".format(*sys.version_info)
STANDARD_LIBRARY = Path(sys.base_prefix, "lib", PYTHON)
PROGRAMS = ("sh", "mkdir", "env")
NAMES = (
    "stdc++.so.6",
    "gcc_s.so.1",
    "gomp.so.1",
    "rt.so.1",
    "pthread.so.0",
    "dl.so.2",
    "quadmath.so.0",
)
LIBRARIES = [f"lib{name}" for name in NAMES]
"""Libraries that packages need in addition to those of Python.

The default base image of the Dockerfile contains them with its compiler.
"""
PIP = ("PIP_NO_INDEX=1", "PIP_NO_COMPILE=1")
"""Variables of the base image: pip neither downloads nor compiles files."""
LEFT_OUT = {"site-packages", "test", "idlelib", "__pycache__"}


def wheels_into(folder, packages, names):
    """Write wheels of installed packages into a folder, so that pip needs no downloads."""
    supported_tags = [str(tag) for tag in sys_tags()]
    for name in names:
        package = packages[name]
        tags = re.findall(r"^Tag: (\S+)$", package.read_text("WHEEL"), re.MULTILINE)
        tag = next(tag for tag in supported_tags if tag in tags)
        stem = f"{package.metadata['Name'].replace('-', '_')}-{package.version}"
        generated_scripts = {
            point.name for point in package.entry_points
        }  # pip generates these scripts
        with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as file:
            for path in package.files:
                if ".." not in path.parts and path.suffix != ".pyc":
                    file.write(path.locate(), path)
                elif path.parent.name == "bin" and path.name not in generated_scripts:
                    file.write(path.locate(), f"{stem}.data/scripts/{path.name}")


def base():
    """Return a minimal file system as a tar: Python with pip, a shell and their libraries."""
    programs = [Path("/usr/bin", name).resolve() for name in PROGRAMS]
    python = Path(sys.base_prefix, "bin", PYTHON).resolve()
    linked = [python, *programs, *(STANDARD_LIBRARY / "lib-dynload").glob("*.so")]
    ldd_output = subprocess.run(["ldd", *linked], capture_output=True, text=True, check=True).stdout
    libraries = set(re.findall(r"(?:=> |^\s)(/\S+) \(", ldd_output, re.MULTILINE))
    system = Path(next(path for path in libraries if "/libc.so" in path)).parent
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", dereference=True) as tar:
        for library in {*libraries, *(str(system / name) for name in LIBRARIES)}:
            loader = "/ld-linux" in library
            tar.add(library, library if loader else system / Path(library).name)
        for program, name in zip(programs, PROGRAMS, strict=True):
            tar.add(program, f"bin/{name}")
            tar.add(program, f"usr/bin/{name}")
        for name in ("python3", PYTHON):
            tar.add(python, f"usr/local/bin/{name}")
        kept = [path for path in STANDARD_LIBRARY.iterdir() if path.name not in LEFT_OUT]
        pip = [
            path
            for path in (STANDARD_LIBRARY / "site-packages").iterdir()
            if re.match(r"pip(-|$)", path.name)
        ]
        for path in (*kept, *pip):
            tar.add(
                path,
                Path("usr/local/lib", PYTHON, path.relative_to(STANDARD_LIBRARY)),
                filter=_kept,
            )
        above = {str(folder) for name in tar.getnames() for folder in Path(name).parents} - {
            ".",
            *tar.getnames(),
        }
        # Docker would create missing parent folders that only root can read.
        for folder in map(tarfile.TarInfo, (*sorted(above), "tmp")):
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if folder.name == "tmp" else 0o755
            tar.addfile(folder)
    return stream.getvalue()


def _kept(entry):
    return None if Path(entry.name).name in LEFT_OUT - {"site-packages"} else entry


def context():
    """Return the build context: the tracked files in their current state, as a tar."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    stream = io.BytesIO()
    # Docker detects only this format of tar by its first bytes.
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in filter(None, listed.split("\0")):
            tar.add(PROJECT / name, name)
    return stream.getvalue()


@pytest.fixture(scope="module")
def docker(tmp_path_factory):
    """Return a function that runs Docker commands; the daemon has the built image."""
    if reason := needs.missing(needs.DOCKER):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("image")
    (folder / "wheels").mkdir()
    (folder / "docker").mkdir()
    worker = env_root() / LOCK
    version = sys.version_info[:2]
    for root, lock in (
        (Path(sys.prefix), locks.read(PROJECT / "environments" / "controller.txt")),
        (worker, locks.framework_locks()[LOCK]),
    ):
        wheels_into(folder / "wheels", installed(root), lock.pins(version))
    handler = functools.partial(SimpleHTTPRequestHandler, directory=folder / "wheels")
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        daemon(folder / "docker") as found,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        index = f"http://127.0.0.1:{server.server_port}/"

        def called(*arguments, stdin=None):
            # BuildKit would need a separate network.
            environment = {**os.environ, **found, "DOCKER_BUILDKIT": "0"}
            done = subprocess.run(
                ["docker", *arguments],
                input=stdin,
                env=environment,
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]
            return done.stdout.decode()

        env = [f"--change=ENV {text}" for text in (*PIP, f"PIP_FIND_LINKS={index}")]
        called("import", *env, "-", "suite-test:base", stdin=base())
        build_options = (
            "--build-arg=BASE=suite-test:base",
            f"--build-arg=LOCK={LOCK}",
            "--network=host",
            f"--tag={IMAGE}",
        )
        called("build", "--file=containers/Dockerfile", *build_options, "-", stdin=context())
        yield called
        server.shutdown()


@pytest.mark.framework
@pytest.mark.full
def test_an_image_trains_as_a_plain_user_without_a_network(docker, tmp_path):
    run = ("run", "--rm", "--network=none", "--shm-size=256m")
    assert re.search(rf"^{LOCK} +ready ", docker(*run, IMAGE, "suite", "env", "list"), re.MULTILINE)
    logs = tmp_path / "logs"
    logs.mkdir()
    os.chown(logs, 4321, 4321)
    command = (
        "suite",
        "run",
        "workload=ncf",
        "framework=mxnet",
        "profile=demo",
        "gpus=2",
        "oversubscribe=true",
    )
    docker(
        *run,
        "--user=4321:4321",
        f"--volume={logs}:/logs",
        IMAGE,
        *command,
        "stop=epochs:1",
        "output=/logs/out",
    )
    run_folder = only(logs.glob("out/*/run_0"))
    assert status(run_folder)["status"] == "success"
    assert (run_folder / "result_0.txt").stat().st_uid == 4321
