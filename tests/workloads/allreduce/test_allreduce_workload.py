"""The all-reduce workload: sizes, steps, exact sums, times, and rejected settings."""

import numpy as np
import pytest

from suite.catalog.rounds import get_round
from suite.launch.mxnet import MXNET
from suite.plan.load import load_workload_and_framework
from suite.plan.settings import _check_transport, resolve_settings
from suite.plan.unsupported import UnsupportedError
from testing.synthetic import place, settings
from tests import helpers
from workloads.allreduce.workload import PERIOD, TIMED, WARMUPS, AllReduce, contribution, sizes

KIB, GIB = 1 << 10, 1 << 30


def workload(**changes):
    values = {
        "profile": "synthetic",
        "devices": 2,
        "global_batch_size": 64 * KIB,
        "timing_each": "steps",
    }
    values |= {"hyperparameter_set": "sizes", "stop": "epochs:1", **changes}
    chosen = settings("allreduce", **values)
    return AllReduce(chosen, AllReduce.load_dataset_info(chosen))


def resolved(*overrides):
    config = helpers.composed(
        "workload=allreduce", "profile=synthetic", "device=cpu", "gpus=2", *overrides
    )
    return resolve_settings(config, *load_workload_and_framework(config))


def test_sizes_go_from_a_kib_by_factors_of_four():
    assert sizes(GIB) == [KIB * 4**power for power in range(11)]
    assert sizes(5 * KIB) == [KIB, 4 * KIB], "no size above the batch"


def test_an_epoch_has_warm_ups_and_timed_steps_of_every_size():
    all_reduce = workload()
    steps = [
        first
        for first, _ in all_reduce.open_data(place(0, range(2), 2), 1).train(
            0, all_reduce.epochs.start(1)
        )
    ]
    assert [int(step.arrays["bytes"][0]) for step in steps] == [
        size for size in sizes(64 * KIB) for _ in range(25)
    ]
    assert [int(step.arrays["number"][0]) for step in steps] == [*range(WARMUPS + TIMED)] * 4
    assert sum(step.global_samples for step in steps) == all_reduce.epoch_samples.trained


def test_devices_contribute_different_values_and_sums_are_exact_in_every_type():
    found = np.stack([contribution(replica) for replica in range(256)])
    assert len(np.unique(found, axis=0)) == 256
    assert set(np.unique(found)) == {0.0, 1.0}
    expected = workload(devices=256).expected()
    np.testing.assert_array_equal(expected, found.sum(axis=0))
    assert expected.max() <= 256, "8 bits of mantissa represent it"
    assert len(np.unique(expected)) > PERIOD / 4, "a sum at a wrong position is detected"


def test_only_timed_steps_of_reached_sizes_are_summarized():
    all_reduce = workload()
    seconds = [99.0 if step % 25 < WARMUPS else 1e-6 * (1 + step // 25) for step in range(100)]
    ((key, value),) = all_reduce.summarize_step_times(seconds, "a clock").items()
    assert key == "suite_all_reduce"
    assert {"devices": 2, "warmups": 5, "how": "a clock"}.items() <= value.items()
    assert [(item["bytes"], item["count"], item["median_us"]) for item in value["sizes"]] == [
        (KIB, 20, 1.0), (4 * KIB, 20, 2.0), (16 * KIB, 20, 3.0), (64 * KIB, 20, 4.0),
    ]  # fmt: skip
    cut_short = workload(stop="steps:30").summarize_step_times(seconds[:30], "a clock")[
        "suite_all_reduce"
    ]
    assert [item["bytes"] for item in cut_short["sizes"]] == [KIB]


def test_a_run_times_every_size_once_and_has_no_target():
    chosen = resolved("timing=steps")
    assert (chosen.stop, chosen.global_batch_size, chosen.dataset, dict(chosen.targets)) == (
        "epochs:1",
        GIB,
        "",
        {},
    )
    assert not chosen.to_target
    with pytest.raises(ValueError, match="stop=target: the workload has no target"):
        resolved("timing=steps", "stop=target")
    with pytest.raises(ValueError, match="profile=demo: allreduce trains no model"):
        AllReduce.defaults("demo", get_round("v0.7", AllReduce), {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": 1}, "gpus=1: an all-reduce needs several devices"),
        ({"mode": "forward"}, "mode=forward: allreduce has no forward and backward passes"),
        ({"timing_each": "interval"}, "Set timing=steps or study=allreduce"),
        (
            {"global_batch_size": 512, "batch_rule": "global:512"},
            "batch=global:512: expected at least 1024 bytes for the largest buffer",
        ),
        ({"devices": 512, "precision": "bf16"}, "sums over more than 256 devices are not exact"),
    ],
)
def test_settings_without_a_meaningful_time_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        workload(**changes)


def test_links_that_devices_do_not_have_are_rejected():
    for framework in ("pytorch", "mxnet"):
        found = resolved("timing=steps", "transport=network", f"framework={framework}")
        assert found.transport == "network", "processes on CPU cores always use TCP"
    with pytest.raises(
        UnsupportedError, match="transport=no_p2p: CPU cores have no peer-to-peer links"
    ):
        resolved("timing=steps", "transport=no_p2p")
    with pytest.raises(
        UnsupportedError,
        match="transport=network: mxnet drives all devices of a machine from a single process",
    ):
        _check_transport("network", "cuda", MXNET)
