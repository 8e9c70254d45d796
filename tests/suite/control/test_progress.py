"""Progress rows of a training run: their columns, their clock, and the file that they go to."""

import io
import json
import re

import pytest
from rich.console import Console

from suite.control import progress
from suite.control.progress import Progress
from suite.worker.heartbeat import WorkerStatus
from tests.helpers import TOY_RUN, only, run_events, run_suite
from tests.suite.worker.test_loop import make_run

BLOCK = {
    "first_epoch": 1, "epochs": 1, "step": 51, "samples_per_second": 1_246_539.4,
    "quality": {"hr_at_10": 0.193}, "data_wait_seconds": 3.0, "train_seconds": 30.0,
    "elapsed_seconds": 31.26,
}  # fmt: skip


def table(text, first="epoch"):
    """Return the rows of the table in a text and the line after them.

    Each row is a dict from the name of a column to its cell.
    """
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.split()[:1] == [first])
    names, rows = re.split(r" {2,}", lines[start].strip()), []
    for line in lines[start + 1 :]:
        cells = re.split(r" {2,}", line.strip())
        if len(cells) != len(names):
            return rows, line
        assert len(line) == len(lines[start]), "columns are aligned"
        rows.append(dict(zip(names, cells, strict=True)))
    return rows, ""


def printed(run, blocks, *heartbeats, width=100, terminal=False):
    """Return the output of a run with these blocks, after these heartbeats."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=terminal, color_system=None)
    with Progress(run, "job/run_0", console) as shown:
        for heartbeat in heartbeats:
            shown.update([heartbeat])
        with open(f"{run.folder}/metrics.jsonl", "w", encoding="utf-8") as metrics:
            metrics.writelines(f"{json.dumps(block)}\n" for block in blocks)
    return stream.getvalue()


@pytest.fixture
def ncf(tmp_path):
    return make_run(tmp_path, workload="ncf", targets={"hr_at_10": 0.635})


def seconds_since_run_start(log, key):
    """Return the seconds from `run_start` to each line with this key."""
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in log.open()]
    start = next(line["time_ms"] for line in lines if line["key"] == "run_start")
    return [(line["time_ms"] - start) / 1e3 for line in lines if line["key"] == key]


def test_a_row_per_epoch_whose_clock_starts_at_run_start(tmp_path):
    done = run_suite(tmp_path, *TOY_RUN, "workload.misbehave=slow", "output=out", toy=True, exits=0)
    log = only((tmp_path / "out").glob("*/run_0/result_0.txt"))
    rows, after = table(done.stdout)
    assert after == "target reached"
    assert [*rows[0]] == ["epoch", "fit", "points/s", "data wait", "elapsed"]
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert [float(row["fit"]) for row in rows] == pytest.approx(
        [
            value["fit"] if isinstance(value, dict) else value
            for key, value, _ in run_events(log)
            if key == "eval_accuracy"
        ],
        abs=1e-4,
    )
    elapsed = [float(row["elapsed"].removesuffix(" s")) for row in rows]
    assert elapsed == pytest.approx(seconds_since_run_start(log, "block_stop"), abs=0.2)
    assert "target fit ≥ 0.99\n" in done.stdout
    assert str(tmp_path) not in done.stdout, "paths are relative"


def test_a_sweep_has_a_heading_per_run_and_an_end_below_its_rows(tmp_path):
    words = ("-m", *TOY_RUN, "gpus=1,2", "oversubscribe=true", "runs=2", "output=out")
    done = run_suite(tmp_path, *words, toy=True, exits=0)
    headings = [
        line.partition(",")[0]
        for line in done.stdout.splitlines()
        if "/run_" in line and ", target" in line
    ]
    job = "toy-plain-demo-{}dev-oversubscribe=true/run_{}"
    assert headings == [job.format(devices, run) for devices in (1, 2) for run in (0, 1)]
    assert done.stdout.splitlines().count("target reached") == 4
    again = run_suite(tmp_path, *words, "resume=true", toy=True, exits=0)
    assert again.stdout.splitlines().count("finished earlier") == 4


def test_a_run_without_a_target_counts_steps(tmp_path):
    done = run_suite(tmp_path, *TOY_RUN, "mode=forward", "stop=steps:8", toy=True, exits=0)
    rows, after = table(done.stdout, "step")
    assert [*rows[0]] == ["step", "points/s", "data wait", "elapsed"]
    assert ([row["step"] for row in rows], after) == (["8"], "finished")
    assert "target" not in done.stdout.partition("\n# ")[0]


def test_a_failed_run_keeps_its_rows_and_names_the_file_to_read(tmp_path):
    done = run_suite(
        tmp_path, *TOY_RUN, "workload.misbehave=raise", "output=out", toy=True, exits=1
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("failed")]
    path = line.split()[-1]
    assert (tmp_path / path).samefile(only((tmp_path / "out").glob("*/run_0/worker-0.log")))


def test_the_heading_contains_the_target_and_metrics_have_their_short_names(ncf):
    text = printed(
        ncf, [BLOCK, {**BLOCK, "first_epoch": 2, "quality": {}, "elapsed_seconds": 62.0}]
    )
    assert "HR@10 ≥ 0.635" in text.splitlines()[0]
    rows, _ = table(text)
    figures = {"points/s": "1,246,539", "data wait": "10 %"}
    assert rows == [
        {"epoch": "1", "HR@10": "0.1930", **figures, "elapsed": "31.3 s"},
        {"epoch": "2", "HR@10": "–", **figures, "elapsed": "62.0 s"},
    ]


@pytest.mark.parametrize(("target", "value"), [(0.24, 0.2212), (24.0, 22.12)])
def test_bleu_is_shown_in_points(tmp_path, target, value):
    run = make_run(tmp_path, workload="gnmt", targets={"bleu": target})
    text = printed(run, [{**BLOCK, "quality": {"bleu": value}}])
    assert "BLEU ≥ 24" in text.splitlines()[0]
    assert table(text)[0][0]["BLEU"] == "22.12"


def test_a_column_that_appears_later_has_a_new_heading(ncf):
    later = {**BLOCK, "quality": {"hr_at_10": 0.3, "loss": 1.5}}
    text = printed(ncf, [BLOCK, BLOCK, later, later])
    headings = [line.split() for line in text.splitlines() if line.split()[:1] == ["epoch"]]
    assert [len(heading) for heading in headings] == [6, 7]  # "data wait" is two words


def test_a_log_of_an_older_version_has_no_elapsed_time(ncf):
    block = {name: value for name, value in BLOCK.items() if name != "elapsed_seconds"}
    assert table(printed(ncf, [block]))[0][0]["elapsed"] == "–"


def test_a_terminal_gets_the_same_rows(ncf):
    heartbeat = WorkerStatus(0, 1, "train", step=12, samples=8, elapsed_seconds=3.0)
    text = re.sub(
        r"\x1b\[[0-9;?]*[A-Za-z]|\r", "\n", printed(ncf, [BLOCK], heartbeat, terminal=True)
    )
    assert set(printed(ncf, [BLOCK]).splitlines()) <= set(text.splitlines())
    assert text.count("job/run_0") == 1


def test_before_run_start_the_time_counts_from_the_launch(ncf, monkeypatch):
    """Check that each line names its clock: the launch before `run_start`, the run after it."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with Progress(ncf, "job/run_0", Console(file=stream, width=100)) as shown:
        for now[0], heartbeat in (
            (1060.0, WorkerStatus(0, 1, "setup")),
            (1070.0, WorkerStatus(0, 1, "train", step=1, elapsed_seconds=4.0)),
            (1126.0, WorkerStatus(0, 1, "train", step=5, samples=600, elapsed_seconds=59.8)),
        ):
            shown.update([heartbeat])
    _, first, second = stream.getvalue().splitlines()
    assert "60 s since launch" in first
    assert second.endswith("elapsed 60 s")
