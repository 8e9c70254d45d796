"""Which measurements one prediction may rest on."""

from dataclasses import replace

import pytest

from suite.results.predict.comparable import comparable
from suite.results.published.csv_files import find_published_results
from suite.results.published.other_logs import measurements_below
from tests.suite.results.fake_logs import write_run


def published(name, workload):
    return [item.measurement for item in find_published_results(name) if item.benchmark == workload]


@pytest.mark.parametrize(
    "other",
    [
        {"mode": "forward", "stop": "steps:100"},
        {"stop": "epochs:3"},
        {"update": "async"},
        {"variant": "64 pixels"},
        {"dataset": "another"},
        {"lr_scaling": "linear"},
    ],
)
def test_runs_that_do_other_work_are_apart(tmp_path, other):
    for name, batch, settings in (("a", 64, {}), ("b", 256, {}), ("c", 256, other)):
        write_run(
            tmp_path, name, batch_size_global=batch, batch_rule=f"per_device:{batch}",
            keys={"global_batch_size": batch}, **settings,
        )  # fmt: skip
    assert sorted(len(group) for group in comparable(measurements_below([tmp_path]))) == [1, 2]


def test_a_set_that_only_names_another_batch_does_not_part_runs(tmp_path):
    for devices in (1, 4):
        write_run(tmp_path, f"ncf-{devices}", devices=devices, hyperparameter_set=f"dgx1_article_{devices}gpu")
    assert [len(group) for group in comparable(measurements_below([tmp_path]))] == [2]


def test_the_divisions_are_apart():
    """v0.7/SIAT ran the same batches 64 epochs long in the closed division, and 24 in the open one."""
    items = published("v0.7/SIAT", "resnet50")
    groups = comparable(items)
    assert {item.division for item in items} == {"closed", "open"}
    assert all(len({item.division for item in group}) == 1 for group in groups)


@pytest.mark.parametrize("name", ["v0.7/Intel", "v0.5/Intel"])
def test_a_cpu_system_of_unknown_size_is_no_failure(name):
    """Their runs reached the target; nobody says on how many CPUs."""
    items = [replace(item, batch_size_global=4096) for item in published(name, "resnet50")]
    with pytest.raises(ValueError, match="number of devices of a CPU system is not known"):
        comparable(items)


def test_nothing_to_predict_from_is_said():
    bare = [replace(item, batch_size_global=None) for item in published("v0.7/SIAT", "resnet50")]
    with pytest.raises(ValueError, match="there are none"):
        comparable(bare)
