"""Quality of runs that diverged, have no evaluation, or continue after the target."""

import json
import math

import pytest

from suite.commands import report
from suite.results import read
from suite.results.scores import results_table
from testing.fake_logs import demo_log, line, write
from tests.helpers import subcommand

NOT_A_NUMBER = [
    ("NaN", math.isnan),
    ("null", math.isnan),
    ('"nan"', math.isnan),
    ("Infinity", math.isinf),
]
NOT_A_NUMBER += [("-Infinity", math.isinf), ('"inf"', math.isinf), ('"-Infinity"', math.isinf)]

MLLOG = [line(0, "submission_benchmark", "resnet"), line(0, "run_start")]
MLL = [':::MLL 1541000000.0 run_start: {"value": null}']
V05 = [":::MLPv0.5.0 resnet 1541000000.000000000 (a.py:1) run_start"]


def log(path, values, status="success", target=None, benchmark="resnet", before_stop=True):
    """Write a log of a foreign program. `values` are the qualities of the evaluations as JSON."""
    events = [line(0, "submission_benchmark", benchmark), line(0, "run_start")]
    events += [line(0, "quality_target", target)] if target else []
    stop = line(10_000 * len(values) + 20_000, "run_stop", status=status)
    for index, value in enumerate(values, start=1):
        at = 10_000 * index + (0 if before_stop else 10_000 * len(values) + 20_000)
        events.append(line(at - 9_000, "epoch_start", epoch_num=index))
        events.append(
            line(at - 1, "eval_accuracy", "VALUE", epoch_num=index).replace('"VALUE"', value)
        )
        events.append(line(at, "epoch_stop", epoch_num=index))
    return write(path / "result_0.txt", [*events, stop])


@pytest.mark.parametrize(("value", "matches"), NOT_A_NUMBER)
def test_the_last_quality_may_be_infinite_or_nan(tmp_path, value, matches):
    record = read(log(tmp_path, ["0.3", "0.6", value], status="aborted"))
    assert matches(record.quality["top1"])
    assert record.status == "aborted"
    assert record.reason.startswith("diverged: the last evaluation is ")
    assert [evaluation.quality for evaluation in record.evaluations] == [
        {"top1": 0.3},
        {"top1": 0.6},
    ]
    assert any("eval_accuracy" in problem.text for problem in record.problems)


@pytest.mark.parametrize(("value", "matches"), NOT_A_NUMBER)
def test_a_diverged_run_is_a_failure_even_with_status_success(tmp_path, value, matches):
    record = read(log(tmp_path, ["0.3", value], benchmark="bert"))
    assert record.status == "failed"
    assert record.reason.startswith("run_stop has status success, but the last evaluation is ")
    assert matches(record.quality["quality"])


def test_a_run_that_reached_its_target_before_it_diverged_is_a_success(tmp_path):
    record = read(log(tmp_path, ["0.3", "0.76", "NaN"]))
    assert (record.status, record.epochs_to_target) == ("success", 2.0)
    assert math.isnan(record.quality["top1"])


def test_one_of_two_metrics_may_be_nan(tmp_path):
    values = ['{"BBOX": 0.4, "SEGM": 0.3}', '{"BBOX": NaN, "SEGM": 0.31}']
    record = read(log(tmp_path, values, status="aborted", benchmark="maskrcnn"))
    assert math.isnan(record.quality["BBOX"])
    assert record.quality["SEGM"] == 0.31


@pytest.mark.parametrize("benchmark", ["llama31_8b", "bert", "resnet", "unheard_of"])
def test_a_run_without_an_evaluation_is_a_failure(tmp_path, benchmark):
    record = read(log(tmp_path, [], benchmark=benchmark))
    assert (record.status, record.reason) == (
        "failed",
        "run_stop has status success, but the log has no evaluation",
    )
    record = read(log(tmp_path, ['"soon"'], benchmark=benchmark))
    assert record.status == "failed"


