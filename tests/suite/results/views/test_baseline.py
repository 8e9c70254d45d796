"""Ratios across tables: which result is divided by, and what else differs."""

import pytest

from suite.results.columns import rows
from suite.results.scores import result_rows
from suite.results.table import table
from suite.results.views.baseline import baseline_section, parse_baseline
from tests.suite.results.fake_logs import write_run


def ratios(root, against):
    section = baseline_section(result_rows(table(root)), parse_baseline(against))
    return {(row.framework, row.device, row.devices): row for row in rows(section.table)}


def test_a_gpu_over_the_cpu(tmp_path):
    write_run(tmp_path, "cpu", stop="epochs:2", samples=100)
    gpu = {"device": "gpu", "device_name": "A GPU", "labels": ["demo"], "cores_per_device": None}
    write_run(tmp_path, "gpu", stop="epochs:2", samples=1000, precision="bf16", **gpu)
    found = ratios(tmp_path, "device=cpu")
    assert found["pytorch", "gpu", 1].ratio == pytest.approx(10.0)
    assert found["pytorch", "gpu", 1].notes == ("precision fp32 and bf16", "demo", "the other: cpu")
    assert found["pytorch", "cpu", 1].ratio == 1.0


def test_times_over_one_device(tmp_path):
    for devices, seconds in ((1, 3.0), (2, 2.0)):
        write_run(tmp_path, str(devices), devices=devices, seconds_per_epoch=seconds)
        write_run(tmp_path, f"{devices} of mxnet", devices=devices, seconds_per_epoch=2 * seconds, framework="mxnet")
    found = ratios(tmp_path, "gpus=1")
    assert found["pytorch", "cpu", 2].ratio == found["mxnet", "cpu", 2].ratio == pytest.approx(1.5)
    assert ratios(tmp_path, "framework=mxnet")["pytorch", "cpu", 2].ratio == pytest.approx(2.0)


@pytest.mark.parametrize("other", [{"profile": "reference"}, {"workload": "ssd"}, {"mode": "forward"}])
def test_other_work_is_not_divided(tmp_path, other):
    write_run(tmp_path, "a", stop="epochs:2")
    write_run(tmp_path, "b", devices=2, **{"stop": "epochs:2", **other})
    last = ratios(tmp_path, "gpus=1")["pytorch", "cpu", 2]
    assert last.ratio is None
    assert last.notes[0] == "there is no such result to divide by"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("cpu=1", "--baseline"), ("gpus=", "type a value"), ("gpus=7", "gpus"), ("framework=jax", "pytorch")],
)
def test_a_wrong_baseline_is_one_line(tmp_path, typed, expected):
    write_run(tmp_path, "a")
    with pytest.raises(ValueError, match=expected) as error:
        ratios(tmp_path, typed)
    assert "\n" not in str(error.value)
