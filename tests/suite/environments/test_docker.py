"""Runs in containers of a real docker: mounts, file owners, and the end of all containers."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from suite.common.paths import PROJECT, env_root
from suite.common.run_config import EnvironmentConfig
from suite.environments.environment import resolve
from testing.machines import needs
from testing.machines.docker import IMAGE, MARK, daemon
from tests.helpers import (
    TOY,
    TOY_RUN,
    only,
    run_events,
    run_suite,
    run_suite_here,
    status,
    suite_env,
    wait_until,
)

SEEN = """
import json, os, sys
def writable(folder):
    try:
        open(folder + "/written", "w").close()
    except OSError:
        return False
    return True
import suite
variables = {name: os.environ.get(name) for name in ("PASSED", "SECRET")}
process = {"uid": os.getuid(), "cwd": os.getcwd(), "suite": suite.__file__, **variables}
folders = [writable(folder) for folder in sys.argv[2:]]
print(json.dumps({"mark": os.path.exists(sys.argv[1]), "writable": folders, **process}))
"""


def files_of_host():
    """Return the files outside its data folder that a daemon would write with default options."""
    return {
        path
        for name in ("/run/docker", "/run/containerd", "/etc/docker")
        for path in Path(name).rglob("*")
    }


@pytest.fixture(scope="module")
def docker(tmp_path_factory):
    reason = needs.missing(needs.DOCKER)
    if reason:
        pytest.skip(reason)
    before = files_of_host()
    with daemon(tmp_path_factory.mktemp("docker")) as found:
        yield found
    assert files_of_host() == before


def mounts(python):
    """Return folders that the image lacks: this machine's programs, and the folders of a Python."""
    of_python = (Path(python).parent.parent, Path(os.path.realpath(python)).parent.parent)
    folders = (Path("/usr"), *of_python, Path(sys.base_prefix))
    return [str(folder) for folder in dict.fromkeys(folder.resolve() for folder in folders)]


def words(python=sys.executable):
    asked = ",".join(mounts(python))
    image = ("environment=docker", f"environment.image={IMAGE}")
    return [*image, f"environment.python={python}", f"environment.mounts=[{asked}]"]


def toy(*overrides):
    """Return the toy's overrides. An option sets the Python path as an image could."""
    return [
        *TOY_RUN,
        *words(),
        f"environment.options=['--env=PYTHONPATH={TOY}']",
        "gpus=1",
        *overrides,
    ]


def listed(docker):
    words, env = ["docker", "ps", "--all", "--format={{.Names}}"], {**os.environ, **docker}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout.split()


def start(tmp_path, docker, *overrides):
    """Start the toy in a container, where it runs until it is ended.

    Returns:
        The controller's process, the container's name, and the run's folder.
    """
    command = [
        sys.executable,
        str(PROJECT / "run_suite.py"),
        *toy("workload.misbehave=hang", *overrides),
    ]
    env = suite_env(tmp_path, toy=True, **docker)
    process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL)
    folder = wait_until(
        "a heartbeat", lambda: [path.parent for path in tmp_path.rglob(".worker-0.json")]
    )[0]
    (name,) = listed(docker)
    return process, name, folder


def test_the_inside_of_a_container(docker, tmp_path, monkeypatch):
    """Check that code and data are read-only, and that written files belong to the user.

    The daemon runs as root.
    """
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("DOCKER_HOST", docker["DOCKER_HOST"])
    data, run = tmp_path / "data", tmp_path / "run, 1"
    data.mkdir()
    run.mkdir()
    monkeypatch.setenv("SUITE_DATA_DIR", str(data))
    for folder in (data, run):
        os.chown(folder, 12345, 12345)
    python = os.path.realpath(sys.executable)
    inside = {
        "python": python,
        "mounts": mounts(sys.executable),
        "path_map": {str(tmp_path): "/mnt/here"},
    }
    env = resolve(EnvironmentConfig(**{"name": "docker", "image": IMAGE, **inside}), "torch")
    assert env.container.image_id.startswith("sha256:")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(os, "getgid", lambda: 12345)
    command = env.of_process(run, "worker-0", {"PASSED": "a b,c"}).command(
        "-c", SEEN, MARK, PROJECT, data, run
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "mark": True, "uid": 12345, "cwd": "/mnt/here/run, 1",
        "suite": str(PROJECT / "suite" / "__init__.py"), "writable": [False, False, True],
        "PASSED": "a b,c", "SECRET": None,
    }  # fmt: skip
    assert (run / "written").stat().st_uid == 12345
    assert listed(docker) == []


def test_a_run_in_a_container_records_its_image(docker, tmp_path):
    run_suite_here(tmp_path, *toy(), toy=True, **docker, exits=0)
    (log,) = tmp_path.rglob("result_0.txt")
    assert [value["status"] for key, _, value in run_events(log) if key == "run_stop"] == [
        "success"
    ]
    recorded = json.loads((log.parent / "run.json").read_text())["environment"]
    assert (recorded["name"], recorded["container"]["image"]) == ("docker", IMAGE)
    assert listed(docker) == []


@pytest.mark.full
def test_two_devices_of_pytorch_train_in_containers(docker, tmp_path):
    python = env_root() / "torch" / "bin" / "python"
    asked = [
        "workload=ncf",
        "profile=demo",
        "gpus=2",
        "stop=steps:5",
        "oversubscribe=true",
        *words(python),
    ]
    run_suite(tmp_path, *asked, **docker, exits=0)
    assert listed(docker) == []


@pytest.mark.parametrize("victim", ["worker", "client"])
def test_a_process_that_is_killed_is_named_and_its_container_ended(docker, tmp_path, victim):
    """Check a killed worker, and a killed `docker run`, which its container would outlive."""
    process, name, folder = start(tmp_path, docker)
    worker = psutil.Process(json.loads((folder / ".worker-0.json").read_text())["pid"])
    every, words = psutil.process_iter(["cmdline"]), {f"--name={name}", "run"}
    client = only(
        process_of_host
        for process_of_host in every
        if words <= set(process_of_host.info["cmdline"] or [])
    )
    {"worker": worker, "client": client}[victim].kill()
    assert process.wait(60) == 1
    found = status(folder)
    assert (found["status"], found["process"]) == ("rank_died", 0)
    assert listed(docker) == []
    assert not worker.is_running()


def test_a_container_that_a_killed_controller_left_is_ended_by_the_next_command(docker, tmp_path):
    process, name, _ = start(tmp_path, docker)
    process.kill()
    process.wait()
    assert listed(docker) == [name]
    run_suite_here(tmp_path, *toy("--dry-run"), toy=True, **docker, exits=0)
    assert listed(docker) == []


def test_an_interrupted_run_leaves_no_container(docker, tmp_path):
    process, _, folder = start(tmp_path, docker)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    assert status(folder)["status"] == "interrupted"
    assert listed(docker) == []
