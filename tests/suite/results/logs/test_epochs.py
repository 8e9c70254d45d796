"""Epoch counts of logs whose epoch labels start at 0, repeat, are missing, or come too late.

The reader must return the right count or no count, but never a wrong count.
"""

import json

import pytest

from suite.results import read
from testing.fake_logs import line, write

START = 1_540_000_000.0
EPOCH = 100.0
"""Training time of an epoch in seconds."""


def v05(seconds, tag, value=None):
    text = f":::MLPv0.5.0 resnet {START + seconds:.6f} (a.py:1) {tag}"
    return text if value is None else f"{text}: {json.dumps(value)}"


def old_log(labels, starts, offset, set_up=20.0, flag=True, accuracy=True):
    """Return the lines of a v0.5 log.

    Args:
        labels: Labels of the evaluations. The evaluation with label L comes after L + `offset`
            epochs.
        starts: (seconds, label) of each `train_epoch` record.
        offset: Epochs to add to a label.
        set_up: Seconds before the first epoch.
        flag: Whether `run_stop` states success.
        accuracy: Whether evaluations have labels.
    """
    lines = [v05(0, "run_start"), v05(0, "eval_target", 0.749), v05(set_up, "train_loop")]
    for index, label in enumerate(labels):
        time = set_up + EPOCH * (label + offset)
        lines.append(v05(time + 1, "eval_start"))
        quality = 0.75 if index == len(labels) - 1 else 0.1 + index / 1000
        value = {"epoch": label, "value": quality} if accuracy else {"value": quality}
        lines.append(v05(time + 2, "eval_accuracy", value))
    lines.append(
        v05(
            set_up + EPOCH * (labels[-1] + offset) + 3,
            "run_stop",
            {"success": True} if flag else None,
        )
    )
    return [*lines, *(v05(seconds, "train_epoch", label) for seconds, label in starts)]


def late(labels):
    return [(100_000.0 + label, label) for label in labels]


def mll(seconds, key, value=None, **metadata):
    return f":::MLL {START + seconds:.6f} {key}: " + json.dumps(
        {"value": value, "metadata": metadata}
    )


def new_log(accuracy, starts=(), blocks=(), benchmark="resnet", stops=None, opened=None):
    """Return the lines of a v0.6 log with an evaluation every 100 s.

    Args:
        accuracy: Epoch labels of the `eval_accuracy` records.
        starts: Labels of the `epoch_start` records.
        blocks: Labels of the `block_start` records.
        benchmark: Name of the benchmark.
        stops: Function that returns the last lines for the end of the run in seconds.
        opened: Epoch labels of the `eval_start` records, or None to leave the records out.
    """
    lines = [mll(-1, "submission_benchmark", benchmark), mll(0, "run_start")]
    lines += [
        mll(EPOCH * index + 1, "epoch_start", epoch_num=label) for index, label in enumerate(starts)
    ]
    lines += [
        mll(EPOCH * i + 1, "block_start", first_epoch_num=label, epoch_count=1)
        for i, label in enumerate(blocks)
    ]
    for index, label in enumerate(accuracy, start=1):
        if opened is not None:
            lines.append(mll(EPOCH * index - 2, "eval_start", epoch_num=opened[index - 1]))
        lines.append(
            mll(
                EPOCH * index - 1,
                "eval_accuracy",
                0.76 if index == len(accuracy) else 0.1,
                epoch_num=label,
            )
        )
    end = EPOCH * len(accuracy)
    return [*lines, *(stops(end) if stops else [mll(end, "run_stop", status="success")])]


def reading_of(tmp_path, lines):
    return read(write(tmp_path / "result_0.txt", lines))


def problem_texts(record):
    return " | ".join(problem.text for problem in record.problems)


EVERY_4 = list(range(3, 84, 4))
ONE_THEN_4 = list(range(1, 62, 4))


@pytest.mark.parametrize(
    ("labels", "starts", "offset", "epochs"),
    [
        pytest.param(ONE_THEN_4, [], 0, 61, id="61 from 1, no starts: too early for two epochs"),
        pytest.param(ONE_THEN_4, [(20, 0)], 0, 61, id="61 from 1, one start labelled 0"),
        pytest.param([*range(4, 61, 4), 61], late([0]), 0, 61, id="61 from 1, every 4 epochs"),
        pytest.param(EVERY_4, [], 1, 84, id="83 from 0, every 4 epochs"),
        pytest.param(EVERY_4, late(range(84)), 1, 84, id="83 from 0, all starts after the run"),
        pytest.param([32, 43, 48, 53], [(20, 0)], 1, 54, id="53 from 0, one start"),
        pytest.param(
            [32, 43, 48, 53],
            [(20, 0), (3330, 33), (4430, 44), (4930, 49)],
            1,
            54,
            id="53, blocks from 0",
        ),
        pytest.param(
            [32, 43, 48, 53],
            [(20, 0), (3230, 32), (4330, 43), (4830, 48)],
            0,
            53,
            id="53 is a count",
        ),
        pytest.param([0, 1], [], 1, 2, id="1 from 0, no starts"),
        pytest.param([0, 1], [(20, 0)], 1, 2, id="1 from 0, one start"),
        pytest.param([0, 1], late([0, 1]), 1, 2, id="1 from 0, starts after the run"),
        pytest.param([0, 1, 2], [], 0, 2, id="0 is the untrained model"),
        pytest.param([-1, 0, 1], [], 2, 3, id="from -1, no starts"),
        pytest.param([1, 2], [(20, 0), (122, 1)], 0, 2, id="starts from 0, evaluations from 1"),
    ],
)
def test_epochs_of_v05_logs_with_few_or_late_starts(tmp_path, labels, starts, offset, epochs):
    record = reading_of(tmp_path, old_log(labels, starts, offset))
    assert (record.status, record.epochs_to_target) == ("success", epochs)


