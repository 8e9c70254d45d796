"""containers/Dockerfile, built by a real docker over a base made of this machine's files, and run
without a network.
"""

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
"""That packages ask for, beside what Python does; the image that Dockerfile names has them with its
compiler.
"""
PIP = ("PIP_NO_INDEX=1", "PIP_NO_COMPILE=1")
"""Variables of the base: nothing is downloaded, nor compiled that runs once."""
LEFT_OUT = {"site-packages", "test", "idlelib", "__pycache__"}


def wheels_into(folder, packages, names):
    """A wheel of each of these packages, as they lie in an environment: installing them downloads
    nothing.
    """
    known = [str(tag) for tag in sys_tags()]
    for name in names:
        package = packages[name]
        tags = re.findall(r"^Tag: (\S+)$", package.read_text("WHEEL"), re.MULTILINE)
        tag = next(tag for tag in known if tag in tags)
        stem = f"{package.metadata['Name'].replace('-', '_')}-{package.version}"
        made = {point.name for point in package.entry_points}  # by pip
        with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as file:
            for path in package.files:
                if ".." not in path.parts and path.suffix != ".pyc":
                    file.write(path.locate(), path)
                elif path.parent.name == "bin" and path.name not in made:
                    file.write(path.locate(), f"{stem}.data/scripts/{path.name}")


def base():
    """A file system as a tar: this machine's Python in /usr/local, with pip, a shell and their
    libraries.
    """
    programs = [Path("/usr/bin", name).resolve() for name in PROGRAMS]
    python = Path(sys.base_prefix, "bin", PYTHON).resolve()
    linked = [python, *programs, *(STANDARD_LIBRARY / "lib-dynload").glob("*.so")]
    said = subprocess.run(["ldd", *linked], capture_output=True, text=True, check=True).stdout
    libraries = set(re.findall(r"(?:=> |^\s)(/\S+) \(", said, re.MULTILINE))
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
        # Docker makes a folder that is not named for root alone.
        for folder in map(tarfile.TarInfo, (*sorted(above), "tmp")):
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if folder.name == "tmp" else 0o755
            tar.addfile(folder)
    return stream.getvalue()


def _kept(entry):
    return None if Path(entry.name).name in LEFT_OUT - {"site-packages"} else entry


def context():
    """What `git archive` gives of a commit, of the files as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w", format=tarfile.GNU_FORMAT
    ) as tar:  # docker knows no other by its beginning
        for name in filter(None, listed.split("\0")):
            tar.add(PROJECT / name, name)
    return stream.getvalue()


@pytest.fixture(scope="module")
def docker(tmp_path_factory):
    """A function that calls docker, whose daemon has the image."""
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

        def called(*words, given=None):
            own = {
                **os.environ,
                **found,
                "DOCKER_BUILDKIT": "0",
            }  # another builder asks for a network of its own
            done = subprocess.run(
                ["docker", *words], input=given, env=own, capture_output=True, check=False
            )
            assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]
            return done.stdout.decode()

        env = [f"--change=ENV {text}" for text in (*PIP, f"PIP_FIND_LINKS={index}")]
        called("import", *env, "-", "suite-test:base", given=base())
        asked = (
            "--build-arg=BASE=suite-test:base",
            f"--build-arg=LOCK={LOCK}",
            "--network=host",
            f"--tag={IMAGE}",
        )
        called("build", "--file=containers/Dockerfile", *asked, "-", given=context())
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
    words = (
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
        *words,
        "stop=epochs:1",
        "output=/logs/out",
    )
    run_folder = only(logs.glob("out/*/run_0"))
    assert status(run_folder)["status"] == "success"
    assert (run_folder / "result_0.txt").stat().st_uid == 4321
