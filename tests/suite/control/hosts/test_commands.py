"""A `suite` command on several machines: agents as local processes, then machines of namespaces."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from suite.cli import main
from suite.commands.arguments import add_machines, launch_of, without_machines
from suite.common.run_config import LaunchConfig
from suite.control.hosts import launchers
from suite.control.hosts.commands import run_on_hosts
from tests.helpers import PROJECT, one_line

LAUNCH = LaunchConfig(by="ssh", hosts=["a,b"], wait_seconds=20.0)


def agents(monkeypatch, **commands):
    """Replace ssh by local agents, or by the command that `commands` contains for a machine."""

    def started(name, by, launch):
        assert by == "ssh"
        return launchers.connect_agent(
            name, commands.get(name) or launchers.agent_argv(launch.lease_seconds), launch
        )

    monkeypatch.setattr(launchers, "start_agent", started)


def run_main(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out.splitlines()


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one core: no machine here can have fewer"
)
def test_every_machine_is_checked_and_the_highest_exit_code_is_returned(monkeypatch, capsys):
    """Check two machines of which the second has a core less than the run needs."""
    cores = sorted(os.sched_getaffinity(0))
    fewer = ["taskset", "-c", ",".join(map(str, cores[1:])), *launchers.agent_argv(5.0)]
    agents(monkeypatch, b=fewer)
    code, lines = run_main(
        capsys, "doctor", "--device", "cpu", "--gpus", len(cores), "--hosts", "a,b"
    )
    impossible = [line for line in lines if f"this machine has {len(cores) - 1}" in line]
    assert code == 1
    assert [line.partition("devices")[0] for line in impossible] == ["b: impossible  "]
    assert sorted(lines, key=lambda line: line[:3]) == lines
    assert {line[:3] for line in lines} == {"a: ", "b: "}


def test_paths_are_relative_to_the_working_directory_of_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SUITE_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["data", "make-demo", "ml-demo", "--to", "made"]) == 0
    capsys.readouterr()
    words = ("data", "verify", "ml-demo", "--to", "made", "--hosts", "a,b", "--launch", "ssh")
    agents(monkeypatch)
    code, lines = run_main(capsys, *words)
    assert code == 0
    assert {line[:3] for line in lines} == {"a: ", "b: "}
    (tmp_path / "made" / "manifest.json").unlink()
    code, lines = run_main(capsys, *words)
    assert code == 2
    assert [
        line.startswith(f"{name}: suite data: ") for name, line in zip("ab", lines, strict=True)
    ] == [True, True]


def test_a_missing_python_is_reported_for_each_machine(monkeypatch, capsys):
    agents(monkeypatch)
    monkeypatch.setattr(sys, "executable", "/no/python")
    code, lines = run_main(capsys, "doctor", "--hosts", "a,b")
    assert code == 2
    message = (
        "/no/python is missing on that machine. Install the suite in the same folder on all"
        " machines"
    )
    assert lines == [
        f"{name}: machine {name} is lost: sh ended with exit code 66: {message}" for name in "ab"
    ]


def test_a_machine_that_cannot_be_reached_prints_one_line(monkeypatch):
    agents(
        monkeypatch, a=["sh", "-c", "echo 'ssh: connect to host a: No route to host' >&2; exit 255"]
    )
    lines = []
    assert run_on_hosts(["--version"], LAUNCH, lines.append, {}) == 2
    assert lines[0].startswith(
        "a: machine a is lost: sh ended with exit code 255: ssh: connect to host a: No route"
    )
    assert [line[:9] for line in lines[1:]] == ["b: suite "]


def test_a_silent_machine_prints_one_line(monkeypatch):
    agents(monkeypatch, b=["sleep", "60"])
    lines = []
    assert run_on_hosts(["--version"], replace(LAUNCH, wait_seconds=2.0), lines.append, {}) == 2
    assert lines[0].startswith("a: suite ")
    assert lines[1].startswith("b: machine b is lost: silent for 2 s (launch.wait_seconds=2)")
    assert len(lines) == 2


ALLOCATION = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "node[1-2]"}


def parsed_arguments(*words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus")
    add_machines(parser)
    return parser.parse_args(words)


def test_machines_come_from_options_or_the_allocation():
    assert launch_of(parsed_arguments(), ALLOCATION) is None
    assert launch_of(parsed_arguments("--launch", "local"), {}) is None
    assert launch_of(argparse.Namespace(), {}) is None
    assert launchers.machine_names(
        launch_of(parsed_arguments("--hosts", "a,node[1-2]"), ALLOCATION)
    ) == [
        "a",
        "node1",
        "node2",
    ]
    slurm = launch_of(parsed_arguments("--launch", "slurm"), ALLOCATION)
    assert launchers.machine_names(slurm, ALLOCATION) == ["node1", "node2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--launch", "ssh"), "--launch ssh: which machines? type --hosts a,b or --hostfile FILE"),
        (
            ("--launch", "slurm"),
            "--launch slurm: there is no SLURM allocation here. Run salloc -N2 first",
        ),
        (
            ("--launch", "slurm", "--hosts", "a"),
            "--launch slurm: --hosts and --hostfile are for --launch ssh",
        ),
        (
            ("--launch", "local", "--hosts", "a"),
            "--launch local: --hosts and --hostfile are for --launch ssh",
        ),
    ],
)
def test_contradicting_options_are_refused(words, message):
    with pytest.raises(ValueError, match=one_line(message)):
        launch_of(parsed_arguments(*words), {})


def test_machines_get_absolute_paths_and_no_options_about_machines(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    parsed = argparse.Namespace(to=Path("made"), name="ml-demo")
    words = [
        "data",
        "verify",
        "ml-demo",
        "--hosts=a,b",
        "--to",
        "made",
        "--to=made",
        "--launch",
        "ssh",
        "--gpus",
        "2",
    ]
    whole = f"{tmp_path}/made"
    kept = ["data", "verify", "ml-demo", "--to", whole, f"--to={whole}", "--gpus", "2"]
    assert without_machines(words, parsed) == kept


@pytest.mark.slow
def test_doctor_over_ssh_and_in_an_allocation(machines):
    two = machines(2, ssh=True, slurm=True)
    env = {"PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])}
    doctor = [sys.executable, "-m", "suite.cli", "doctor", "--device", "cpu"]

    def lines(*words):
        done = two.hub.run(list(words), two.folder, timeout=120, check=False, env=env)
        return done.returncode, done.stdout.splitlines()

    code, over_ssh = lines(*doctor, "--hosts", "node[1-2],nowhere")
    assert code == 2
    assert {line.partition(": ")[0] for line in over_ssh} == {"node1", "node2", "nowhere"}
    assert sum(line.startswith("nowhere: ") for line in over_ssh) == 1
    code, allocated = lines("salloc", "-N2", *doctor, "--launch", "slurm")
    assert code in (0, 1), allocated
    assert {line.partition(": ")[0] for line in allocated if line.startswith("node")} == {
        "node1",
        "node2",
    }
