"""`suite check` of logs of this suite: edited logs and files fail, and unedited logs pass."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.compliance.check_log import check_file
from suite.results.logs.reader import read
from testing.fake_logs import foreign
from tests.helpers import examples, json_values
from tests.suite.compliance.suite_runs import (
    complaints,
    edit,
    records,
    without_files,
    write_records,
    write_run,
)
from tests.suite.compliance.tricks import (
    CAUSES,
    CLOCK,
    RESUMED,
    SCHEDULE,
    continued,
    drop_number,
    elapsed_of_rows,
    set_setting,
)

WORKLOADS = ("ncf", "resnet50", "ssd", "maskrcnn", "gnmt", "transformer")


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_closed_run_passes_with_its_files_and_without_them(tmp_path, name, blocks):
    log = write_run(tmp_path / "job" / "run_0", name, blocks)
    assert complaints(log) == set()
    assert not any("not verified" in remark for remark in check_file(log).remarks)
    assert complaints(without_files(log)) == set()
    assert "not verified: run.json is not next to the log" in check_file(log).remarks


@pytest.mark.parametrize(
    ("cause", "trick"),
    [(cause, trick) for cause, tricks in CAUSES.items() for trick in tricks],
    ids=str,
)
def test_no_edit_of_a_closed_run_passes(tmp_path, cause, trick):
    log = write_run(tmp_path / "job" / "run_0")
    CAUSES[cause][trick](log)
    assert complaints(log)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(
    "trick",
    ["one optimizer step", "ten samples in each block", "an evaluation removed", "a block cut out"],
)
def test_the_schedule_is_checked_without_run_json(tmp_path, name, trick):
    log = without_files(write_run(tmp_path / "job" / "run_0", name))
    SCHEDULE[trick](log)
    assert complaints(log)


def set_epoch_count(log, count):
    starts = []

    def change(item):
        starts.append(item)
        return (
            {**item, "metadata": {**item["metadata"], "epoch_count": count}}
            if len(starts) == 1
            else item
        )

    edit(log, change, "block_start")


def shorten_epochs(log, divisor):
    """Train on a part of the data per epoch, and log the rest as negative repeated samples."""
    items = records(log)
    run = next(item for item in items if item["key"] == "suite_run")["value"]
    train_samples = next(item for item in items if item["key"] == "train_samples")["value"]
    whole = (5 if run["workload"] == "ncf" else 1) * train_samples
    kept, before = whole // divisor, 0
    per_epoch, steps = -(-whole // run["global_batch_size"]), -(-kept // run["global_batch_size"])
    run["repeated_samples_per_epoch"] = kept - whole
    run["repeated_share"] = 0.0
    for item in items:
        if item["key"] == "tracked_stats":
            epochs, rest = divmod(item["metadata"]["step"], per_epoch)
            item["metadata"]["step"] = epochs * steps + rest
            samples = epochs * kept + rest * run["global_batch_size"]
            item["value"]["samples"] = samples - before
            item["value"]["throughput"] = (samples - before) / item["value"]["train_seconds"]
            before = samples
    write_records(log, items)


UNVERIFIABLE = {
    "repeated samples that are negative": lambda log: shorten_epochs(log, 4),
    "repeated samples that do not fit their share": lambda log: set_setting(
        log, repeated_share=0.009
    ),
    "repeated samples as text": lambda log: set_setting(log, repeated_samples_per_epoch="many"),
    "fractions of repeated samples": lambda log: set_setting(log, repeated_samples_per_epoch=0.5),
    "a first block of seven epochs": lambda log: set_epoch_count(log, 7),
    "a first block of no epoch": lambda log: set_epoch_count(log, 0),
    "epochs as text": lambda log: set_epoch_count(log, "x"),
    "the first epoch_stop removed": lambda log: drop_number(log, "epoch_stop", 1),
}
"""Edits that could make the schedule of a log appear impossible to compare."""


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("trick", UNVERIFIABLE)
def test_a_log_cannot_disable_the_check_of_its_schedule(tmp_path, name, trick):
    log = without_files(write_run(tmp_path / "job" / "run_0", name))
    UNVERIFIABLE[trick](log)
    assert complaints(log)


def test_seconds_of_metrics_may_differ_by_a_wait_for_a_core(tmp_path):
    log = write_run(tmp_path / "job" / "run_0")
    elapsed_of_rows(log, lambda seconds: round(seconds + 0.4, 3))
    assert complaints(log) == set()


@pytest.mark.parametrize("name", ["metrics.jsonl", "status.json"])
def test_a_missing_file_is_named(tmp_path, name):
    log = write_run(tmp_path / "job" / "run_0")
    log.with_name(name).unlink()
    assert f"not verified: {name} is not next to the log" in check_file(log).remarks


@pytest.mark.parametrize(("code_digest", "passes"), [("", True), ("d" * 32, False)])
def test_logs_of_older_versions_have_the_tolerance_of_one_process(tmp_path, code_digest, passes):
    """Allow for processes that start in sequence: older versions logged the longest count."""
    log = without_files(write_run(tmp_path / "job" / "run_0"))
    set_setting(log, devices=2, code_digest=code_digest)
    seconds = 300 + 5.0
    edit(log, lambda item: {**item, "value": {"busy": [], "seconds": seconds}}, "suite_condition")
    assert ("suite_condition" not in complaints(log)) == passes


@pytest.mark.parametrize(
    "trick", [trick for trick in CLOCK if trick != "counted seconds of a longer run"]
)
def test_the_clock_is_checked_without_suite_condition(tmp_path, trick):
    log = without_files(write_run(tmp_path / "job" / "run_0"))
    CLOCK[trick](log)
    edit(log, lambda item: None, "suite_condition")
    assert complaints(log)


def test_a_resumed_run_is_open_and_passes(tmp_path):
    log = write_run(tmp_path / "job" / "run_0")
    RESUMED["fewer resumptions than in run.json"](log)
    assert complaints(log) == {"suite_continued"}
    run = json.loads(log.with_name("run.json").read_text())
    run["resume_from"]["resumptions"] = 1
    run["git"]["commit"], run["identity"]["system"] = "of the last attempt", "another name"
    log.with_name("run.json").write_text(json.dumps(run))
    assert complaints(log) == set()


def test_tables_call_a_resumed_run_open_and_count_its_interruption(tmp_path):
    log = without_files(write_run(tmp_path / "job" / "run_0"))
    seconds = read(log).seconds
    continued(log)
    edit(
        log,
        lambda item: (
            {**item, "time_ms": item["time_ms"] + 60_000}
            if is_after_first_block(item, log)
            else item
        ),
    )
    record = read(log)
    assert (record.division, record.resumptions) == ("open", 1)
    assert record.seconds == seconds + 60
    assert record.interrupted_seconds == pytest.approx(60.5, abs=0.1)


def is_after_first_block(item, log):
    resumed = [record["time_ms"] for record in records(log) if record["key"] == "suite_continued"]
    return item["time_ms"] >= resumed[0]


@pytest.mark.parametrize("name", ["run.json", "status.json", "metrics.jsonl"])
def test_a_damaged_file_next_to_a_log_is_ignored(tmp_path, name):
    """Treat a damaged file like a missing file."""
    log = write_run(tmp_path / "job" / "run_0")
    log.with_name(name).write_bytes(b"\xff{")
    assert complaints(log) == set()
    assert any("run.json" in remark for remark in check_file(log).remarks) == (name == "run.json")


def test_keys_that_run_json_lacks_are_named(tmp_path):
    log = write_run(tmp_path / "job" / "run_0")
    run = json.loads(log.with_name("run.json").read_text())
    del run["division"], run["overrides"]
    log.with_name("run.json").write_text(json.dumps(run))
    assert (
        "not verified: run.json next to the log has no division, overrides"
        in check_file(log).remarks
    )


def test_a_log_may_lack_suite_condition(tmp_path):
    """Accept a log without `suite_condition`, which a killed controller cannot write."""
    log = write_run(tmp_path / "job" / "run_0")
    edit(log, lambda item: None, "suite_condition")
    assert complaints(log) == set()


def test_logs_of_other_programs_may_contain_files_of_the_suite(tmp_path):
    log = foreign(tmp_path / "result_0.txt")
    before = complaints_of_any(log)
    items = [
        {**item, "metadata": {**item["metadata"], "file": "suite.py"}} for item in records(log)
    ]
    assert complaints_of_any(write_records(log, items)) == before
    assert "suite_run" not in before


def complaints_of_any(path):
    return {item.key for item in check_file(path).complaints}


def test_a_missing_loss_in_any_block_is_reported(tmp_path):
    log = write_run(tmp_path / "job" / "run_0")
    seen = []

    def spoil_second(item):
        seen.append(item)
        return {**item, "value": {**item["value"], "loss": None}} if len(seen) == 2 else item

    edit(without_files(log), spoil_second, "tracked_stats")
    assert complaints(log) == {"tracked_stats"}


@pytest.mark.parametrize(
    ("seconds", "passes"), [(87.9, True), (90.501, True), (90.52, False), (98.9, False)]
)
def test_seconds_are_compared_within_the_rounding_of_stamps(tmp_path, seconds, passes):
    """Allow at most 90.501 s of training in a block of 99.501 s with 9 s of evaluation."""
    log = without_files(write_run(tmp_path / "job" / "run_0"))

    def change(item):
        figures = {"train_seconds": seconds, "throughput": item["value"]["samples"] / seconds}
        return {**item, "value": {**item["value"], **figures}}

    edit(log, change, "tracked_stats")
    assert (complaints(log) == set()) == passes


def test_resumed_logs_of_many_attempts_keep_their_order(tmp_path):
    log = without_files(write_run(tmp_path / "job" / "run_0"))
    edit(log, lambda item: {**item, "value": "open"}, "submission_division")
    continued(log)
    continued(log)
    assert complaints(log) == set()


VALUES = json_values(8)


@examples(60)
@given(
    st.sampled_from(
        [
            "settings",
            "identity",
            "dataset_info",
            "resume_from",
            "overrides",
            "deviations",
            "git",
            "versions",
        ]
    ),
    VALUES,
)
def test_no_content_of_run_json_raises(tmp_path_factory, key, value):
    log = write_run(tmp_path_factory.mktemp("job") / "run_0", blocks=1)
    run = json.loads(log.with_name("run.json").read_text())
    log.with_name("run.json").write_text(json.dumps({**run, key: value}))
    check_file(log)


@examples(60)
@given(
    st.sampled_from(
        ["tracked_stats", "block_start", "suite_condition", "suite_continued", "run_start"]
    ),
    VALUES,
    VALUES,
)
def test_no_content_of_a_line_raises(tmp_path_factory, key, value, step):
    log = write_run(tmp_path_factory.mktemp("job") / "run_0", blocks=1)
    items = [
        {**item, "value": value, "metadata": {"step": step, "epoch_num": value}}
        if item["key"] == key
        else item
        for item in records(log)
    ]
    check_file(write_records(log, items))


@pytest.mark.parametrize(
    "settings",
    [
        {"max_epochs": 10**12, "stop": "epochs:1000000000000"},
        {"stop": "steps:1000000000000"},
        {"stop": "steps:x"},
        {"global_batch_size": 1},
        {"timing_warmup_steps": 10**12},
    ],
)
def test_settings_of_endless_runs_are_checked_quickly(tmp_path, settings):
    log = without_files(write_run(tmp_path / "job" / "run_0"))
    edit(log, lambda item: {**item, "value": {**item["value"], **settings}}, "suite_run")
    assert complaints(log)
