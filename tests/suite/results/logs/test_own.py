"""Logs of this suite: the reader is strict, infers no values, and raises no exceptions."""

import json
import random

import pytest

from suite.common.run_end import EndCode, EndStatus
from suite.compliance.check_log import check_file
from suite.results import read
from suite.results.logs.events import ProblemCode
from suite.results.logs.foreign import interpret as foreign
from testing.fake_logs import START_MS, demo_log, line, write

MINUTE = 60_000


def read_lines(tmp_path, lines):
    return read(write(tmp_path / "result_0.txt", lines))


def codes(record):
    return [problem.code for problem in record.problems]


@pytest.fixture
def no_inference(monkeypatch):
    def refuse(*_):
        raise AssertionError("a log of this suite was read as a log of a foreign program")

    monkeypatch.setattr(foreign, "interpret", refuse)


@pytest.mark.parametrize("first_epoch", [0, 1])
@pytest.mark.usefixtures("no_inference")
def test_epochs_are_counted_from_the_first_epoch_that_the_log_states(tmp_path, first_epoch):
    rules = "v0.5" if first_epoch == 0 else "v0.7"
    record = read_lines(
        tmp_path, demo_log((0.1, 0.2, 0.3, 0.64), rules=rules, clock=rules, first_epoch=first_epoch)
    )
    assert (record.status, record.epochs_to_target, record.epochs_trained) == ("success", 4.0, 4.0)
    assert record.problems == ()


@pytest.mark.usefixtures("no_inference")
def test_the_epoch_label_of_an_evaluation_is_used_unchanged(tmp_path):
    """Evaluations are labeled 3, 6, and 10 although the blocks have four epochs each.

    The reader corrects such rounded labels in logs of foreign programs. This suite never rounds its
    labels, so the reader must not correct them here.
    """
    lines = [
        text for text in demo_log((0.1,), rules="v0.7", first_epoch=1) if '"epoch_' not in text
    ]
    head = [
        text
        for text in lines
        if '"block_' not in text and '"eval_' not in text and '"run_stop"' not in text
    ]
    for index, label in enumerate((3, 6, 10)):
        begin = MINUTE * index
        head.append(line(begin + 1, "block_start", first_epoch_num=1 + 4 * index, epoch_count=4))
        head.append(
            line(begin + MINUTE, "eval_accuracy", 0.65 if label == 10 else 0.1, epoch_num=label)
        )
    record = read_lines(tmp_path, [*head, line(3 * MINUTE, "run_stop", status="success")])
    assert (record.status, record.epochs_to_target) == ("success", 10.0)


@pytest.mark.usefixtures("no_inference")
def test_logs_without_first_epoch_count_epochs_from_1(tmp_path):
    """Early versions of this suite labeled epochs from 1, also with rules=v0.5."""
    lines = []
    for text in demo_log((0.3, 0.65)):
        record = json.loads(text.removeprefix(":::MLLOG "))
        for name in ("epoch_num", "first_epoch_num"):
            if name in record["metadata"]:
                record["metadata"][name] += 1
        lines.append(f":::MLLOG {json.dumps(record)}")
    assert read_lines(tmp_path, lines).epochs_to_target == 2.0


def relabelled(text, label):
    """Return the line with `label` as epoch if it is the evaluation of epoch 2."""
    return (
        text.replace('"epoch_num": 2', f'"epoch_num": {label}')
        if '"eval_accuracy"' in text
        else text
    )


def replaced(old, new):
    return lambda lines: [text.replace(old, new) for text in lines]


