"""Ratios to a chosen baseline: choice of the divisor, and notes on further differences."""

import pytest

from suite.results.scores import results
from suite.results.views.baseline import baseline_section, parse_baseline
from testing.fake_logs import write_run
from tests.helpers import one_line
from tests.suite.results.rows import lines


def ratios(root, against):
    section = baseline_section(results(root), parse_baseline(against))
    return {(row.framework, row.device, row.devices): row for row in lines(section.table)}


def test_ratios_of_a_gpu_to_the_cpu(tmp_path):
    write_run(tmp_path, "cpu", stop="epochs:2", samples=100)
    gpu = {"device": "gpu", "device_name": "A GPU", "labels": ["demo"], "cores_per_device": None}
    write_run(tmp_path, "gpu", stop="epochs:2", samples=1000, precision="bf16", **gpu)
    found = ratios(tmp_path, "device=cpu")
    assert found["pytorch", "gpu", 1].ratio == pytest.approx(10.0)
    assert found["pytorch", "gpu", 1].notes == (
        "precision fp32 and bf16",
        "demo",
        "divided by a result with the label cpu",
    )
    assert found["pytorch", "cpu", 1].ratio == 1.0
    # All rows have the same divisor, so the table needs no column for it.
    assert not hasattr(found["pytorch", "cpu", 1], "divided by")


def test_ratios_of_times_to_one_device(tmp_path):
    for devices, seconds in ((1, 3.0), (2, 2.0)):
        write_run(tmp_path, str(devices), devices=devices, seconds_per_epoch=seconds)
        write_run(
            tmp_path,
            f"{devices} of mxnet",
            devices=devices,
            seconds_per_epoch=2 * seconds,
            framework="mxnet",
        )
    found = ratios(tmp_path, "gpus=1")
    assert found["pytorch", "cpu", 2].ratio == found["mxnet", "cpu", 2].ratio == pytest.approx(1.5)
    assert ratios(tmp_path, "framework=mxnet")["pytorch", "cpu", 2].ratio == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"stop": "epochs:2", "profile": "reference"},
            "no result with gpus=1 has the same workload, profile, and stop condition",
        ),
        (
            {"stop": "epochs:2", "workload": "ssd"},
            "no result with gpus=1 has the same workload, profile, and stop condition",
        ),
        ({"stop": "epochs:2", "mode": "forward"}, "mode forward and mode train do different work"),
        (
            {"targets": {"hr_at_10": 0.5}},
            "trained to different targets (hit rate at 10 ≥ 0.5 and hit rate at 10 ≥ 0.635)",
        ),
        ({"dataset": "ml-20m"}, "trained on different data sets (ml-20m and ml-demo)"),
    ],
)
def test_ratios_that_compare_refuses_are_refused_here_too(tmp_path, settings, why):
    write_run(tmp_path, "a", **{"stop": settings.get("stop", "target")})
    write_run(tmp_path, "b", devices=2, **settings)
    last = ratios(tmp_path, "gpus=1")["pytorch", "cpu", 2]
    assert last.ratio is None
    assert why in last.notes[0]


def test_each_result_is_divided_by_the_baseline_with_the_same_settings(tmp_path):
    for rate, *times in ((0.003, 4.0, 2.5), (0.006, 3.0, 2.0)):
        for devices, seconds in enumerate(times, start=1):
            options = {"keys": {"opt_base_learning_rate": rate}, "seconds_per_epoch": seconds}
            write_run(tmp_path, f"{rate}-{devices}", devices=devices, **options)
    found = list(lines(baseline_section(results(tmp_path), ("gpus", "1")).table))
    assert [row.ratio for row in found if row.devices == 2] == pytest.approx([1.6, 1.5])
    assert {vars(row)["divided by"].rpartition(" ")[2] for row in found} == {"0.003", "0.006"}


WRONG = {
    "cpu=1": "--baseline",
    "gpus=": "expected KEY=VALUE",
    "gpus=7": "gpus",
    "framework=jax": "pytorch",
}


@pytest.mark.parametrize(("option", "expected"), WRONG.items())
def test_an_invalid_baseline_is_rejected_in_one_line(tmp_path, option, expected):
    write_run(tmp_path, "a")
    with pytest.raises(ValueError, match=one_line(expected)):
        ratios(tmp_path, option)
