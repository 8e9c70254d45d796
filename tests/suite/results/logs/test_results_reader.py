"""Reader of logs: complete logs, damaged or hostile content, and forms of foreign programs."""

import codecs
import json
import os
import time
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from suite.results import read
from suite.results.logs.lines import MAX_LINE_BYTES, MAX_PROBLEMS
from testing.fake_logs import KEYS, START_MS, demo_log, line, write
from tests.helpers import examples, json_values, one_line


def read_lines(tmp_path, lines):
    return read(write(tmp_path / "result_0.txt", lines))


def foreign(benchmark="ncf", **options):
    """Return the lines of a log of a foreign program, whose epochs are numbered from 1."""
    lines = [text for text in demo_log(**{"rules": "v0.7", **options}) if '"suite_run"' not in text]
    return [text.replace('"value": "ncf"', f'"value": "{benchmark}"') for text in lines]


def texts(record):
    return [str(problem) for problem in record.problems]


def test_a_log_of_this_suite_is_read_completely(tmp_path):
    record = read_lines(tmp_path, demo_log(devices=2, labels=["demo", "cpu", "oversubscribed"]))
    assert record.problems == ()
    assert (record.benchmark, record.org, record.platform) == (
        "ncf",
        "DEMO - not an MLPerf result",
        "1xSome CPU",
    )
    assert (record.division, record.submission_status) == ("open", "research")
    settings = record.settings
    assert (settings.workload, settings.devices, settings.global_batch_size) == ("ncf", 2, 4096)
    assert settings.labels == ("demo", "cpu", "oversubscribed")
    assert (record.seed, record.seconds, record.start_ms) == (12345, 6.0, START_MS)
    assert (record.status, record.reason, record.finished, record.epochs_to_target) == (
        "success",
        "",
        True,
        3.0,
    )
    assert (record.targets, record.targets_source) == ({"hr_at_10": 0.635}, "log")
    assert record.quality == {"hr_at_10": 0.65}
    found = [
        (evaluation.quality, evaluation.epoch, evaluation.seconds)
        for evaluation in record.evaluations
    ]
    assert found == [
        ({"hr_at_10": 0.3}, 0, 1.999),
        ({"hr_at_10": 0.5}, 1, 3.999),
        ({"hr_at_10": 0.65}, 2, 5.999),
    ]
    block = record.throughput[1]
    assert (block.step, block.samples, block.train_seconds, block.samples_per_second) == (
        202,
        400_000,
        1.0,
        400_000,
    )
    assert (block.evaluation_seconds, block.data_wait_seconds, block.loss) == (0.25, 0.5, 0.25)
    assert record.hyperparameters == {key: value for key, value in KEYS.items() if key != "seed"}


@pytest.mark.parametrize(
    ("options", "status", "reason", "finished"),
    [
        ({"qualities": (0.3, 0.4)}, "aborted", "target not reached", False),
        ({"qualities": (0.3,), "seconds_per_epoch": 0.01, "stop": "epochs:1"}, "aborted", "", True),
        ({"qualities": (0.3,), "devices": 10_000, "stop": "epochs:1"}, "aborted", "", True),
        ({"qualities": (0.3,), "reason": "Diverged: loss is nan"},
         "aborted", "Diverged: loss is nan", False),
        ({"qualities": (0.3, 0.4), "stop": "epochs:2"}, "aborted", "", True),
        ({"qualities": (0.3, 0.4), "stop": "epochs:2", "status": "success"}, "success", "", True),
        ({"qualities": (0.3,), "stop": "epochs:2", "reason": "Diverged: nan"},
         "aborted", "Diverged: nan", False),
        ({"qualities": (0.3, 0.6), "status": "success"}, "failed",
         "run_stop has status success, but no evaluation reaches the target", False),
    ],
)  # fmt: skip
def test_status_and_reason_of_the_end_of_a_run(tmp_path, options, status, reason, finished):
    record = read_lines(tmp_path, demo_log(**options))
    assert (record.status, record.reason, record.finished) == (status, reason, finished)
    assert record.epochs_to_target is None
    assert record.seconds == options.get("seconds_per_epoch", 2.0) * len(options["qualities"])
    cut = read_lines(tmp_path, demo_log(**options)[:-1])
    assert (cut.status, cut.seconds, cut.finished) == ("truncated", None, False)
    assert len(cut.evaluations) == len(options["qualities"])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the file is empty"),
        (bytes(range(256)) * 20, "not a log: binary data"),
        (b"Epoch 1 done\n", "not a log: no line holds :::MLLOG, :::MLL or :::MLPv0.5.0"),
        (b':::MLLOG {"key": \n', "no record of the log can be read"),
    ],
)
def test_a_file_without_records_is_unreadable(tmp_path, content, text):
    record = read_lines(tmp_path, content)
    assert (record.status, record.seconds) == ("unreadable", None)
    assert str(record.problems[0]) == text
    assert record.reason == text


