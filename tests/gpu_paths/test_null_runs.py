"""Whole runs on null devices complete, and every result is labeled as a null device's result."""

import json

import pytest

from tests.helpers import events, full_but, only

SIX = {"ncf": "ml-demo", "resnet50": "imagenet-demo", "ssd": "coco-demo", "maskrcnn": "coco-demo",
       "gnmt": "translation-demo", "transformer": "translation-demo"}  # fmt: skip


def overrides_of(workload, devices, *more):
    return [f"workload={workload}", "profile=demo", f"gpus={devices}", "stop=steps:2", *more]


def collectives(folder):
    return {path.suffix: path.read_text().splitlines() for path in folder.glob("nccl.*")}


@pytest.mark.parametrize("workload", full_but(SIX, "ncf"))
def test_two_devices_train_and_call_the_same_collectives(null, demo_data, workload):
    demo_data(SIX[workload])
    null.run(
        *overrides_of(workload, 2),
        cards=("h100", "h100"),
        NULL_NCCL=str(null.folder / "nccl"),
        exits=0,
    )
    first, second = collectives(null.folder).values()
    assert first == second
    assert any(line.startswith("all-reduce") for line in first)


@pytest.fixture
def lost_device(null):
    """Return options with which the second of two cards is lost."""
    gone = null.folder / "gone"
    gone.touch()
    return {"cards": ("h100", "h100"), "NULL_GPU_LOST": f"1:{gone}"}


def test_results_are_labeled_and_refused_for_comparison(null, demo_data, lost_device):
    """Check the log, the console, the report and telemetry; comparing and packaging are refused.

    A lost card that the run does not use does not end the run.
    """
    demo_data("ml-demo")
    done = null.run(*overrides_of("ncf", 1), **lost_device, CUDA_VISIBLE_DEVICES="0", exits=0)
    assert "null device" in done.stdout
    (log,) = null.folder.glob("logs/**/result_0.txt")
    settings = next(value for key, value, _ in events(log) if key == "suite_run")
    assert settings["labels"] == ["demo", "null device"]
    assert (settings["device_name"], settings["precision"]) == (
        "NVIDIA H100 80GB HBM3 (null device)",
        "bf16",
    )
    header, *samples = map(json.loads, (log.parent / "telemetry.jsonl").read_text().splitlines())
    assert header["sensors"]["gpu_percent"] is None  # NVML returned no error.
    # A short run may end before the first sample.
    assert all(sample["gpu_percent"] == [97] for sample in samples)
    topology = json.loads((log.parent / "topology.json").read_text())
    assert only(topology["gpus"])["capability"] == "9.0"
    assert "null device" in null.suite("report", "logs").stdout
    for arguments in (
        ["compare", "logs"],
        ["package", "logs", "out", "--submitter", "x", "--system", "y"],
    ):
        assert "does not compute" in null.suite(*arguments, exits=2).stderr


def test_too_little_memory_ends_with_the_status_oom(null, demo_data):
    demo_data("ml-demo")
    done = null.run(*overrides_of("ncf", 1, "batch=global:4194304"), cards=("small",))
    (status,) = null.folder.glob("logs/**/status.json")
    assert json.loads(status.read_text())["status"] == "oom", done.stdout + done.stderr


def test_a_rank_that_dies_in_a_collective_is_named(null, demo_data):
    demo_data("ml-demo")
    done = null.run(*overrides_of("ncf", 2), cards=("h100", "h100"), NULL_NCCL_DIES="2")
    (status,) = null.folder.glob("logs/**/status.json")
    content = json.loads(status.read_text())
    assert (content["status"], done.returncode) == ("rank_died", 1), done.stdout + done.stderr
    assert "worker-1" in content["reason"] or "rank 1" in content["reason"]
