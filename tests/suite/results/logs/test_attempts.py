"""Logs with several attempts of a relaunched program, and logs written by several processes."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.compliance.check_log import check_file
from suite.results import read
from testing.fake_logs import START_MS, demo_log, line, write

HOUR = 3_600_000
STAGES = ("header", "init", "run_start", "training", "evaluation", "complete")


def attempt(
    start=0, seed=1, batch=256, until="complete", status="success", epochs=3, benchmark="resnet"
):
    """Return the lines of an attempt whose epochs take 60 s each.

    Args:
        start: Start of the attempt in milliseconds.
        seed: Seed of the attempt.
        batch: Global batch size.
        until: Stage at which the attempt died, a value of `STAGES`.
        status: Status of the `run_stop` record.
        epochs: Number of epochs.
        benchmark: Name of the benchmark.
    """
    lines = [line(start, "submission_benchmark", benchmark), line(start, "submission_org", "Acme")]
    lines += [line(start, "cache_clear", True), line(start + 1, "init_start")]
    lines += [line(start + 2, "seed", seed), line(start + 2, "global_batch_size", batch)]
    ends = {"header": len(lines)}
    lines.append(line(start + 3, "opt_name", "sgd"))
    ends["init"] = len(lines)
    lines += [line(start + 30_000, "init_stop"), line(start + 30_000, "run_start")]
    ends["run_start"] = len(lines)
    for epoch in range(1, epochs + 1):
        begin = start + 30_000 + (epoch - 1) * 60_000
        lines.append(line(begin + 1, "epoch_start", epoch_num=epoch))
        ends["training"] = len(lines)
        lines += [
            line(begin + 50_000, "epoch_stop", epoch_num=epoch),
            line(begin + 50_001, "eval_start", epoch_num=epoch),
        ]
        ends["evaluation"] = len(lines)
        quality = 0.76 if epoch == epochs and status == "success" else 0.1 * epoch
        lines.append(line(begin + 59_000, "eval_accuracy", quality, epoch_num=epoch))
        lines.append(line(begin + 59_001, "eval_stop", epoch_num=epoch))
    lines.append(line(start + 30_000 + epochs * 60_000, "run_stop", status=status))
    ends["complete"] = len(lines)
    return lines[: ends[until]]


def facts(record):
    return (
        record.status,
        record.seconds,
        record.seed,
        record.settings.global_batch_size,
        record.epochs_to_target,
    )


def attempt_problems(record):
    return [problem.text for problem in record.problems if "attempts in one file" in problem.text]


@pytest.mark.parametrize("batch", [256, 512])
@pytest.mark.parametrize("until", STAGES[:-1])
def test_the_second_attempt_counts_wherever_the_first_died(tmp_path, until, batch):
    lines = [*attempt(until=until), *attempt(HOUR, seed=2, batch=batch)]
    record = read(write(tmp_path / "result_0.txt", lines))
    assert facts(record) == ("success", 180.0, 2, batch, 3.0)
    assert record.benchmark == "resnet"
    assert attempt_problems(record) == [
        f"2 attempts in one file: attempt 2 (lines {len(attempt(until=until)) + 1} to {len(lines)})"
        " is used, the last complete attempt"
    ]


@pytest.mark.parametrize(
    ("untils", "used"),
    [
        (("header", "training", "complete"), 3),
        (("complete", "evaluation"), 1),
        (("complete", "init", "header"), 1),
        (("complete", "complete"), 2),
        (("training", "complete", "run_start"), 2),
        (("training", "evaluation"), 2),
    ],
)
def test_the_last_complete_attempt_counts_or_the_last_if_all_died(tmp_path, untils, used):
    parts = [
        attempt(index * HOUR, seed=index + 1, batch=2**index, until=until)
        for index, until in enumerate(untils)
    ]
    record = read(write(tmp_path / "result_0.txt", list(itertools.chain(*parts))))
    assert (record.seed, record.settings.global_batch_size) == (used, 2 ** (used - 1))
    assert record.start_ms == START_MS + (used - 1) * HOUR + 30_000
    assert record.status == ("success" if "complete" in untils else "truncated")
    (text,) = attempt_problems(record)
    assert text.startswith(f"{len(untils)} attempts in one file: attempt {used} ")


def test_an_aborted_attempt_after_a_success_is_the_last_complete_one(tmp_path):
    lines = [*attempt(), *attempt(HOUR, seed=2, status="aborted")]
    assert read(write(tmp_path / "result_0.txt", lines)).status == "aborted"


@pytest.mark.parametrize("pause", [2_000, 15_000, HOUR])
def test_a_quick_relaunch_after_training_is_an_attempt(tmp_path, pause):
    first = attempt(until="evaluation", epochs=1)
    lines = [*first, *attempt(80_001 + pause, seed=2)]
    record = read(write(tmp_path / "result_0.txt", lines))
    assert facts(record) == ("success", 180.0, 2, 256, 3.0)


def test_the_submission_records_may_be_in_the_first_attempt_only(tmp_path):
    second = [text for text in attempt(HOUR, seed=2) if '"submission_' not in text]
    record = read(write(tmp_path / "result_0.txt", [*attempt(until="training"), *second]))
    assert (record.benchmark, record.org, record.seed, record.seconds) == (
        "resnet",
        "Acme",
        2,
        180.0,
    )


@pytest.mark.parametrize("form", [":::MLL", ":::MLPv0.5.0"])
def test_attempts_are_found_in_logs_of_older_rounds(tmp_path, form):
    lines = [*attempt(until="training", batch=128), *attempt(HOUR, seed=2)]
    records = [json.loads(text.removeprefix(":::MLLOG ")) for text in lines]
    if form == ":::MLL":
        texts = [
            f":::MLL {item['time_ms'] / 1000:.3f} {item['key']}: "
            + json.dumps({"value": item["value"], "metadata": item["metadata"]})
            for item in records
        ]
    else:
        texts = [v05(item) for item in records if item["key"] not in ("init_start", "init_stop")]
    record = read(write(tmp_path / "result_0.txt", texts))
    assert (record.seed, record.seconds, len(record.evaluations)) == (2, 180.0, 3)
    assert attempt_problems(record)


def v05(item):
    value = {"eval_accuracy": {"epoch": item["metadata"].get("epoch_num"), "value": item["value"]}}
    value = value.get(item["key"], item["value"])
    value = {"success": True} if item["key"] == "run_stop" else value
    key = {"seed": "run_set_random_seed", "epoch_start": "train_epoch"}.get(
        item["key"], item["key"]
    )
    value = item["metadata"]["epoch_num"] if key == "train_epoch" else value
    return f":::MLPv0.5.0 resnet {item['time_ms'] / 1000:.9f} (a.py:1) {key}: {json.dumps(value)}"


@pytest.mark.parametrize("lag", [1, 500, 9_000])
@pytest.mark.parametrize(
    "keys", [("run_start", "seed"), ("init_start", "init_stop", "run_start", "seed"), None]
)
def test_records_of_several_processes_are_not_attempts(tmp_path, lag, keys):
    """Four processes repeat some or all records, each with a different seed."""
    every = []
    for rank in range(4):
        for text in attempt(rank * lag // 3, seed=rank + 1):
            if (
                rank == 0
                or keys is None
                or json.loads(text.removeprefix(":::MLLOG "))["key"] in keys
            ):
                every.append(text)
    for lines in (
        every,
        sorted(every, key=lambda text: json.loads(text.removeprefix(":::MLLOG "))["time_ms"]),
    ):
        record = read(write(tmp_path / "result_0.txt", lines))
        assert not attempt_problems(record)
        assert (record.status, record.settings.global_batch_size) == ("success", 256)
        assert record.start_ms == START_MS + 30_000


def test_processes_may_start_minutes_apart(tmp_path):
    """NVIDIA's Mask R-CNN on 48 nodes (v2.0) has init_start records over 211 s before any seed."""
    lines = [line(-200_000 + 1_000 * rank, "init_start") for rank in range(200)] + attempt()
    assert not attempt_problems(read(write(tmp_path / "result_0.txt", lines)))


