"""A command that much is in the way of names all of it at once, and the demo to type instead."""

import shlex
import sys

import pytest

from suite.config.compose import Composed, compose
from suite.environments import environment
from suite.environments.environment import Environment
from suite.machine import devices
from suite.plan import capacity
from suite.plan.jobs import plan
from suite.preflight.combine_errors import combine_errors
from tests.helpers import composed, run_suite_here

GIB = 1 << 30
TYPE = "for a demo on the devices of this machine, run: python run_suite.py "


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(devices, "cpu_cores", lambda: (0, 1))
    monkeypatch.setattr(devices, "gpus", list)
    monkeypatch.setattr(capacity, "available_bytes", lambda allowed: 4000 * GIB)


def only_environment(monkeypatch, *names):
    def resolve(config, default, device="cpu", tell=None):
        name = default if config.name == "auto" else config.name
        if name not in names:
            raise ValueError(f"environment {name} does not exist. Run: suite env create {name}")
        return Environment(name, (), sys.executable)

    monkeypatch.setattr(environment, "resolve", resolve)


def run(tmp_path, *words):
    done = run_suite_here(tmp_path, *words, SUITE_DATA_DIR=str(tmp_path / "data"), exits=2)
    assert not (tmp_path / "logs").exists()
    assert not (tmp_path / "data").exists()
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("workload", "file"), [("maskrcnn", "R-50.pkl"), ("ssd", "resnet34-333f7ec4.pth")]
)
def test_all_that_a_published_run_lacks(tmp_path, monkeypatch, two_cores, workload, file):
    only_environment(monkeypatch)
    lines = run(tmp_path, f"workload={workload}", "gpus=8")
    parts = (
        ("run_suite.py: 4 problems prevent this command from running here:", ""),
        ("  1. profile=reference needs a GPU, but no GPU is visible", "set device=cpu"),
        ("  2. environment torch does not exist", "suite env create torch"),
        ("  3. workload=", f"{file} and set backbone.weights=PATH"),
        ("  4. no prepared data in ", "suite data prepare coco2017 --from FOLDER"),
        (TYPE, f"run_suite.py workload={workload} profile=demo gpus=2"),
    )
    assert len(lines) == len(parts)
    for line, (start, what_to_type) in zip(lines, parts, strict=True):
        assert line.startswith(start)
        assert what_to_type in line


@pytest.mark.parametrize(
    ("cores", "asked", "count"), [(2, 8, 2), (3, 8, 2), (64, 16, 8), (64, 1, 1)]
)
def test_the_demo_is_of_the_same_workload_on_devices_that_are_here(
    monkeypatch, two_cores, cores, asked, count
):
    """The batch of each demo divides by 1, 2, 4 and 8."""
    only_environment(monkeypatch)
    monkeypatch.setattr(devices, "cpu_cores", lambda: tuple(range(cores)))
    words = (
        "workload=ssd",
        "framework=mxnet",
        f"gpus={asked}",
        "workload.max_epochs=50",
        "environment.options=[--rm]",
    )
    demo = f"workload=ssd framework=mxnet 'environment.options=[--rm]' profile=demo gpus={count}"
    assert said(*words).splitlines()[-1] == f"{TYPE}{demo}"


def test_a_gpu_that_does_not_answer_hides_nothing_of_what_is_in_the_way(monkeypatch, two_cores):
    def lost():
        raise ValueError("GPU 0 is lost")

    only_environment(monkeypatch)
    monkeypatch.setattr(devices, "gpus", lost)
    lines = said("workload=ncf", "profile=demo", "device=cpu", "gpus=8").splitlines()
    assert [line[:9] for line in lines[:3]] == ["2 problem", "  1. gpus", "  2. envi"]
    assert lines[3:] == [f"{TYPE}workload=ncf profile=demo gpus=2"]


def test_two_obstacles_have_a_line_each(tmp_path, monkeypatch, two_cores):
    only_environment(monkeypatch, "torch")
    first, device, data, runs = run(tmp_path, "workload=ncf")
    assert first == "run_suite.py: 2 problems prevent this command from running here:"
    assert device.endswith("set device=cpu. For a small run without a data set, set profile=demo")
    assert (
        "https://grouplens.org/datasets/movielens/20m/ and run: suite data prepare ml-20m" in data
    )
    assert runs == f"{TYPE}workload=ncf profile=demo gpus=1"