def test_some_benchmarks_evaluate_after_run_stop(tmp_path):
    """MiniGo and Stable Diffusion, for example, evaluate checkpoints after the training."""
    record = read(log(tmp_path, ["0.6"], benchmark="minigo_like", before_stop=False))
    assert record.status == "success"


def test_metrics_in_separate_records_keep_their_names(tmp_path):
    events = [line(0, "submission_benchmark", "stable_diffusion"), line(0, "run_start")]
    events += [
        line(10, "eval_accuracy", 80.0, metric="FID"),
        line(11, "eval_accuracy", 0.2, metric="CLIP"),
    ]
    events.append(line(20, "run_stop", status="success"))
    record = read(write(tmp_path / "result_0.txt", events))
    assert [item.quality for item in record.evaluations] == [{"FID": 80.0}, {"CLIP": 0.2}]


@pytest.mark.parametrize("evaluated", [True, False])
def test_time_per_epoch_counts_the_epochs_after_the_target(tmp_path, evaluated):
    """Six epochs take 60 s, four of them after the target, so an epoch takes 10 s."""
    qualities = (
        [0.3, 0.65, 0.66, 0.67, 0.68, 0.69] if evaluated else [0.3, 0.65, None, None, None, None]
    )
    lines = demo_log(qualities, seconds_per_epoch=10.0, stop="target")
    record = read(write(tmp_path / "job" / "run_0" / "result_0.txt", lines))
    assert (record.seconds, record.epochs_to_target, record.epochs_trained) == (60.0, 2.0, 6.0)
    (text,) = [
        problem.text for problem in record.problems if "continued after the target" in problem.text
    ]
    assert "from epoch 2 to 6" in text
    (row,) = results_table(tmp_path).to_dict("records")
    assert (row["epochs"], row["seconds_per_epoch"]) == (2.0, pytest.approx(10.0))


def test_an_epoch_that_overlaps_the_last_evaluation_is_not_counted_as_trained(tmp_path):
    lines = demo_log([0.3, 0.65], seconds_per_epoch=10.0)
    stop = json.loads(lines[-1].removeprefix(":::MLLOG "))
    assert stop["key"] == "run_stop"
    lines.insert(-1, line(19_999, "epoch_start", epoch_num=2))
    record = read(write(tmp_path / "result_0.txt", lines))
    assert record.epochs_trained == record.epochs_to_target == 2.0


@pytest.mark.parametrize(
    ("lines", "clock"),
    [(MLLOG, "v0.7"), (MLL, "v0.7"), (V05, "v0.5")],
    ids=["v0.7", "v0.6", "v0.5"],
)
def test_logs_of_other_programs_have_the_clock_rule_of_their_round(tmp_path, lines, clock):
    assert read(write(tmp_path / "result_0.txt", lines)).settings.clock == clock


def test_pages_show_the_last_quality_of_a_diverged_run(tmp_path):
    log(tmp_path / "runs", ["0.3", "0.6", "NaN"], status="aborted")
    page = tmp_path / "page.html"
    assert subcommand(report, str(tmp_path / "runs"), "--html", str(page)) == 0
    assert "top-1 accuracy NaN" in page.read_text()


@pytest.mark.parametrize(
    ("late_ms", "status"), [(1, "success"), (10, "success"), (11, "failed"), (5000, "failed")]
)
def test_an_evaluation_may_be_logged_10_ms_after_run_stop(tmp_path, late_ms, status):
    """Timestamps may be rounded, so the last evaluation can be later than run_stop."""
    events = [line(0, "submission_benchmark", "dlrm"), line(0, "run_start")]
    events += [line(60_000, "eval_accuracy", 0.80, epoch_num=0.9)]
    events += [
        line(90_000 + late_ms, "eval_accuracy", 0.8026, epoch_num=0.95),
        line(90_000, "run_stop", status="success"),
    ]
    assert read(write(tmp_path / "result_0.txt", events)).status == status
