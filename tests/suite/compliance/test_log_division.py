"""A log that states the closed division is compared with the round's table and with itself.

No edited line passes. The tests of packages show that unedited logs of all six workloads pass.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.compliance.check_log import check_file
from suite.results.logs.reader import read
from tests.helpers import examples, json_values
from tests.suite.packaging.package_logs import derived, our_run, written

SAMPLES, HYPERPARAMETERS = "train_samples", "hyperparameters"
PARTS = ("model", HYPERPARAMETERS, "options")


def suite_run_value(name):
    """Return the value of `suite_run` of a closed run."""
    return next(record["value"] for record in written(name) if record["key"] == "suite_run")


def found(path):
    verdict = check_file(path)
    assert verdict.passed == (verdict.judged and not verdict.complaints)
    assert all(item.found and item.needed and item.do for item in verdict.complaints)
    return {item.key for item in verdict.complaints}


EDITS = [
    # workload, key of the log or setting in suite_run, its new value, key of the complaint
    ("resnet50", "cache_clear", False, "submission_division"),
    ("resnet50", SAMPLES, 1000, SAMPLES),
    ("gnmt", SAMPLES, 1000, SAMPLES),
    ("resnet50", "eval_samples", 1000, "eval_samples"),
    ("resnet50", "sgd_opt_momentum", 0.5, "sgd_opt_momentum"),
    ("maskrcnn", "opt_momentum", 0.5, "opt_momentum"),
    ("resnet50", "opt_label_smoothing", 0.2, "opt_label_smoothing"),
    ("transformer", "model_hp_label_smoothing", 0.2, "model_hp_label_smoothing"),
    ("resnet50", "sgd_opt_base_learning_rate", 0.0, "sgd_opt_base_learning_rate"),
    ("ncf", "opt_base_learning_rate", 0.0, "opt_base_learning_rate"),
    ("resnet50", "global_batch_size", 256, "global_batch_size"),
    ("ncf", "targets", {"hr_at_10": 0.5}, "submission_division"),
    ("resnet50", "targets", {"top1": 0.5}, "submission_division"),
    ("resnet50", "dataset", "imagenette", "submission_division"),
    ("resnet50", "precision", "int4", "submission_division"),
    ("resnet50", "data_fingerprint", 64 * "0", "submission_division"),
    ("ncf", "data_fingerprint", "", "submission_division"),
    ("gnmt", "data_fingerprint", None, "submission_division"),
    ("resnet50", "global_batch_size", 256, "global_batch_size"),
    ("resnet50", "profile", "demo", "submission_division"),
    ("resnet50", "mode", "forward", "submission_division"),
    ("resnet50", "hyperparameter_set", "mine", "submission_division"),
    ("resnet50", "deviations", ["decode scaled, not exact"], "submission_division"),
    (
        "resnet50",
        "environment_variables",
        {"XLA_FLAGS": "--xla_cpu_enable_fast_math"},
        "submission_division",
    ),
    ("resnet50", "workload", "chess", "suite_run"),
    ("resnet50", "devices", None, "suite_run"),
    ("resnet50", "repeated_share", 0.5, "submission_division"),
    ("resnet50", "options", {"decode": "scaled"}, "submission_division"),
    (
        "ssd",
        "options",
        {"backbone": {"file": "mine.pth", "sha256": 64 * "a"}},
        "submission_division",
    ),
    ("resnet50", "model", {"area_minimum": 0.5}, "submission_division"),
    ("transformer", "model", {"layers": 2}, "model_hp_num_layers"),
    ("resnet50", HYPERPARAMETERS, {"momentum": 0.5}, "submission_division"),
    ("resnet50", HYPERPARAMETERS, {"label_smoothing": 0.2}, "submission_division"),
    ("resnet50", HYPERPARAMETERS, {"learning_rate": 0.0}, "submission_division"),
]


@pytest.mark.parametrize(
    ("name", "key", "value", "complained"), EDITS, ids=lambda part: json.dumps(part)[:40]
)
def test_one_edited_line_fails(tmp_path, name, key, value, complained):
    run = suite_run_value(name)
    if key in run:
        value = {**run[key], **value} if key in PARTS else value
        path = our_run(tmp_path / "job", 0, name, suite_run={key: value})
    else:
        path = our_run(tmp_path / "job", 0, name, **{key: value})
    assert complained in found(path)


def test_an_open_log_edited_to_closed_fails_with_its_deviation(tmp_path):
    changed = {**suite_run_value("ncf")[HYPERPARAMETERS], "epsilon": 1e-6}
    path = our_run(tmp_path / "job", 0, suite_run={HYPERPARAMETERS: changed}, opt_adam_epsilon=1e-6)
    (complaint,) = check_file(path).complaints
    assert complaint.found == "epsilon 1e-06, not 1e-08 or 1.45439e-07"
    derived(path, path, submission_division="open")
    assert found(path) == set()


def test_a_removed_line_that_the_writer_always_writes_is_reported(tmp_path):
    path = our_run(tmp_path / "job", 0, "resnet50")
    path.write_text(
        "".join(
            f"{line}\n"
            for line in path.read_text().splitlines()
            if "opt_label_smoothing" not in line
        )
    )
    assert found(path) == {"opt_label_smoothing"}


def test_a_second_line_with_uncleared_caches_contradicts_closed(tmp_path):
    path = our_run(tmp_path / "job", 0)
    line = next(line for line in path.read_text().splitlines() if '"cache_clear"' in line)
    path.write_text(path.read_text().replace(line, f"{line}\n{line.replace('true', 'false')}"))
    assert "submission_division" in found(path)


@pytest.mark.parametrize("has_run_json", [True, False])
def test_an_older_log_needs_its_run_json_to_be_closed(tmp_path, has_run_json):
    run = suite_run_value("resnet50")
    path = our_run(tmp_path / "job", 0, "resnet50", suite_run=dict.fromkeys(PARTS))
    if has_run_json:
        content = {"settings": {name: run[name] for name in PARTS}}
        path.with_name("run.json").write_text(json.dumps(content))
    assert found(path) == (set() if has_run_json else {"suite_run"})


@pytest.mark.parametrize(
    ("status", "complained"),
    [
        *((status, set()) for status in ("success", "running", None)),
        *((status, {"run_stop"}) for status in ("failed", "rank_died")),
    ],
)
def test_a_failure_in_status_json_fails_the_log(tmp_path, monkeypatch, status, complained):
    """Accept a run that ended before its controller was killed, unless status.json has an error."""
    monkeypatch.setattr("suite.results.logs.collect.holder_was_killed", lambda output: True)
    path = our_run(tmp_path / "job", 0)
    path.with_name("status.json").unlink()
    if status is not None:
        path.with_name("status.json").write_text(json.dumps({"status": status, "reason": "why"}))
    assert found(path) == ({"run_stop"} if status in ("failed", "rank_died") else set())
    assert check_file(path).judged


JSON = json_values(8)


@examples(60)
@given(st.sampled_from(sorted(suite_run_value("ssd"))), JSON)
def test_no_content_of_suite_run_raises(tmp_path_factory, key, value):
    found(our_run(tmp_path_factory.mktemp("job"), 0, "ssd", suite_run={key: value}))


@pytest.mark.parametrize(
    "value",
    [{"reasons": ["the data set changed"]}, {"reasons": []}, {}, "text", {"reasons": "text"}],
)
def test_a_reason_that_was_added_after_the_run_contradicts_closed(tmp_path, value):
    path = our_run(tmp_path / "job", 0)
    line = {"namespace": "", "time_ms": 1_900_000_000_000, "event_type": "POINT_IN_TIME",
            "key": "suite_open", "value": value, "metadata": {}}  # fmt: skip
    closed = path.read_text()
    path.write_text(f"{closed}:::MLLOG {json.dumps(line)}\n")
    assert read(path).division == "open"
    (complaint,) = check_file(path).complaints
    assert complaint.key == "submission_division"
    assert complaint.found in ("the data set changed", "a suite_open line without reasons")
    path.write_text(path.read_text().replace('"value": "closed"', '"value": "open"'))
    assert check_file(path).passed
