"""Series: grouping of results, and one definition of the baseline for every view."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results import series as series_module
from suite.results.scores import results
from suite.results.series import Series, all_series, speedups
from suite.results.table import read_runs
from suite.results.views.headlines import headlines
from suite.results.views.overview import overview
from suite.results.views.report_tables import group_into_tables
from suite.results.views.report_view import report
from suite.results.views.results_section import results_section
from suite.results.views.study_view import sections as studies
from suite.results.views.tables_view import tables
from testing.fake_logs import write_run
from tests.helpers import examples
from tests.suite.results.rows import make_result, sweep

SECONDS = {1: 6.0, 2: 3.0, 4: 2.0}
"""Time to target in seconds of the runs of `sweep`, by number of devices."""


@pytest.fixture
def logs(tmp_path):
    """Write a study: a sweep over 1, 2, and 4 devices in two frameworks."""
    for framework in ("pytorch", "mxnet"):
        root = tmp_path / "logs" / framework
        sweep(root, framework=framework, study="own")
        cells = [
            {"job": f"ncf-{devices}", "values": {"gpus": str(devices)}, "command": []}
            for devices in SECONDS
        ]
        plan = {"study": "own", "cells": cells, "table": {"columns": ["speedup", "minutes"]}}
        (root / "study-own.json").write_text(json.dumps(plan))
    return tmp_path / "logs"


def every_view(folder):
    """Return the speedups that each view shows, by the name of the view; None is no speedup."""
    runs = read_runs(folder)
    found = results(folder)
    of_pytorch = [result for result in found if result.framework == "pytorch"]
    (table,) = group_into_tables(of_pytorch)
    _, ratios = overview(found)
    study = studies([run for run in runs if run.framework == "pytorch"])[0].table
    fewest = next(row for row in ratios.table if row["framework"] == "PyTorch")
    pairs = [row for row in tables(of_pytorch).data if row.get("from_fewest")]
    return {
        "report": results_section(table).table.values("speedup"),
        "files": [row["speedup"] for row in report(runs).data if row["framework"] == "pytorch"],
        "overview": {name: value for name, value in fewest.items() if name.endswith(", speedup")},
        "tables": {(row["devices_from"], row["devices_to"]): row["speedup"] for row in pairs},
        "study": study.values("speedup"),
        "headline": headlines(of_pytorch)[0][0],
    }


def test_every_view_divides_by_the_result_on_the_fewest_devices(logs):
    found = every_view(logs)
    assert found["report"] == pytest.approx([1.0, 2.0, 3.0])
    assert found["files"] == [None, pytest.approx(2.0), pytest.approx(3.0)]
    assert found["overview"] == {
        "2 devices, speedup": pytest.approx(2.0),
        "4 devices, speedup": pytest.approx(3.0),
    }
    assert found["tables"] == {(1, 2): pytest.approx(2.0), (1, 4): pytest.approx(3.0)}
    assert found["study"] == pytest.approx([1.0, 2.0, 3.0])
    assert "3.00× faster than on 1 device" in found["headline"]


def test_a_changed_baseline_policy_changes_every_view(logs, monkeypatch):
    """Make the second device count the baseline and check that all views follow.

    A view that chose its baseline separately would keep the first device count.
    """
    monkeypatch.setattr(
        series_module, "choose_baseline", lambda results: results[min(1, len(results) - 1)]
    )
    found = every_view(logs)
    assert found["report"] == pytest.approx([0.5, 1.0, 1.5])
    assert found["files"] == [pytest.approx(0.5), None, pytest.approx(1.5)]
    assert found["overview"] == {
        "1 device, speedup": pytest.approx(0.5),
        "4 devices, speedup": pytest.approx(1.5),
    }
    assert found["tables"] == {(2, 4): pytest.approx(1.5)}
    assert found["study"] == pytest.approx([0.5, 1.0, 1.5])
    assert "1.50× faster than on 2 devices" in found["headline"]


def test_results_have_stable_and_different_keys(logs):
    first, second = ([result.key for result in results(logs)] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first) == 6


def test_a_series_has_one_result_on_each_number_of_devices(tmp_path):
    for devices, batch in ((1, 4096), (1, 8192), (2, 4096), (2, 8192)):
        write_run(tmp_path, f"{devices} {batch}", devices=devices, global_batch_size=batch)
    found = all_series(results(tmp_path))
    assert [[result.devices for result in series] for series in found] == [[1, 2], [1, 2]]
    assert all(len({result.global_batch_size for result in series}) == 1 for series in found)


def test_user_defined_hyperparameters_separate_series(tmp_path):
    for devices, rate in ((1, 0.003), (2, 0.01)):
        write_run(tmp_path, f"{devices}", devices=devices, keys={"opt_base_learning_rate": rate})
    assert [len(series) for series in all_series(results(tmp_path))] == [1, 1]
    assert speedups(results(tmp_path)) == {}


@examples(50)
@given(st.dictionaries(st.sampled_from([1, 2, 4, 8, 16, 64]), st.floats(0.1, 1e4), min_size=1))
def test_speedups_are_ratios_to_the_baseline(seconds):
    found = Series(
        tuple(make_result(devices, ((value, 5.0),)) for devices, value in sorted(seconds.items()))
    )
    base = seconds[min(seconds)]
    assert found.baseline.devices == min(seconds)
    assert found.speedup(found.baseline) is None
    for result in found.further_results:
        assert found.speedup(result).value == pytest.approx(base / seconds[result.devices])