def test_a_run_that_resumed_from_a_checkpoint_is_one_run(tmp_path):
    lines = demo_log()
    cut = next(index for index, text in enumerate(lines) if '"block_stop"' in text) + 1
    again = [
        line(HOUR, "suite_continued", {"step": 101}),
        line(HOUR + 1, "init_start"),
        line(HOUR + 2, "run_start"),
    ]
    later = [text.replace(str(START_MS)[:6], str(START_MS + HOUR)[:6]) for text in lines[cut:]]
    assert not attempt_problems(
        read(write(tmp_path / "result_0.txt", [*lines[:cut], *again, *later]))
    )


def test_check_advises_to_split_the_file(tmp_path):
    first = attempt(until="training")
    lines = [*first, *attempt(HOUR, seed=2)]
    verdict = check_file(write(tmp_path / "result_0.txt", lines))
    (complaint,) = [item for item in verdict.complaints if "attempts in one file" in item.found]
    assert (
        complaint.do
        == f"split the file into one file per attempt: lines 1 to {len(first)}, {len(first) + 1} to"
        f" {len(lines)}"
    )
    assert complaint.line == len(first) + 1
    alone = check_file(write(tmp_path / "result_1.txt", attempt(HOUR, seed=2)))
    assert not [item for item in alone.complaints if "attempts" in item.found]


PARTS = st.lists(st.tuples(st.sampled_from(STAGES), st.integers(1, 3)), min_size=1, max_size=5)


@given(parts=PARTS, gap=st.integers(5 * 60_000, HOUR))
@settings(max_examples=60, deadline=None)
def test_a_file_of_several_attempts_reads_like_a_file_of_the_chosen_attempt(
    tmp_path_factory, parts, gap
):
    folder = tmp_path_factory.mktemp("attempts")
    texts, start = [], 0
    for index, (until, epochs) in enumerate(parts):
        texts.append(attempt(start, seed=index, batch=16 + index, until=until, epochs=epochs))
        start += 400_000 + gap
    chosen = max(
        (index for index, (until, _) in enumerate(parts) if until == "complete"),
        default=len(parts) - 1,
    )
    record = read(write(folder / "all.txt", list(itertools.chain(*texts))))
    alone = read(write(folder / "alone.txt", texts[chosen]))
    assert facts(record) == facts(alone)
    assert [item.quality for item in record.evaluations] == [
        item.quality for item in alone.evaluations
    ]


@pytest.mark.full
def test_a_hundred_thousand_records_of_processes_are_read_in_seconds(tmp_path):
    lines = [line(rank // 100, "init_start", rank) for rank in range(50_000)]
    lines += [line(rank // 100, "seed", rank) for rank in range(50_000)]
    assert not attempt_problems(read(write(tmp_path / "result_0.txt", [*lines, *attempt(1000)])))