def test_the_demo_keeps_the_folders_that_were_typed(tmp_path, monkeypatch, two_cores):
    """The user's own of configurations, and where the runs go; as it is typed, it composes."""
    only_environment(monkeypatch, "torch")
    own = tmp_path / "own files"
    (own / "workload").mkdir(parents=True)
    (own / "workload" / "ncf_slow.yaml").write_text("defaults: [ncf]\nlearning_rate: 0.001\n")
    *_, last = run(
        tmp_path, "--config-dir", own, "workload=ncf_slow", "gpus=8", f"output={tmp_path / 'out'}"
    )
    again = shlex.split(last.removeprefix(TYPE))
    assert again[:2] == ["--config-dir", str(own)]
    config = compose(again).jobs[0].config
    assert (config.workload["learning_rate"], config.output) == (0.001, str(tmp_path / "out"))


def said(*words):
    config = composed(*words)
    return str(combine_errors([Composed(config, words)], [plan(config)]))


def test_without_a_gpu_only_what_concerns_gpus_is_said(monkeypatch, two_cores):
    """Not the cores that device=cpu would lack, nor that a precision is of GPUs alone."""
    only_environment(monkeypatch, "torch")
    words = ("workload=ncf", "profile=demo", "device=cuda", "gpus=8", "precision=tf32")
    (line,) = said(*words).splitlines()
    assert (line.partition(":")[0], line.rpartition(". ")[2]) == ("device=cuda", "Set device=cpu")


@pytest.mark.parametrize(
    ("nodes", "starts", "second"),
    [
        (
            2,
            ["nodes", "gpus=", "envir"],
            "4 CPU device(s) of 1 core(s) need 4 cores, but this machine has 2. Set gpus=4",
        ),
        (3, ["nodes", "nodes", "envir"], "Set gpus=6 or a different multiple of 3"),
    ],
)
def test_machines_that_are_unknown_keep_nothing_else_from_being_checked(
    monkeypatch, two_cores, nodes, starts, second
):
    only_environment(monkeypatch)
    lines = said(
        "workload=ncf", "profile=demo", "device=cpu", f"nodes={nodes}", "gpus=8"
    ).splitlines()
    assert [line[5:10] for line in lines[1:4]] == starts
    assert second in lines[2]


def test_a_mistake_beside_an_obstacle_is_named_with_it(tmp_path, monkeypatch, two_cores):
    only_environment(monkeypatch, "torch")
    _, first, second, runs = run(
        tmp_path, "workload=ncf", "profile=demo", "precision=tf32", "device=cpu", "gpus=8"
    )
    assert first.startswith("  1. gpus=8: ")
    assert second.startswith("  2. precision=tf32: only GPUs support it")
    assert runs.endswith("profile=demo gpus=2")


def test_a_sweep_names_each_obstacle_once(tmp_path, monkeypatch, two_cores):
    only_environment(monkeypatch, "torch")
    lines = run(tmp_path, "-m", "workload=ssd", "gpus=1,8")
    assert [line[:4] for line in lines[1:-1]] == ["  1.", "  2.", "  3."]
    assert len({line[5:] for line in lines}) == len(lines)


def test_fewer_gpus_than_asked_for(tmp_path, monkeypatch, two_cores):
    """CPU cores are then in nobody's way."""
    only_environment(monkeypatch, "torch")
    monkeypatch.setattr(devices, "gpus", lambda: [devices.Gpu("Fake GPU", 80 * GIB, "9.0")])
    lines = run(tmp_path, "workload=ssd", "gpus=8", "batch=global:64")
    assert lines[0] == "run_suite.py: 3 problems prevent this command from running here:"
    assert lines[1] == "  1. gpus=8: this machine has 1 visible GPU(s). Set gpus=1 or less"
    assert "backbone.weights=PATH" in lines[2]
    assert "suite data prepare coco2017" in lines[3]
    assert lines[4:] == [f"{TYPE}workload=ssd profile=demo gpus=1"]