@pytest.mark.parametrize(
    ("labels", "starts", "offset", "text"),
    [
        ([32, 43, 48, 53], [], 1, "no epoch count"),
        # There are 11 starts, but the first evaluation came after two epochs.
        ([2, 6, 10], late(range(11)), 0, "contradict"),
    ],
)
def test_unexplained_or_contradictory_labels_give_no_count(tmp_path, labels, starts, offset, text):
    record = reading_of(tmp_path, old_log(labels, starts, offset))
    assert (record.status, record.epochs_to_target) == ("success", None)
    assert text in problem_texts(record)


def test_old_log_without_labels_counts_starts_only_if_they_keep_pace(tmp_path):
    kept = [(20, 0), (122, 1)]
    assert reading_of(tmp_path, old_log([0, 1], kept, 1, accuracy=False)).epochs_to_target == 2
    record = reading_of(tmp_path, old_log([0, 1], kept[:1], 1, accuracy=False))
    assert record.epochs_to_target is None
    assert "no epoch count" in problem_texts(record)


@pytest.mark.parametrize(
    ("accuracy", "opened", "epochs"),
    [
        ([1, 2, 2], [1, 2, 3], 3),
        ([1, 1, 2], [0, 1, 2], 3),
        ([1, 2, 3], [0, 1, 2], 3),
        ([0, 1, 2], [1, 2, 3], 3),
        ([1, 2, 3], [1, 2, 3], 3),
        ([1, 2, 3], [1, 5, 9], None),
        ([1, 2, 2], [1, 1, 2], None),
    ],
)
def test_two_different_labels_of_one_evaluation(tmp_path, accuracy, opened, epochs):
    record = reading_of(tmp_path, new_log(accuracy, opened=opened))
    assert (record.status, record.epochs_to_target) == ("success", epochs)
    assert ("label" in problem_texts(record)) == (accuracy != opened)


@pytest.mark.parametrize(
    ("values", "benchmark", "status", "text"),
    [
        ((None, {"success": True}), "resnet", "success", "2 different run_stop"),
        (({"success": True}, None), "resnet", "success", "2 different run_stop"),
        ((None, {"success": "true"}), "other", "success", ""),
        (
            ({"success": False}, {"success": True}),
            "resnet",
            "failed",
            "contradicts another one about success",
        ),
    ],
)
def test_a_log_with_two_run_stop_records(tmp_path, values, benchmark, status, text):
    def stops(end):
        return [mll(end + index, "run_stop", value) for index, value in enumerate(values)]

    record = reading_of(tmp_path, new_log([1, 2, 3], benchmark=benchmark, stops=stops))
    assert (record.status, record.seconds) == (status, 300.0)
    assert record.epochs_to_target == (3 if (status, benchmark) == ("success", "resnet") else None)
    assert text in problem_texts(record)
    assert "run_stop has no status" not in problem_texts(record)


def test_a_run_stop_without_status_before_the_last_evaluation_is_not_the_end(tmp_path):
    lines = old_log([0, 1, 2], [(20, 0), (122, 1), (222, 2)], 1)
    lines.insert(-4, v05(321, "run_stop"))
    record = reading_of(tmp_path, lines)
    assert (record.status, record.seconds, record.epochs_to_target) == ("success", 323.0, 3)
    assert "2 different run_stop; the first with a status" in problem_texts(record)


def mllog(seconds, key, value=None, **metadata):
    return line(1000 * seconds, key, value, **metadata)


def modern_log(evaluations, blocks=(), starts=(), status="success", benchmark="resnet"):
    """Return the lines of a v0.7 log.

    Args:
        evaluations: (seconds, label) of each evaluation. Only the last label has a good quality.
        blocks: (seconds, first epoch, epochs) of each `block_start` record.
        starts: (seconds, label) of each `epoch_start` record.
        status: Status of the `run_stop` record.
        benchmark: Name of the benchmark.
    """
    lines = [mllog(-1, "submission_benchmark", benchmark), mllog(0, "run_start")]
    lines += [
        mllog(time, "block_start", first_epoch_num=label, epoch_count=size)
        for time, label, size in blocks
    ]
    lines += [mllog(time, "epoch_start", epoch_num=label) for time, label in starts]
    for time, label in evaluations:
        lines.append(
            mllog(
                time, "eval_accuracy", 0.76 if label == evaluations[-1][1] else 0.1, epoch_num=label
            )
        )
    return [*lines, mllog(evaluations[-1][0] + 1, "run_stop", status=status)]


