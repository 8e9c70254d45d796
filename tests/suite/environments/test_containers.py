"""Containers: command lines of four programs, refused configurations, leftover containers."""

import os
import platform
import shlex
import stat
import time
from pathlib import Path

import psutil
import pytest

from suite.common.paths import PROJECT
from suite.common.run_config import EnvironmentConfig
from suite.environments import containers
from suite.environments.captured_command import last_line
from suite.environments.containers import Container, Mount
from suite.environments.environment import Environment, resolve

RUN = "/runs/ncf 1,2/run_0"
NAME = "suite-2465d761f091-worker-3"
MOUNTS = (Mount("/code", "/code"), Mount("/data", "/mnt/data"), Mount(RUN, RUN, writable=True))

GOLDEN = {
    "docker": (
        f"""
        docker run --rm --pull=never --network=host --ipc=host --pid=host --user=1000:100
        --label=suite.owner=me/1/2 --mount=type=bind,source=/code,target=/code,readonly
        --mount=type=bind,source=/data,target=/mnt/data,readonly
        '--mount=type=bind,"source={RUN}","target={RUN}"' --name={NAME} '--workdir={RUN}'
        '--label=suite.run={RUN}' --userns=host --group-add=44 --gpus=all
        --ulimit=memlock=-1 --ulimit=stack=67108864 --shm-size=1g image:1 env"""
    ),
    "podman": (
        f"""
        podman run --rm --pull=never --network=host --ipc=host --pid=host --user=1000:100
        --label=suite.owner=me/1/2 --mount=type=bind,source=/code,target=/code,readonly
        --mount=type=bind,source=/data,target=/mnt/data,readonly
        '--mount=type=bind,"source={RUN}","target={RUN}"' --name={NAME} '--workdir={RUN}'
        '--label=suite.run={RUN}' --security-opt=label=disable --userns=keep-id
        --group-add=keep-groups --ulimit=host --device=nvidia.com/gpu=all
        --shm-size=1g image:1 env"""
    ),
    "apptainer": (
        f"""
        apptainer exec --cleanenv --no-home --nv --mount=type=bind,source=/code,destination=/code,ro
        --mount=type=bind,source=/data,destination=/mnt/data,ro
        '--mount=type=bind,"source={RUN}","destination={RUN}"' '--pwd={RUN}'
        --shm-size=1g image:1 env"""
    ),
    "enroot": (
        f"""
        enroot start --env=NVIDIA_VISIBLE_DEVICES=all
        --mount=/code:/code:none:x-create=auto,rbind,ro
        --mount=/data:/mnt/data:none:x-create=auto,rbind,ro
        '--mount={RUN}:{RUN}:none:x-create=auto,rbind,rw' --shm-size=1g image:1 env"""
    ),
}
"""Command line of each program for a worker on GPUs, if the user is not root.

The variables and the worker's command follow it.
"""


@pytest.fixture
def user(monkeypatch):
    """Set a user id and remove all variables that would be passed to a container."""
    for name in containers.passed_variables():
        monkeypatch.delenv(name)
    for name, value in (("getuid", 1000), ("getgid", 100), ("getgroups", [100, 44])):
        monkeypatch.setattr(os, name, lambda value=value: value)
    monkeypatch.setattr(containers, "_owner", lambda: "me/1/2")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Return a function that writes a program of this name, with this shell script.

    The program also records its arguments.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def make(name, script):
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return lambda: (tmp_path / "asked").read_text().splitlines()

    return make


def container(name="docker", **changes):
    values = {
        "gpus": True,
        "options": ("--shm-size=1g",),
        "run": RUN,
        "process": "worker-3",
        **changes,
    }
    return Container(name, "image:1", **values)


@pytest.mark.parametrize("name", containers.PROGRAMS)
def test_the_command_line_of_each_program(name, user):
    words = container(name).run_argv(MOUNTS)
    variables = [f"{key}={value}" for key, value in containers.OWN_VARIABLES.items()]
    assert words == [*shlex.split(GOLDEN[name]), *variables]


@pytest.mark.parametrize("name", containers.PROGRAMS)
def test_a_query_before_a_run_has_no_folder_no_name_no_label_and_no_gpu(name, user):
    of_runs = (
        "--name",
        "--label=suite.run",
        "--workdir",
        "--pwd",
        "--gpus",
        "--nv",
        "--dev",
        "--env=NVIDIA",
    )
    assert not [
        word for word in Container(name, "image:1").run_argv(MOUNTS[:2]) if word.startswith(of_runs)
    ]


