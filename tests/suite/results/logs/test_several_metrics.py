"""Two targets, a metric without a target, and a second unit of throughput.

The tests follow them from the log through the reader and the tables to the progress display.
"""

import io
import json

import pytest
from rich.console import Console

from suite.control.progress import Progress
from suite.results import read
from suite.results.scores import results
from suite.results.views.results_section import results_section
from testing.fake_logs import demo_log, write
from tests.suite.worker.test_loop import make_run

TARGETS = {"bbox": 0.3, "segm": 0.2}
EPOCHS = [
    ({"bbox": 0.25, "segm": 0.22}, 1.5, 30_000.0),
    ({"bbox": 0.31, "segm": 0.23}, 1.25, 60_000.0),
]


def with_further(lines):
    epochs = iter(EPOCHS)
    for text in lines:
        record = json.loads(text.removeprefix(":::MLLOG "))
        if record["key"] == "tracked_stats":
            _, loss, tokens = next(epochs)
            record["value"] |= {"rates": {"tokens": tokens}, "scores": {"validation_loss": loss}}
        yield ":::MLLOG " + json.dumps(record)


@pytest.fixture
def folder(tmp_path):
    lines = demo_log([None, None], targets=TARGETS, sample_unit="sentences", status="success")
    for epoch, (quality, _, _) in enumerate(EPOCHS):
        place = next(
            n
            for n, text in enumerate(lines)
            if '"epoch_stop"' in text and f'"epoch_num": {epoch}' in text
        )
        start, accuracy, stop = demo_log([0.0] * (epoch + 1))[-6:-3]
        accuracy = accuracy.replace('"value": 0.0', f'"value": {json.dumps(quality)}')
        lines[place + 1 : place + 1] = [start, accuracy, stop]
    write(tmp_path / "job" / "run_0" / "result_0.txt", list(with_further(lines)))
    return tmp_path


def test_all_targets_must_be_met_and_scores_are_separate_from_quality(folder):
    record = read(next(folder.rglob("result_0.txt")))
    assert (record.status, record.epochs_to_target) == ("success", 2.0)
    assert [evaluation.quality for evaluation in record.evaluations] == [
        quality for quality, _, _ in EPOCHS
    ]
    assert [evaluation.scores["validation_loss"] for evaluation in record.evaluations] == [
        1.5,
        1.25,
    ]
    assert [block.rates for block in record.throughput] == [
        {"tokens": 30_000.0},
        {"tokens": 60_000.0},
    ]


def test_tables_contain_the_second_unit(folder):
    section = results_section(results(folder))
    assert section.table.to_frame()["tokens_per_second"].tolist() == [45_000.0]
    assert dict(section.facts)["Target"] == "bbox ≥ 0.3, segm ≥ 0.2"


def test_scores_belong_to_the_evaluation_before_their_line(tmp_path):
    lines = list(with_further(demo_log([0.3, 0.65])))
    first = next(index for index, text in enumerate(lines) if '"tracked_stats"' in text)
    record = read(write(tmp_path / "result_0.txt", [*lines[:first], *lines[first + 1 :]]))
    assert [evaluation.scores for evaluation in record.evaluations] == [
        {},
        {"validation_loss": 1.25},
    ]


def test_malformed_rates_and_scores_are_ignored(tmp_path):
    hostile = '"loss": 0.25, "rates": [1], "scores": {"a": "b", "c": null}'
    lines = [text.replace('"loss": 0.25', hostile) for text in demo_log()]
    record = read(write(tmp_path / "result_0.txt", lines))
    assert all(block.rates == {} and block.scores == {} for block in record.throughput)


def test_progress_shows_every_unit_and_metric(tmp_path):
    run = make_run(tmp_path, targets=TARGETS)
    block = {
        "first_epoch": 1,
        "epochs": 1,
        "step": 16,
        "samples_per_second": 1200.0,
        "rates": {"tokens": 34_000.0},
    }
    block |= {
        "train_seconds": 2.0,
        "data_wait_seconds": 0.1,
        "quality": {**EPOCHS[0][0], "validation_loss": 1.5},
    }
    (tmp_path / "metrics.jsonl").write_text(json.dumps(block) + "\n")
    stream = io.StringIO()
    with Progress(run, "a run", Console(file=stream, width=200)):
        pass
    heading, names, values = stream.getvalue().splitlines()
    assert heading == "a run, target bbox ≥ 0.3 and segm ≥ 0.2"
    assert names.split()[:6] == ["epoch", "bbox", "segm", "validation_loss", "points/s", "tokens/s"]
    assert values.split()[:6] == ["1", "0.2500", "0.2200", "1.5000", "1,200", "34,000"]