ROUNDED = [(190.5 + 184.2 * index, label) for index, label in enumerate((3, 6, *range(10, 39, 4)))]
"""Evaluations of Google's tpu-v4-16 (v0.7): blocks have 2,502 steps, epochs have 625.6 steps."""
AFTER = [(2212.1 + index, label) for index, label in enumerate(range(0, 45, 4))]
"""Evaluations of Graphcore's ipu-pod16 (v1.0), all of them after the training.

They evaluate checkpoints from 0, the untrained model, to 44.
"""

OVERLAPPING = [
    *modern_log([(110.0 * n, n) for n in (1, 2, 3)], starts=[(100.0 * n + 1, n) for n in range(4)]),
    *[mllog(100.0 * label, "eval_start", epoch_num=label) for label in (1, 2, 3)],
]
"""Log like those of NVIDIA's RetinaNet, whose evaluations overlap the next epoch.

Evaluations are labeled from 1, epochs from 0.
"""


def blocks_of(evaluations, size, first=0):
    ends = [time for time, _ in evaluations[:-1]]
    return [(time, first + size * index, size) for index, time in enumerate((0.0, *ends))]


@pytest.mark.parametrize(
    ("log", "epochs", "text"),
    [
        (modern_log(ROUNDED, blocks_of(ROUNDED, 4)), 40, "10 equal blocks of 4 epochs are counted"),
        (modern_log(ROUNDED, [(0.0, 0, 3), *blocks_of(ROUNDED, 4)[1:]]), 38, ""),
        (modern_log([(140.0, 3), *ROUNDED[1:]], blocks_of(ROUNDED, 4)), 38, ""),
        (
            modern_log(
                ROUNDED, [(0.0, 1, 1), *[(time, label + 1, 1) for time, label in ROUNDED[:-1]]]
            ),
            38,
            "",
        ),
        (
            modern_log(AFTER, [(25.0, 1, 44)], [(49.0 * n - 24, n) for n in range(1, 45)]),
            44,
            "0 for the untrained model",
        ),
        (
            modern_log([(1, 1), (2, 2), (2.5, 5), (3, 3), (4, 4), (5, 6)]),
            6,
            "not in the order of their labels",
        ),
        (OVERLAPPING, 3, ""),
        (new_log(accuracy=range(15)), 15, "labeled from 0"),
        (new_log(accuracy=range(15), starts=range(15)), 15, "labeled from 0"),
        (new_log(accuracy=[1, 2, 3], starts=[1, 2, 3, 4]), 3, ""),
        (new_log(accuracy=[1, 2, 3], starts=[0, 1, 2]), 3, ""),
        (new_log([1, 1, 2, 2], opened=[1, 1, 2, 2]), 2, ""),
        (old_log([0, 0, 1, 1], [(20, 0), (122.5, 1)], 1), 2, ""),
        (new_log([1, 2, 2], blocks=[1, 2, 3]), 3, "the epochs started are counted"),
        (modern_log([(1, 1), (2, 2), (2.5, 6), (3, 3), (5, 7)]), None, "contradict each other"),
        (
            modern_log([(-90.0, 3), *[(4.0 * label, label) for label in (4, 8, 12)]]),
            12,
            "before run_start is not used",
        ),
    ],
)
def test_epochs_of_logs_with_the_labels_of_published_logs(tmp_path, log, epochs, text):
    record = reading_of(tmp_path, log)
    assert (record.status, record.epochs_to_target) == ("success", epochs)
    assert text in problem_texts(record) if text else "labeled from" not in problem_texts(record)


def test_evaluations_of_v05_that_end_out_of_order(tmp_path):
    """Logs of Intel's Caffe (v0.5) have labels from -1 and no start of the first epoch.

    Evaluations 2 and 3 end after evaluation 4.
    """
    order = [-1, 0, 1, 4, 2, 3, 5]
    lines = [v05(0, "run_start"), v05(0, "eval_target", 0.749)]
    for index, label in enumerate(order):
        lines += [v05(EPOCH * index + 1, "train_epoch", index - 1)] if index else []
        value = {"epoch": label, "value": 0.75 if label == 5 else 0.1}
        lines.append(v05(EPOCH * (index + 1), "eval_accuracy", value))
    lines.append(v05(EPOCH * len(order), "run_stop", {"success": True}))
    assert reading_of(tmp_path, lines).epochs_to_target == 7


@pytest.mark.parametrize(
    ("status", "read_as"), [("fail", "failed"), ("failed", "failed"), ("abort", "aborted")]
)
def test_synonyms_of_failed_and_aborted_are_read(tmp_path, status, read_as):
    record = reading_of(tmp_path, modern_log([(1, 1), (2, 2)], status=status, benchmark="other"))
    assert (record.status, record.finished) == (read_as, False)
