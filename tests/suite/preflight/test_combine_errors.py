"""A command with several problems lists all of them at once, with a demo to run instead."""

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
def test_all_problems_of_a_published_run_are_listed(
    tmp_path, monkeypatch, two_cores, workload, file
):
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
def test_the_demo_has_the_same_workload_on_the_available_devices(
    monkeypatch, two_cores, cores, asked, count
):
    """Check the number of devices: the batch size of each demo is a multiple of 1, 2, 4 and 8."""
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
    assert combined_errors(*words).splitlines()[-1] == f"{TYPE}{demo}"


def test_a_gpu_that_does_not_answer_hides_no_other_problem(monkeypatch, two_cores):
    def lost():
        raise ValueError("GPU 0 is lost")

    only_environment(monkeypatch)
    monkeypatch.setattr(devices, "gpus", lost)
    lines = combined_errors("workload=ncf", "profile=demo", "device=cpu", "gpus=8").splitlines()
    assert [line[:9] for line in lines[:3]] == ["2 problem", "  1. gpus", "  2. envi"]
    assert lines[3:] == [f"{TYPE}workload=ncf profile=demo gpus=2"]


def test_two_problems_have_a_line_each(tmp_path, monkeypatch, two_cores):
    only_environment(monkeypatch, "torch")
    first, device, data, runs = run(tmp_path, "workload=ncf")
    assert first == "run_suite.py: 2 problems prevent this command from running here:"
    assert device.endswith("set device=cpu. For a small run without a data set, set profile=demo")
    assert (
        "https://grouplens.org/datasets/movielens/20m/ and run: suite data prepare ml-20m" in data
    )
    assert runs == f"{TYPE}workload=ncf profile=demo gpus=1"


def test_the_demo_keeps_the_folders_of_the_command(tmp_path, monkeypatch, two_cores):
    """Check that the printed command has the user's configuration folder and the output folder.

    The command can be composed as it is printed.
    """
    only_environment(monkeypatch, "torch")
    config_folder = tmp_path / "own files"
    (config_folder / "workload").mkdir(parents=True)
    (config_folder / "workload" / "ncf_slow.yaml").write_text(
        "defaults: [ncf]\nlearning_rate: 0.001\n"
    )
    *_, last = run(
        tmp_path,
        "--config-dir",
        config_folder,
        "workload=ncf_slow",
        "gpus=8",
        f"output={tmp_path / 'out'}",
    )
    again = shlex.split(last.removeprefix(TYPE))
    assert again[:2] == ["--config-dir", str(config_folder)]
    config = compose(again).jobs[0].config
    assert (config.workload["learning_rate"], config.output) == (0.001, str(tmp_path / "out"))


def combined_errors(*words):
    config = composed(*words)
    return str(combine_errors([Composed(config, words)], [plan(config)]))


def test_without_a_gpu_only_the_missing_gpu_is_listed(monkeypatch, two_cores):
    """Check that no problem of `device=cpu` is listed, and no precision that only GPUs support."""
    only_environment(monkeypatch, "torch")
    words = ("workload=ncf", "profile=demo", "device=cuda", "gpus=8", "precision=tf32")
    (line,) = combined_errors(*words).splitlines()
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
def test_all_other_problems_are_listed_if_the_machines_are_unknown(
    monkeypatch, two_cores, nodes, starts, second
):
    only_environment(monkeypatch)
    lines = combined_errors(
        "workload=ncf", "profile=demo", "device=cpu", f"nodes={nodes}", "gpus=8"
    ).splitlines()
    assert [line[5:10] for line in lines[1:4]] == starts
    assert second in lines[2]


def test_an_unsupported_setting_is_listed_with_the_other_problems(tmp_path, monkeypatch, two_cores):
    only_environment(monkeypatch, "torch")
    _, first, second, runs = run(
        tmp_path, "workload=ncf", "profile=demo", "precision=tf32", "device=cpu", "gpus=8"
    )
    assert first.startswith("  1. gpus=8: ")
    assert second.startswith("  2. precision=tf32: only GPUs support it")
    assert runs.endswith("profile=demo gpus=2")


def test_a_sweep_lists_each_problem_once(tmp_path, monkeypatch, two_cores):
    only_environment(monkeypatch, "torch")
    lines = run(tmp_path, "-m", "workload=ssd", "gpus=1,8")
    assert [line[:4] for line in lines[1:-1]] == ["  1.", "  2.", "  3."]
    assert len({line[5:] for line in lines}) == len(lines)


def test_fewer_gpus_than_requested(tmp_path, monkeypatch, two_cores):
    """Check that a lack of CPU cores is not listed."""
    only_environment(monkeypatch, "torch")
    monkeypatch.setattr(devices, "gpus", lambda: [devices.Gpu("Fake GPU", 80 * GIB, "9.0")])
    lines = run(tmp_path, "workload=ssd", "gpus=8", "batch=global:64")
    assert lines[0] == "run_suite.py: 3 problems prevent this command from running here:"
    assert lines[1] == "  1. gpus=8: this machine has 1 visible GPU(s). Set gpus=1 or less"
    assert "backbone.weights=PATH" in lines[2]
    assert "suite data prepare coco2017" in lines[3]
    assert lines[4:] == [f"{TYPE}workload=ssd profile=demo gpus=1"]