def test_podman_as_root_needs_no_user_namespace(user, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 0)
    words = container("podman").run_argv(MOUNTS)
    assert "--ulimit=memlock=-1" in words
    assert "--userns=keep-id" not in words


def test_variables_inside_a_container_have_this_precedence(user, monkeypatch):
    """Check the precedence: the suite's variables, tuning variables of the shell, and defaults.

    The remaining variables of the shell are not passed.
    """
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("OMP_NUM_THREADS", "9")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    words = container(env={"OMP_NUM_THREADS": "2", "TF_CONFIG": '{"a": [1, 2]}'}).run_argv(MOUNTS)
    variables = dict(word.split("=", 1) for word in words[words.index("env") + 1 :])
    passed = {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "2", "TF_CONFIG": '{"a": [1, 2]}'}
    assert variables == {**containers.OWN_VARIABLES, **passed}


def test_the_environment_mounts_code_plugins_data_and_the_run(user, monkeypatch, tmp_path):
    monkeypatch.setenv("SUITE_DATA_DIR", str(tmp_path))
    wanted = Container("docker", "image:1", mounts=("/opt/x:/x:rw",))
    env = Environment(
        "docker", ("numactl",), "python3", {str(tmp_path): "/data"}, ("/plugin",), wanted
    )
    run = tmp_path / "logs" / "run_0"
    words = env.of_process(run, "launcher", {"RANK": "0"}).command("-m", "x", run / "run.json")
    mounts = [word.partition("source=")[2] for word in words if word.startswith("--mount=")]
    read_only = [
        f"{PROJECT},target={PROJECT}",
        "/plugin,target=/plugin",
        f"{tmp_path},target=/data",
    ]
    read_and_written = [f"{run},target=/data/logs/run_0", "/opt/x,target=/x"]
    assert mounts == [*(f"{mount},readonly" for mount in read_only), *read_and_written]
    assert "--workdir=/data/logs/run_0" in words
    inside = words[words.index("RANK=0") + 1 :]
    assert inside[:3] == ["numactl", "sh", "-c"]
    assert inside[4:] == [f"/plugin:{PROJECT}", "python3", "-m", "x", "/data/logs/run_0/run.json"]
    without = Environment("torch", (), "python")
    assert without.of_process(run, "launcher", {}) is without


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/a", Mount("/a", "/a")), ("/a:/b", Mount("/a", "/b")), ("/a:/b:ro", Mount("/a", "/b")),
        ("/a:/b:rw", Mount("/a", "/b", True)),
    ],
)  # fmt: skip
def test_user_defined_mounts_are_parsed(text, mount):
    assert Mount.read(text) == mount


@pytest.mark.parametrize("text", ["a", "/a:b", "/a:/b:x", "/a:/b:ro:z", ""])
def test_invalid_mounts_are_refused(text):
    with pytest.raises(
        ValueError,
        match=r"environment\.mounts=.* expected absolute paths in the form HOST, HOST:INSIDE",
    ):
        Mount.read(text)


def test_the_command_that_ends_the_containers_of_a_run():
    env = Environment("docker", (), "python", container=Container("docker", "i"))
    names = [containers.container_name(RUN, name) for name in ("launcher", "worker-1")]
    assert env.ending(Path(RUN), ["launcher", "worker-1"]) == ["docker", "rm", "--force", *names]
    assert len(set(names)) == 2
    assert containers.container_name(RUN, "worker-3") == NAME
    assert env.ending(Path(RUN), []) == []
    assert (
        Environment("e", (), "python", container=Container("enroot", "i")).ending(
            Path(RUN), ["launcher"]
        )
        == []
    )
    assert Environment("e", (), "python").ending(Path(RUN), ["launcher"]) == []


NO_IMAGE = 'case "$1" in version) echo 20;; *) echo "No such image" >&2; exit 1;; esac'
NO_DAEMON = "echo hello; echo 'Cannot connect to the Docker daemon.' >&2; exit 1"
PULLED = r"a run does not download images\. Run: "
IMAGE = {"image": "a:1"}
MISSING = [
    *(
        (name, "", {}, rf"^environment={name} needs .* Set environment\.image=")
        for name in containers.PROGRAMS
    ),
    *(
        (name, "", IMAGE, rf"^environment={name}: {name} is not installed")
        for name in containers.PROGRAMS
    ),
    *(
        (name, NO_IMAGE, IMAGE, rf"does not have this image .* Run: {name} pull a:1$")
        for name in containers.WITH_DAEMON
    ),
]