@pytest.mark.parametrize(
    ("edit", "code", "status"),
    [
        (replaced('"value": 0.65,', '"value": "65%",'), ProblemCode.NO_QUALITY, "failed"),
        (replaced('"value": 0.65,', '"value": [0.65],'), ProblemCode.NO_QUALITY, "failed"),
        (replaced('"value": 0.65,', "'value': 0.65,"), ProblemCode.SKIPPED_RECORD, "failed"),
        (replaced(f": {START_MS},", f': "{START_MS}",'), ProblemCode.SKIPPED_RECORD, "failed"),
        (replaced('"epoch_num": 2', '"epoch_num": "two"'), ProblemCode.NO_EPOCH_COUNT, "success"),
        (lambda lines: [relabelled(text, 7) for text in lines],
         ProblemCode.NO_EPOCH_COUNT, "success"),
        (lambda lines: [*lines, ':::MLL 1700000000.5 run_stop: {"value": 1}'],
         ProblemCode.SKIPPED_RECORD, "success"),
        (lambda lines: [*lines, line(9000, "run_start")], ProblemCode.REPEATED_RECORD, "success"),
        (lambda lines: [*lines, line(9000, "run_stop")], ProblemCode.REPEATED_RECORD, "success"),
        (lambda lines: [*lines, *demo_log((0.1,), start=MINUTE)], ProblemCode.RESTARTED, "success"),
        (lambda lines: [*lines[:-1], line(6000, "run_stop")], ProblemCode.NO_STATUS, "success"),
        (lambda lines: [text for text in lines if '"run_start"' not in text],
         ProblemCode.NO_START, "failed"),
        (lambda lines: lines[:-1], ProblemCode.NO_STOP, "truncated"),
        (lambda lines: [*lines[:-1], lines[-1][:50]], ProblemCode.UNREADABLE_RECORD, "truncated"),
        (lambda lines: "\n".join([*lines[:-1], lines[-1][:50]]).encode(),
         ProblemCode.INCOMPLETE_LINE, "truncated"),
        (replaced('"devices": 1', '"devices": 1e9'), ProblemCode.NOT_PLAUSIBLE, "failed"),
        (replaced('"devices": 1', '"devices": "1"'), ProblemCode.SETTING, "success"),
        (replaced('"seed", "value": 12345', '"seed", "value": 1.5'), ProblemCode.SEED, "success"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_inference")
def test_damage_is_reported_as_a_problem_with_a_code(tmp_path, edit, code, status):
    record = read_lines(tmp_path, edit(demo_log()))
    assert code in codes(record)
    assert record.status == status
    assert record.settings.workload == "ncf"


def test_the_first_of_several_runs_in_a_file_is_read(tmp_path):
    first, second = demo_log((0.3, 0.65)), demo_log((0.1,), start=MINUTE, keys={"seed": 2})
    record, alone = read_lines(tmp_path, [*first, *second]), read_lines(tmp_path, first)
    assert (record.seed, record.seconds, record.epochs_to_target) == (12345, 4.0, 2.0)
    assert (record.evaluations, record.throughput) == (alone.evaluations, alone.throughput)


def test_check_fails_a_file_with_several_runs(tmp_path):
    verdict = check_file(
        write(tmp_path / "result_0.txt", [*demo_log(), *demo_log((0.1,), start=MINUTE)])
    )
    assert not verdict.passed
    assert check_file(write(tmp_path / "result_1.txt", demo_log())).passed


def test_a_suite_run_record_in_python_notation_does_not_mark_a_log_of_this_suite(tmp_path):
    lines = [text.replace('"', "'") if '"suite_run"' in text else text for text in demo_log()]
    assert read_lines(tmp_path, lines).settings.profile == ""


def test_null_is_a_quality_that_is_not_finite(tmp_path):
    lines = [
        text.replace('"value": 0.65,', '"value": null,') for text in demo_log(status="success")
    ]
    record = read_lines(tmp_path, lines)
    assert (record.end.status, record.end.code) == (EndStatus.FAILED, EndCode.FALSE_SUCCESS)
    assert len(record.evaluations) == 2


def test_damaged_logs_never_raise(tmp_path):
    rng = random.Random(3)
    whole = ("\n".join(demo_log()) + "\n").encode()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        record = read(write(tmp_path / "result_0.txt", bytes(data[: rng.randrange(len(data))])))
        assert record.status in ("success", "failed", "aborted", "truncated", "unreadable")
        assert record.end.status is not EndStatus.UNREADABLE or record.problems