def test_a_path_that_is_not_a_file_is_rejected_in_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none.txt", tmp_path, tmp_path / "pipe"):
        with pytest.raises(ValueError, match=one_line("cannot be read")):
            read(path)


@pytest.mark.parametrize(
    "record",
    [
        '{"time_ms": 1e999, "key": "x", "value": 1, "metadata": {}}',
        '{"time_ms": "soon", "key": "x", "value": 1, "metadata": {}}',
        '{"time_ms": 1, "key": 7, "value": 1, "metadata": {}}',
        '{"time_ms": 1, "key": "x", "metadata": {}}',
        '{"time_ms": 1, "key": "x", "value": 1, "metadata": []}',
        '{"time_ms": 1, "key": "x", "value": ' + "[" * 100_000,
        '{"time_ms": 1, "key": "x", "value": ' + "9" * 100_000 + "}",
        '{"time_ms": 1, "key": "x", "value": ' + "9" * 500_000 + "x}",
        "__import__('os').system('true')",
    ],
)
def test_hostile_records_are_problems(tmp_path, record):
    record = read_lines(tmp_path, [*demo_log(), f":::MLLOG {record}"])
    assert record.seconds == 6.0
    assert len(record.problems) == 1
    assert len(str(record.problems[0])) < 200


def test_wrong_types_in_suite_run_are_problems(tmp_path):
    record = read_lines(
        tmp_path, demo_log(devices="two", labels="demo", targets={"hr_at_10": "high"}, system=None)
    )
    wrong = (
        "devices is not an integer",
        "targets is not an object of numbers",
        "labels is not a list of strings",
    )
    assert [text.split(": ", 1)[1] for text in texts(record)[:3]] == [
        f"suite_run: {text}" for text in wrong
    ]
    assert (record.settings.devices, record.settings.system) == (None, "")


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.binary(max_size=80)
        | st.sampled_from([b":::MLLOG ", b":::MLL ", b":::MLPv0.5.0 ", b"\n", b"{"])
    )
)
def test_arbitrary_bytes_never_raise(tmp_path, parts):
    record = read_lines(tmp_path, b"".join(parts))
    assert record.status in ("unreadable", "truncated", "failed", "aborted", "success")


METADATA = st.dictionaries(st.sampled_from(["epoch_num", "status"]), json_values(6))
KEYS_OF_LOGS = (
    "run_start",
    "run_stop",
    "eval_accuracy",
    "tracked_stats",
    "suite_run",
    "epoch_start",
    "seed",
)
KEY = st.sampled_from([*KEYS_OF_LOGS, "submission_benchmark"])


@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 10), KEY, json_values(6), METADATA)))
def test_arbitrary_values_never_raise(tmp_path, events):
    record = read_lines(
        tmp_path, [line(time, key, value, **metadata) for time, key, value, metadata in events]
    )
    assert record.seconds is None or record.seconds >= 0


ENCODED = {
    **{
        "utf-16-le": codecs.BOM_UTF16_LE,
        "utf-16-be": codecs.BOM_UTF16_BE,
        "utf-8": codecs.BOM_UTF8,
    },
    **{f"utf-16-{order} without its mark": b"" for order in ("le", "be")},
}


@pytest.mark.parametrize("name", ENCODED)
def test_logs_in_utf_16_or_with_a_byte_order_mark_are_read(tmp_path, name):
    text = "\n".join(["Zeilen über Züge", *demo_log()]) + "\n"
    record = read_lines(tmp_path, ENCODED[name] + text.encode(name.split(" ")[0]))
    assert (record.seconds, record.epochs_to_target) == (6.0, 3.0)
    utf16 = [f"line 1: the file is {name.split(' ')[0].upper()}"]
    assert texts(record) == (utf16 if "16" in name else [])
    if "16" in name:  # The file is cut in the middle of a character.
        cut = read_lines(tmp_path, (ENCODED[name] + text.encode(name.split(" ")[0]))[:-3])
        assert (cut.seconds, texts(cut)[0]) == (None, utf16[0])
        assert "the last line is incomplete" in texts(cut)[1]


def with_qualities(*values):
    """Return the log of a Mask R-CNN run of a foreign program with `values` as qualities."""
    lines = foreign(
        "maskrcnn", qualities=[0.111 + index for index in range(len(values))], status="aborted"
    )
    for index, value in enumerate(values):
        lines = [
            text.replace(f'"value": {0.111 + index},', f'"value": {json.dumps(value)},')
            for text in lines
        ]
    return lines


