"""A batch whose activations cannot fit the memory is refused before a run starts."""

import platform

import pytest

from suite.common import registry
from suite.launch.hosts import AvailableHost
from suite.machine.cgroups import Limits
from suite.plan import capacity
from suite.plan.capacity import available_bytes, check_memory, memory_of_each
from suite.plan.settings import resolve_settings
from tests.helpers import composed, refusal, run_suite_here

GIB = 1 << 30


def planned(workload, *overrides, nodes=()):
    config = composed(f"workload={workload}", "profile=synthetic", "device=cpu", *overrides)
    kind = registry.load_workload(workload)
    return kind, resolve_settings(config, kind, registry.load_framework("pytorch"), nodes)


def machines(*memory_gib):
    """Return nodes with this much memory each. None means that a node does not report it."""
    hosts = []
    for number, gib in enumerate(memory_gib):
        hardware = {"host": f"n{number}", "gpus": []}
        if gib is not None:
            hardware["memory_bytes"] = gib * GIB
        hosts.append(AvailableHost(f"n{number}", "", "", (0, 1), hardware))
    return hosts


@pytest.fixture
def memory(monkeypatch):
    return lambda gib: monkeypatch.setattr(
        capacity, "available_bytes", lambda allowed: int(gib * GIB)
    )


@pytest.mark.parametrize("workload", ["gnmt", "ncf", "resnet50", "ssd", "transformer"])
def test_the_default_batches_of_one_device_fit_a_laptop(workload, memory):
    memory(8)
    check_memory(*planned(workload))


def test_activations_before_and_after_batch_norm_are_counted_in_the_runs_precision():
    assert planned("resnet50")[1].global_batch_size == 64  # per device in synthetic runs
    for precision, size in (("fp32", 4), ("bf16", 2)):
        workload, settings = planned("resnet50", f"precision={precision}")
        assert workload.activation_bytes(settings) == 2 * size * 11_113_984


def test_refusal_names_a_batch_that_fits(memory):
    memory(24)
    with pytest.raises(ValueError, match="batch size 1664 on CPU cores") as error:
        check_memory(*planned("resnet50", "batch=global:1664", "gpus=2", "oversubscribe=true"))
    text = str(error.value)
    assert "at least 138 GiB, but only 24.0 GiB of memory are available" in text
    assert "\n" not in text
    fitting = int(text.rpartition("batch=global:")[2])
    assert fitting % 2 == 0
    assert fitting * 140e6 < 24 * GIB < 2 * fitting * 140e6  # as measured in PyTorch
    workload, settings = planned("resnet50", f"batch=global:{fitting}")
    memory(workload.activation_bytes(settings) * fitting / GIB)
    check_memory(workload, settings)  # exactly enough


def test_each_machine_holds_its_share_of_the_batch(memory):
    """Check 256 of 1024 images on each of four machines: 21 GiB of at least 85 GiB."""
    memory(1)
    nodes = machines(64, 32, 64, 64)
    words = ("resnet50", "batch=global:1024", "gpus=8", "nodes=4")
    check_memory(*planned(*words, nodes=nodes), nodes)
    nodes = machines(64, 16, 64, 64)
    with pytest.raises(
        ValueError,
        match=r"on CPU cores, 256 on each machine: .* 21 GiB, but only 16\.0 GiB of memory",
    ) as error:
        check_memory(*planned(*words, nodes=nodes), nodes)
    fitting = int(str(error.value).rpartition("batch=global:")[2])
    assert fitting % 8 == 0
    assert 256 < fitting < 1024
    check_memory(*planned(words[0], f"batch=global:{fitting}", *words[2:], nodes=nodes), nodes)


def test_remote_machines_report_their_memory_and_this_machine_its_free_memory(memory):
    memory(4)
    here = {"host": platform.node(), "memory_bytes": 64 * GIB}
    assert memory_of_each([]) == memory_of_each([here]) == 4 * GIB
    assert memory_of_each([node.hardware for node in machines(8, 16)]) == 8 * GIB
    assert memory_of_each([here, *(node.hardware for node in machines(8, None))]) == 4 * GIB


def test_ssd_is_checked_too(memory):
    memory(8)
    with pytest.raises(ValueError, match=r"batch size 1024 on CPU cores: .* Set batch=global:\d+$"):
        check_memory(*planned("ssd", "batch=global:1024"))


@pytest.mark.parametrize(
    "words", [("resnet50", "mode=forward", "batch=global:1664"), ("ncf", "batch=global:1048576")]
)
def test_batches_of_unknown_size_are_not_refused(words, memory):
    memory(1)
    check_memory(*planned(*words))


def test_the_control_groups_limit_counts():
    assert available_bytes(Limits()) > GIB
    assert available_bytes(Limits(2, None, 4 * GIB, GIB // 2)) == GIB // 2


def test_the_command_refuses_in_one_line(tmp_path, memory):
    memory(24)  # enough for the data, but not for the activations
    words = (
        "workload=resnet50",
        "profile=synthetic",
        "device=cpu",
        "environment=current",
        "batch=global:1664",
    )
    assert "at least 138 GiB, but only 24.0 GiB of memory are available" in refusal(
        run_suite_here(tmp_path, *words)
    )
    assert not list(tmp_path.rglob("result_0.txt"))
