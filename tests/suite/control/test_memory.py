"""Runs that exhaust the memory: their status, the advice on batch sizes, and progress lines."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from suite.common import registry
from suite.control import memory, progress
from suite.control.progress import Progress
from suite.launch.hosts import AvailableHost
from suite.machine import exhaustion
from suite.plan import capacity
from suite.plan.capacity import check_inputs, fitting_batch
from suite.plan.settings import resolve_settings
from suite.worker.heartbeat import WorkerStatus
from tests.helpers import TOY_RUN, composed, only, run_suite_here, status

GIB = 1 << 30


def test_a_run_that_exhausts_memory_ends_as_oom_with_the_batch_that_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(exhaustion, "LEFT_SHARE", 1.0)
    monkeypatch.setattr(exhaustion, "OWN_SHARE", 0.0)
    run_suite_here(
        tmp_path, *TOY_RUN, "workload.misbehave=sleep", "stop=epochs:1000", toy=True, exits=1
    )
    ended = status(only((tmp_path / "logs").glob("*/*/run_0")))
    assert ended["status"] == "oom"
    assert "ended before the machine's memory was exhausted" in ended["reason"]
    assert ended["reason"].endswith("; a batch that should fit: batch=global:32 (it was 64)")


def test_the_first_log_that_is_not_empty_is_named(tmp_path):
    (tmp_path / "worker-1.log").touch()
    assert memory.log_to_read(tmp_path, "worker-1") == "worker-1.log, which is empty"
    (tmp_path / "server.log").write_text("killed")
    assert memory.log_to_read(tmp_path, "worker-1") == "server.log"
    (tmp_path / "worker-1.log").write_text("a line")
    assert memory.log_to_read(tmp_path, "worker-1") == "worker-1.log"


def resnet(*words):
    config = composed("workload=resnet50", "profile=synthetic", "device=cpu", *words)
    kind = registry.load_workload("resnet50")
    return kind, resolve_settings(config, kind, registry.load_framework("pytorch"))


def test_the_batch_that_fits_follows_from_the_activations():
    kind, settings = resnet("batch=global:1024", "gpus=2", "oversubscribe=true")
    sample = kind.activation_bytes(settings)
    fitting = fitting_batch(kind, settings, 8 * GIB)
    assert fitting == int(8 * GIB / (2 * sample)) // 2 * 2
    assert fitting_batch(kind, settings, 4000 * GIB) == 512
    assert fitting_batch(*resnet("batch=global:1"), 8 * GIB) == 0


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_images_that_do_not_fit_are_refused_in_every_mode(mode, monkeypatch):
    monkeypatch.setattr(capacity, "available_bytes", lambda allowed: 8 * GIB)
    kind, settings = resnet("batch=global:100000", f"mode={mode}")
    # 2 batches of 100,000 x 224 x 224 x 3 bytes
    with pytest.raises(ValueError, match="its data alone need 28 GiB") as error:
        check_inputs(kind(settings, kind.load_dataset_info(settings)))
    fitting = int(str(error.value).rpartition("batch=global:")[2])
    assert 2 * fitting * 224 * 224 * 3 < 8 * GIB
    kind, settings = resnet(f"mode={mode}")
    check_inputs(kind(settings, kind.load_dataset_info(settings)))


def test_each_machine_holds_its_share_of_the_batch_in_its_memory(monkeypatch):
    monkeypatch.setattr(capacity, "available_bytes", lambda allowed: GIB)
    hardware = [
        {"host": name, "memory_bytes": gib * GIB, "gpus": []} for name, gib in (("a", 32), ("b", 8))
    ]
    nodes = [AvailableHost(entry["host"], "", "", (0, 1), entry) for entry in hardware]
    config = composed(
        "workload=resnet50",
        "profile=synthetic",
        "device=cpu",
        "batch=global:1024",
        "gpus=2",
        "nodes=2",
    )
    kind = registry.load_workload("resnet50")
    settings = resolve_settings(config, kind, registry.load_framework("pytorch"), nodes)
    check_inputs(kind(settings, kind.load_dataset_info(settings)), nodes)
    large = replace(settings, global_batch_size=22_000)
    small = [replace(nodes[0], hardware={**hardware[0], "memory_bytes": GIB})]
    with pytest.raises(ValueError, match="on CPU cores of each machine: its data alone need 3 GiB"):
        check_inputs(kind(large, kind.load_dataset_info(large)), small)
    run = SimpleNamespace(settings=settings, hardware={**hardware[0], "nodes": hardware})
    fitting = fitting_batch(kind, settings, 2 * 8 * GIB)
    assert (
        memory.batch_advice(run) == f"a batch that should fit: batch=global:{fitting} (it was 1024)"
    )


BLOCK = {
    "first_epoch": 1, "epochs": 1, "step": 30, "samples_per_second": 32.0, "quality": {},
    "data_wait_seconds": 3.0, "train_seconds": 30.0, "elapsed_seconds": 30.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("ends_at", "rows", "minutes"), [(None, 0, (60, 120, 180)), (30, 2, (90, 150))]
)
def test_without_a_terminal_a_line_is_printed_a_minute_after_the_last(
    tmp_path, monkeypatch, ends_at, rows, minutes
):
    """Check the lines of a long epoch. The row of a block also counts as the last line."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    settings = SimpleNamespace(
        targets={}, stop="target", mode="train", profile="demo", workload="resnet50"
    )
    run = SimpleNamespace(
        folder=str(tmp_path), identity={"sample_unit": "images"}, settings=settings
    )
    with Progress(run, "job/run_0", Console(file=stream, width=100)) as shown:
        for now[0] in range(0, 181, 5):
            if now[0] == ends_at:
                (tmp_path / "metrics.jsonl").write_text(json.dumps(BLOCK) + "\n")
            heartbeat = WorkerStatus(
                0,
                1,
                "train",
                step=int(now[0]),
                samples=int(32 * now[0]),
                elapsed_seconds=float(now[0]),
            )
            shown.update([heartbeat])
    lines = stream.getvalue().splitlines()[1 + rows :]
    assert lines == [
        f"train, step {step}, 32 images/s since the last line, elapsed {step} s" for step in minutes
    ]