BOTH = {"BBOX": 0.4, "SEGM": 0.35}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (BOTH, ""),
        ({"accuracy": BOTH}, ""),
        ([0.4, 0.35], "holds a pair, read as BBOX and SEGM"),
        ([["BBOX", 0.4], ["SEGM", 0.35]], "holds a list of pairs"),
        ({"BBOX": "0.4", "SEGM": "0.35"}, "holds text"),
        ("{'BBOX': 0.4, 'SEGM': 35%}", "holds text"),
        ("(0.4, 0.35)", "holds text"),
    ],
)
def test_two_qualities_are_read_in_any_form(tmp_path, value, message):
    record = read_lines(tmp_path, with_qualities(value))
    assert record.evaluations[0].quality == BOTH
    found = [text for text in texts(record) if "eval_accuracy" in text]
    assert message in found[0] if message else not found


@pytest.mark.parametrize(
    "value", [[0.4, 0.3, 0.2], [[1, 2]], "soon", "0.4 or so", None, True, {}, [], ["0.4", None]]
)
def test_an_invalid_quality_is_ignored_with_a_problem(tmp_path, value):
    record = read_lines(tmp_path, with_qualities(value, BOTH))
    assert [evaluation.quality for evaluation in record.evaluations] == [BOTH]
    assert any("eval_accuracy holds no number" in text for text in texts(record))


def test_python_notation_is_read_and_reported(tmp_path):
    lines = [
        text.replace('"', "'").replace("null", "None").replace("false", "False")
        for text in foreign()
    ]
    record = read_lines(tmp_path, lines)
    plain = read_lines(tmp_path, foreign())
    assert replace(record, digest="", problems=()) == replace(plain, digest="", problems=())
    assert all("not JSON: single quotes" in text for text in texts(record))


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1))
def test_a_log_cut_anywhere_reads_as_a_prefix_of_itself(tmp_path, share):
    whole = ("\n".join(demo_log()) + "\n").encode()
    cut = whole[: round(share * len(whole))]
    record, complete = read_lines(tmp_path, cut), read_lines(tmp_path, whole)
    found = [evaluation.quality for evaluation in record.evaluations]
    assert found == [evaluation.quality for evaluation in complete.evaluations][: len(found)]
    assert record.status in ("truncated", "unreadable", "success")
    broken = [problem for problem in record.problems if "cannot be read" in problem.text]
    assert len(broken) <= 1
    assert all("the last line is incomplete" in problem.text for problem in broken)


@pytest.mark.parametrize("content", ["a hole of 100 megabytes", "100,000 lines"])
def test_a_large_file_without_a_record_takes_little_memory(tmp_path, content):
    path = tmp_path / "result_0.txt"
    path.write_bytes((b"loss 0.25" * 22 + b"\n") * 100_000 if content.endswith("lines") else b"")
    if not content.endswith("lines"):
        os.truncate(path, 100 << 20)
    tracemalloc.start()
    record = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert record.status == "unreadable"
    assert texts(record)[0].startswith("not a log: ")
    assert peak < 16 << 20  # All lines in memory would take 23 MB, the hole 100 MB.


@pytest.mark.parametrize(
    ("keys", "workload", "target"),
    [
        (
            {"opt_name": "adam", "opt_learning_rate_warmup_epochs": 1, "train_samples": 4572},
            "retinanet",
            0.34,
        ),
        ({"opt_name": "adam"}, "retinanet", 0.34),
        ({"opt_name": "", "global_batch_size": 256, "train_samples": 4572}, "retinanet", 0.34),
        ({"opt_name": "", "train_samples": 1_170_301}, "retinanet", 0.34),
        ({"opt_name": "", "global_batch_size": 1664, "train_samples": 117_266}, "ssd", 0.23),
        (
            {"model_bn_span": 12, "opt_learning_rate_warmup_steps": 650, "train_samples": 117_266},
            "ssd",
            0.23,
        ),
    ],
)
def test_retinanet_is_recognized_under_the_name_ssd(tmp_path, keys, workload, target):
    """Distinguish RetinaNet logs of v2.0 to v4.0 from SSD logs of v0.7 and v1.1 by their keys.

    NVIDIA's code logs the number of batches as `train_samples`.
    """
    record = read_lines(
        tmp_path, foreign("ssd", qualities=(0.2, 0.3, 0.35), keys=keys, status="success")
    )
    assert (record.settings.workload, record.targets) == (workload, {"map": target})
    assert (record.targets_source, record.benchmark) == ("rules", "ssd")
    assert record.epochs_to_target == (3 if target == 0.34 else 2)