@pytest.mark.parametrize(
    ("name", "script", "config", "message"),
    [
        *MISSING,
        (
            "auto",
            "",
            IMAGE,
            r"^environment\.image=a:1 needs environment=docker, podman, apptainer or enroot",
        ),
        (
            "docker",
            NO_DAEMON,
            IMAGE,
            r"respond: Cannot connect .*\. `docker version` must work first$",
        ),
        (
            "docker",
            "echo 20",
            {"image": "a:1", "mounts": ["/no/such:/x"]},
            r"mounts: /no/such does not exist on this machine$",
        ),
        (
            "apptainer",
            "echo",
            {"image": "docker://a"},
            rf"{PULLED}apptainer pull image\.sif docker://a$",
        ),
        (
            "enroot",
            "echo",
            {"image": "docker://a"},
            rf"{PULLED}enroot import --output image\.sqsh docker://a$",
        ),
        (
            "apptainer",
            "echo",
            {"image": "/no/such.sif"},
            r"^environment\.image=/no/such\.sif: no such file$",
        ),
        (
            "enroot",
            "echo mine",
            {"image": "/no/such"},
            r": no such file, and `enroot list` does not list a container with this name$",
        ),
    ],
)
def test_an_unusable_container_is_refused_in_one_line(
    program, monkeypatch, tmp_path, name, script, config, message
):
    """Check errors of one line. An empty script means that the program is not installed."""
    if script:
        program(name, script)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=message) as error:
        resolve(EnvironmentConfig(**{"name": name, **config}), "torch")
    assert "\n" not in str(error.value)


def test_a_daemon_that_does_not_answer_in_time_is_an_error(program, monkeypatch):
    monkeypatch.setattr(containers, "ANSWER_SECONDS", 0.2)
    program("docker", "exec sleep 30")
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"^environment=docker: no answer within 0\.2 s"):
        resolve(EnvironmentConfig(**{"name": "docker", "image": "a:1"}), "torch")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "docker: No such image: a:1\n\nRun 'docker run --help' for more information\n",
            "docker: No such image: a:1",
        ),
        ("docker: no.\nSee 'docker run --help'.\n", "docker: no."),
        ("", ""),
    ],
)
def test_the_reason_of_a_failure_is_not_the_hint_about_help(text, line):
    assert last_line(text) == line


def test_the_resolved_image_is_kept(program, tmp_path):
    program("docker", 'case "$1" in image) echo sha256:abc;; ps) ;; *) echo 20;; esac')
    config = {
        "name": "docker",
        "image": "a:1",
        "mounts": [str(tmp_path)],
        "options": ["--x"],
        "path_map": {"/a": "/b"},
    }
    assert resolve(EnvironmentConfig(**config), "torch", "cuda") == Environment(
        "docker", (), "python3", {"/a": "/b"},
        container=Container("docker", "a:1", "sha256:abc", True, (str(tmp_path),), ("--x",)),
    )  # fmt: skip
    program("enroot", "echo mine")
    found = resolve(
        EnvironmentConfig(**{"name": "enroot", "image": "mine", "python": "/x/python"}), "torch"
    )
    assert (found.python, found.container) == ("/x/python", Container("enroot", "mine"))
    (tmp_path / "image.sif").touch()
    program("apptainer", "exit 1")
    found = resolve(
        EnvironmentConfig(**{"name": "apptainer", "image": str(tmp_path / "image.sif")}), "torch"
    )
    assert found.container == Container("apptainer", str(tmp_path / "image.sif"))


def test_containers_of_dead_controllers_are_ended(program):
    me, lines_printed = psutil.Process(), []
    alive = containers._owner()
    assert alive == f"{platform.node()}/{me.pid}/{me.create_time():.0f}"
    lines = [
        f"1\t{alive}\t/runs/alive",
        f"2\t{platform.node()}/{me.pid}/123\t/runs/other process of this id",
        "3\tfar/1/1\t/runs/elsewhere",
        f"4\t{platform.node()}/{1 << 30}/1\t/runs/dead",
    ]
    asked = program(
        "docker", f'[ "$1" = ps ] && printf "%s\\n" {" ".join(map(shlex.quote, lines))}'
    )
    containers.end_leftovers("docker", lines_printed.append)
    assert [line for line in asked() if line.startswith("rm")] == ["rm --force 2", "rm --force 4"]
    assert [line.rpartition(": ")[2] for line in lines_printed] == [
        "/runs/other process of this id",
        "/runs/dead",
    ]
