"""Whole runs on null devices: they go their way to the end, and every number of theirs says where
it is from.
"""

import json

import pytest

from tests.helpers import events, full_but, only

SIX = {"ncf": "ml-demo", "resnet50": "imagenet-demo", "ssd": "coco-demo", "maskrcnn": "coco-demo",
       "gnmt": "translation-demo", "transformer": "translation-demo"}  # fmt: skip


def words(workload, devices, *more):
    return [f"workload={workload}", "profile=demo", f"gpus={devices}", "stop=steps:2", *more]


def collectives(folder):
    return {path.suffix: path.read_text().splitlines() for path in folder.glob("nccl.*")}


@pytest.mark.parametrize("workload", full_but(SIX, "ncf"))
def test_two_devices_train_and_call_the_same_collectives(null, demo_data, workload):
    demo_data(SIX[workload])
    null.run(
        *words(workload, 2), cards=("h100", "h100"), NULL_NCCL=str(null.folder / "nccl"), exits=0
    )
    first, second = collectives(null.folder).values()
    assert first == second
    assert any(line.startswith("all-reduce") for line in first)


@pytest.fixture
def one_lost(null):
    """What makes the second of two cards a lost one."""
    gone = null.folder / "gone"
    gone.touch()
    return {"cards": ("h100", "h100"), "NULL_GPU_LOST": f"1:{gone}"}


def test_numbers_are_labelled_and_go_nowhere(null, demo_data, one_lost):
    """Log, console, report, telemetry; neither compared nor packaged.

    A card that is left out and has vanished ends no run.
    """
    demo_data("ml-demo")
    done = null.run(*words("ncf", 1), **one_lost, CUDA_VISIBLE_DEVICES="0", exits=0)
    assert "null device" in done.stdout
    (log,) = null.folder.glob("logs/**/result_0.txt")
    settings = next(value for key, value, _ in events(log) if key == "suite_run")
    assert settings["labels"] == ["demo", "null device"]
    assert (settings["device_name"], settings["precision"]) == (
        "NVIDIA H100 80GB HBM3 (null device)",
        "bf16",
    )
    header, *samples = map(json.loads, (log.parent / "telemetry.jsonl").read_text().splitlines())
    assert header["sensors"]["gpu_percent"] is None  # NVML was asked without a fault
    assert all(
        one["gpu_percent"] == [97] for one in samples
    )  # none in a run that was over before the first was due
    topology = json.loads((log.parent / "topology.json").read_text())
    assert only(topology["gpus"])["capability"] == "9.0"
    assert "null device" in null.suite("report", "logs").stdout
    for typed in (
        ["compare", "logs"],
        ["package", "logs", "out", "--submitter", "x", "--system", "y"],
    ):
        assert "does not compute" in null.suite(*typed, exits=2).stderr


def test_too_little_memory_is_filed_as_oom(null, demo_data):
    demo_data("ml-demo")
    done = null.run(*words("ncf", 1, "batch=global:4194304"), cards=("small",))
    (status,) = null.folder.glob("logs/**/status.json")
    assert json.loads(status.read_text())["status"] == "oom", done.stdout + done.stderr


def test_a_rank_that_dies_in_a_collective_is_named(null, demo_data):
    demo_data("ml-demo")
    done = null.run(*words("ncf", 2), cards=("h100", "h100"), NULL_NCCL_DIES="2")
    (status,) = null.folder.glob("logs/**/status.json")
    filed = json.loads(status.read_text())
    assert (filed["status"], done.returncode) == ("rank_died", 1), done.stdout + done.stderr
    assert "worker-1" in filed["reason"] or "rank 1" in filed["reason"]