def test_copies_of_a_log_have_the_same_digest(tmp_path):
    lines = demo_log()
    noisy = "\r\n".join(f"0: {text}" for text in ["start", *lines]).encode("utf-16")
    digest = read_lines(tmp_path, lines).digest
    assert len(digest) == 32
    assert read_lines(tmp_path, noisy).digest == digest
    assert read_lines(tmp_path, lines[:-1]).digest != digest
    assert read_lines(tmp_path, ["no log"]).digest == ""


@pytest.mark.parametrize(
    "options", [{}, {"stop": "epochs:3"}, {"stop": "epochs:3", "status": "aborted"}]
)
def test_a_log_without_run_start_is_a_failed_run(tmp_path, options):
    lines = [text for text in demo_log(**options) if '"run_start"' not in text]
    for kept in (lines, [text for text in lines if '"suite_run"' not in text]):
        record = read_lines(tmp_path, kept)
        assert (record.finished, record.status, record.reason) == (False, "failed", "no run_start")
        assert record.seconds is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds_per_epoch": 0.0}, "seconds = 0"),
        ({"seconds_per_epoch": 2e7}, "seconds = 6e+07"),
        ({"start": 10**15}, "time_ms = 1.0017e+15"),
        ({"start": -(10**12)}, "time_ms = 7e+11"),
        ({"samples": 10**150}, "throughput = 1e+150"),
        ({"train_seconds": -1.0}, "throughput = -400000"),
        ({"devices": -2}, "devices = -2"),
        ({"devices": 0}, "devices = 0"),
        ({"nodes": 10**400}, "nodes = 10000000000000000000000…"),
        ({"qualities": (0.3, 7.5)}, "hr_at_10 = 7.5"),
        ({"qualities": (0.3, -7.5), "status": "success"}, "hr_at_10 = -7.5"),
    ],
)
def test_implausible_values_make_a_run_fail(tmp_path, options, message):
    for stop in ("target", "epochs:3"):
        record = read_lines(tmp_path, demo_log(stop=stop, **options))
        assert (record.status, record.reason, record.finished) == (
            "failed",
            f"not plausible: {message}",
            False,
        )
        assert record.settings.devices == (None if "devices" in options else 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"epoch_num": 2', '"epoch_num": 5e15', "epoch_num = 5e+15"),
        (
            '"global_batch_size", "value": 4096',
            '"global_batch_size", "value": -1',
            "global_batch_size = -1",
        ),
        ('"value": 0.65', '"value": 75.9', "top1 = 75.9"),
    ],
)
def test_implausible_values_of_other_programs_make_a_run_fail(tmp_path, old, new, message):
    record = read_lines(tmp_path, [text.replace(old, new) for text in foreign("resnet")])
    assert (record.status, record.reason) == ("failed", f"not plausible: {message}")
    assert [problem.line > 0 for problem in record.problems if "plausible" in problem.text] == [
        True
    ]


@pytest.mark.parametrize(
    ("quality", "target", "reached"),
    [
        (0.6349996, 0.635, False),
        (0.63499999, 0.635, False),
        (0.6349999904632568, 0.635, True),
        (0.635, 0.635, True),
    ],
)
def test_only_the_float32_of_the_target_itself_meets_it(tmp_path, quality, target, reached):
    record = read_lines(
        tmp_path, demo_log((quality,), status="success", targets={"hr_at_10": target})
    )
    assert (record.status, record.epochs_to_target) == (
        ("success", 1.0) if reached else ("failed", None)
    )


@pytest.mark.parametrize(
    ("written", "seed", "count"),
    [
        (2**63 + 1, 2**63 + 1, 0),
        ("4096", 4096, 0),
        (7.0, 7, 0),
        (1621233964.25, None, 1),
        (1e300, None, 1),
        (2**64, None, 1),
        ("tomorrow", None, 1),
        ("none", None, 0),
        (None, None, 0),
    ],
)
def test_seeds_are_exact_or_none(tmp_path, written, seed, count):
    lines = foreign(keys={"seed": written})
    record = read_lines(tmp_path, lines)
    assert record.seed == seed
    old = [text.replace('"key": "seed"', '"key": "run_set_random_seed"') for text in lines]
    assert read_lines(tmp_path, old).seed == seed
    assert sum("seed is not an integer" in text for text in texts(record)) == count
    assert "run_set_random_seed" not in record.hyperparameters


def test_reading_time_grows_linearly_with_the_length_of_a_log(tmp_path):
    """Read eight times as many evaluations in at most 20 times the time.

    Only the last evaluation reaches the target, so the reader has to check all of them.
    """
    took = []
    for count in (250, 2000):
        path = write(tmp_path / "result_0.txt", foreign("resnet", qualities=(*[0.5] * count, 0.8)))
        start = time.process_time()
        record = read(path)
        took.append(time.process_time() - start)
        assert (len(record.evaluations), record.epochs_to_target) == (count + 1, count + 1)
        assert len(record.throughput) == count + 1
    assert took[1] < 20 * took[0]


DIALECTS = (
    (
        lambda lines: [*lines, ':::MLL 1700000000.5 opt_other: {"value": 3}'],
        "a MLL record in a MLLOG log",
    ),
    (
        lambda lines: [text.replace(f": {START_MS},", f': "{START_MS}",') for text in lines],
        "time as text",
    ),
    (
        lambda lines: [text.replace('"value": 0.65,', '"value": "65%",') for text in lines],
        "holds text",
    ),
    (
        lambda lines: [text.replace('"value": 0.65,', '"value": [0.65],') for text in lines],
        "a list of one number",
    ),
)
"""Forms that only foreign programs write, each with the expected problem."""
DAMAGE = (
    (lambda lines: [*lines, "x :::MLX {}"], "no record of a known form: :::MLX {}"),
    (
        lambda lines: [*lines, line(60_000, "eval_accuracy", 0.9)],
        "eval_accuracy after run_stop is not used",
    ),
    (lambda lines: ["".join(lines[:4]) + "warning" + lines[4], *lines[5:]], ""),
    (lambda lines: [*lines, line(60_000, "note", ':::MLLOG {"key": "run_stop"}')], ""),
    (
        lambda lines: "\n".join(lines).replace("1xSome", "M\xfcller").encode("latin-1"),
        "read as latin-1",
    ),
    (
        lambda lines: [
            "\r\nsome output \xe4",
            *[f"0: {text}\r" for text in [*lines, *lines[::-1]]],
        ],
        "",
    ),
    (
        lambda lines: [":::MLLOG []", *lines],
        "line 1: :::MLLOG record cannot be read (not a JSON object)",
    ),
    (
        lambda lines: [*lines[:9], lines[9] + " and more", *lines[10:]],
        "line 10: text after the record",
    ),
    (lambda lines: [line(5, "opt_huge", 10**400), *lines, line(6, "opt_deep", [[[]]])], ""),
    (
        lambda lines: [*lines[:8], ":::MLLOG " + "x" * (3 * MAX_LINE_BYTES), *lines[8:]],
        "line 9: a line of more than",
    ),
    (lambda lines: [*lines, *[":::MLLOG {"] * 5000], "4900 more lines could not be read"),
    (lambda lines: [*lines, ":::MLLOG " * 100_000], "the rest of the line was not read"),
)
"""Damage to a log, or inserted lines of foreign programs, each with the expected problem."""


@pytest.mark.parametrize(
    ("lines", "edit", "message"),
    [
        *((foreign(), edit, message) for edit, message in (*DIALECTS, *DAMAGE)),
        *((demo_log(), edit, message) for edit, message in DAMAGE),
    ],
)
def test_tolerated_deviations_change_no_figures_and_are_reported(tmp_path, lines, edit, message):
    record = read_lines(tmp_path, edit(lines))
    assert (record.status, record.seconds, record.epochs_to_target) == ("success", 6.0, 3.0)
    assert record.quality == {"hr_at_10": pytest.approx(0.65)}
    assert len(record.problems) <= MAX_PROBLEMS + 2
    assert any(message in text for text in texts(record)) if message else not record.problems


@pytest.mark.parametrize(
    ("benchmark", "targets", "qualities", "epochs"),
    [
        # The log contains BLEU in points, the rules contain the target as a fraction.
        ("gnmt", {"bleu": 24.0}, (20.0, 24.3), 2),
        ("maskrcnn", {"BBOX": 0.377, "SEGM": 0.339}, ([0.38, 0.33], [0.37, 0.34], [0.38, 0.34]), 3),
    ],
)
def test_targets_come_from_the_rules(tmp_path, benchmark, targets, qualities, epochs):
    marks = [0.111 + index / 1000 for index in range(len(qualities))]
    lines = foreign(benchmark, qualities=marks, status="success")
    for mark, quality in zip(marks, qualities, strict=True):
        lines = [
            text.replace(f'"value": {mark},', f'"value": {json.dumps(quality)},') for text in lines
        ]
    record = read_lines(tmp_path, lines)
    assert (record.targets, record.epochs_to_target) == (targets, epochs)
