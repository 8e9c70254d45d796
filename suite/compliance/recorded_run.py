"""Compare a log with the files that the suite writes next to it.

The files are run.json, status.json, and metrics.jsonl. They repeat information from the log. If a
user edited only the log, the log contradicts the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from suite.common.run_end import EndCode, EndStatus
from suite.common.run_folder import STATUS_FILE
from suite.common.status_file import StatusFile
from suite.compliance.complaints import MISSING, Complaint
from suite.compliance.log_division import is_logged_closed
from suite.compliance.logged_workload import suite_run_value
from suite.results.logs.collect import end_next_to
from suite.results.logs.events import Event, number, whole_number
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import json_lines
from suite.results.text import clean
from suite.worker.log_header import machine_digest
from workloads.api import Json, Settings, field_names

METRICS_FILE = "metrics.jsonl"
ELAPSED_SECONDS = 1.0
"""Maximum difference in seconds between two times that a process on a busy machine measured in
direct succession.
"""
_RESTORE = (
    "give the log with the files that the suite wrote next to it, as they were written, or run"
    " again"
)
_IDENTITY = ("system", "device_name", "framework_version", "sample_unit", "batch_unit")
_SUBMISSION_KEYS = {
    "submission_benchmark": "benchmark",
    **{key: key for key in ("submission_org", "submission_status", "submission_platform")},
}
"""Maps a log key to the corresponding key of `identity` in run.json."""
_FILE_OPTIONS = ("backbone_weights",)
"""Options that the log does not contain, because they name a file on a specific machine."""
_TAKEN_AS_SET = frozenset(
    {
        *("profile", "workload", "framework", "devices", "nodes", "precision", "rules", "mode"),
        *("timing_warmup_steps", "update", "straggler_ms"),
    }
)
"""Settings that the planner copies unchanged from the command line, unless the setting is `auto` or
`all`.
"""
_OF_FIRST_ATTEMPT = frozenset(
    {
        *(
            "system",
            "machines",
            "suite_version",
            "git_commit",
            "study",
            "study_cell",
            "runs_required",
        ),
        *("submission_org", "submission_status", "submission_platform"),
    }
)
"""Names of values that may differ between the log and run.json of a resumed run.

The log contains the values of the first attempt. run.json contains the values of the last attempt.
"""
_NEVER_ABSENT = frozenset({"code_digest", "environment_variables", "deviations", "labels"})
"""Names of values that affect the division. If run.json contains such a value, the log must also
contain the value.
"""
_RESOLVED = ("auto", "all", "null", "")


@dataclass(frozen=True)
class Difference:
    """A value that the log and run.json both contain, as logged and as recorded in run.json."""

    key: str
    """Key of the log record that contains the value."""
    name: str
    """Name of the value."""
    logged: Json
    recorded: Json


def find_run_file_complaints(
    record: RunRecord, events: Sequence[Event], run_file: Mapping[str, Json]
) -> Iterator[Complaint]:
    """Yield a complaint for each contradiction between a log and the run.json next to it.

    `run_file` is the content of run.json, or an empty mapping if the file is missing.
    """
    is_resumed = bool(run_file.get("resume_from"))
    for fact in (*_facts(events, run_file), *_overrides(record, events, run_file)):
        if is_resumed and fact.name in _OF_FIRST_ATTEMPT:
            continue
        if not _is_equal(fact.logged, fact.recorded):
            line = next((event.line for event in events if event.key == fact.key), 0)
            found = f"{fact.name} {_text(fact.logged)}"
            yield Complaint(
                fact.key, line, found, f"{_text(fact.recorded)}, as in run.json", _RESTORE
            )
    yield from _resumptions(record, events, run_file)


def list_unverified(record: RunRecord, run_file: Mapping[str, Json]) -> list[str]:
    """Return the values that could not be compared because a file or key is missing."""
    if not run_file:
        return ["run.json is not next to the log"]
    parts = (
        "settings",
        "identity",
        "dataset_info",
        "division",
        "deviations",
        "cache_cleared",
        "resume_from",
        "overrides",
    )
    absent = [name for name in parts if name not in run_file]
    unverified = [f"run.json next to the log has no {', '.join(absent)}"] if absent else []
    if not any(json_lines(record.path.with_name(METRICS_FILE))):
        unverified.append(f"{METRICS_FILE} is not next to the log")
    if end_next_to(record.path) is None:
        unverified.append(f"{STATUS_FILE} is not next to the log")
    return unverified


def _facts(events: Sequence[Event], run_file: Mapping[str, Json]) -> Iterator[Difference]:
    """Yield all values that both the log and run.json contain."""
    logged = suite_run_value(events)
    first: dict[str, Json] = {}
    for event in events:
        first.setdefault(event.key, event.value)
    settings, identity, data, versions, git = (
        _object(run_file.get(name))
        for name in ("settings", "identity", "dataset_info", "versions", "git")
    )
    for name in field_names(Settings, logged=True):
        if name in settings and name in logged:
            yield Difference("suite_run", name, logged[name], settings[name])
    for name in ("model", "hyperparameters"):
        if name in settings and logged.get(name) is not None:
            yield Difference("suite_run", name, logged[name], settings[name])
    for name, value in _object(settings.get("options")).items():
        options = logged.get("options")
        # Paths inside a container differ from the paths on the machine.
        is_path = isinstance(value, str) and value.startswith("/")
        if isinstance(options, dict) and name not in _FILE_OPTIONS and not is_path:
            yield Difference("suite_run", f"options.{name}", options.get(name), value)
    for name in _IDENTITY:
        if name in identity and name in logged:
            yield Difference("suite_run", name, logged[name], identity[name])
    pairs: list[tuple[str, Mapping[str, Json], str]] = [
        *(
            (name, run_file, name)
            for name in (
                *("labels", "label_facts", "deviations", "deviation_facts"),
                *("run_index", "runs_required", "study", "study_cell"),
                "environment_variables",
            )
        ),
        ("data_fingerprint", data, "fingerprint"),
        ("suite_version", versions, "suite"),
        ("git_commit", git, "commit"),
    ]
    # A run is in the open division if its workers imported code that the controller did not expect.
    if is_logged_closed(events):
        pairs.append(("code_digest", run_file, "code_digest"))
    for name, source, source_name in pairs:
        recorded = source.get(source_name)
        is_removed = name in _NEVER_ABSENT and bool(recorded)
        if source_name in source and (name in logged or is_removed):
            yield Difference("suite_run", name, logged.get(name), recorded)
    hosts = run_file.get("hosts")
    if isinstance(hosts, list) and hosts and logged.get("code_digest"):
        names = [str(_object(host).get("name")) for host in hosts]
        yield Difference(
            "suite_run",
            "machines",
            logged.get("machines"),
            [machine_digest(name) for name in names],
        )
    keys: list[tuple[str, Mapping[str, Json], str]] = [
        ("submission_division", run_file, "division"),
        ("cache_clear", run_file, "cache_cleared"),
        ("seed", settings, "seed"),
        ("train_samples", data, "train_samples"),
        ("eval_samples", data, "evaluation_samples"),
        *((key, identity, name) for key, name in _SUBMISSION_KEYS.items()),
    ]
    for key, source, source_name in keys:
        if source_name in source and key in first:
            yield Difference(key, key, first[key], source[source_name])


def _overrides(
    record: RunRecord, events: Sequence[Event], run_file: Mapping[str, Json]
) -> Iterator[Difference]:
    """Yield the seed and the settings that run.json records as command-line overrides."""
    overrides = run_file.get("overrides")
    texts = (
        [text for text in overrides if isinstance(text, str)] if isinstance(overrides, list) else []
    )
    by_key = {
        key.lstrip("+"): value.strip("'\"")
        for key, _, value in (text.partition("=") for text in texts)
    }
    for item in fields(Settings):
        value = by_key.get(item.metadata.get("cli_key", ""))
        if item.name in _TAKEN_AS_SET and value is not None and value not in _RESOLVED:
            logged = getattr(record.settings, item.name)
            recorded: Json = whole_number(value) if isinstance(logged, int) else value
            yield Difference("suite_run", item.name, logged, recorded)
    for key, value in by_key.items():
        yield from _workload_override(record, events, key, value)
    seed = whole_number(by_key.get("seed"))
    if seed is None:
        return
    yield Difference("seed", "seed", record.seed, seed + (record.settings.run_index or 0))
    if is_logged_closed(events):
        yield Difference("submission_division", "division", "closed", f"open: seed={seed} was set")


def _workload_override(
    record: RunRecord, events: Sequence[Event], key: str, value: str
) -> Iterator[Difference]:
    """Yield the difference for an override of target, end, batch size, or hyperparameter.

    The override in run.json is compared with the setting in the log. A learning rate is only
    compared if the run does not scale the learning rate with the batch size.
    """
    settings, override = record.settings, number(value)
    if key == "stop" and value not in _RESOLVED:
        yield Difference("suite_run", "stop", settings.stop, value)
    if key == "batch" and ":" in value:
        yield Difference("suite_run", "batch_rule", settings.batch_rule, value)
    if key == "workload.target" and override is not None and len(settings.targets) == 1:
        yield Difference("suite_run", "target", next(iter(settings.targets.values())), override)
    group, _, name = key.partition(".")
    hyperparameters = _object(suite_run_value(events).get("hyperparameters"))
    logged = hyperparameters.get(name)
    is_scaled = "rate" in name and settings.lr_scaling != "none"
    if (
        group == "workload"
        and override is not None
        and type(logged) in (int, float)
        and not is_scaled
    ):
        yield Difference("suite_run", name, logged, override)


def _resumptions(
    record: RunRecord, events: Sequence[Event], run_file: Mapping[str, Json]
) -> Iterator[Complaint]:
    if "resume_from" not in run_file:
        return
    resumed = _object(run_file["resume_from"])
    line = next((event.line for event in events if event.key == "suite_continued"), 0)
    count = whole_number(resumed.get("resumptions")) if resumed else 0
    if count is None:  # An older version of the suite did not record the number of resumptions.
        count = max(1, record.resumptions)
    if record.resumptions != count:
        needed = f"{count}, as in run.json"
        yield Complaint("suite_continued", line, f"{record.resumptions} lines", needed, _RESTORE)


def find_status_complaints(record: RunRecord) -> Iterator[Complaint]:
    """Yield a complaint if the log contradicts status.json.

    The controller writes status.json when the run has ended. The controller detects failures that
    the log does not contain. The reasons for the open division in status.json must also be in the
    last line of the log.
    """
    yield from _open_reason_complaints(record)
    filed = end_next_to(record.path)
    if (
        record.end.status is not EndStatus.SUCCESS
        or filed is None
        or filed.code is EndCode.CONTROLLER_KILLED
    ):
        return
    if filed.status not in (EndStatus.SUCCESS, EndStatus.RUNNING):
        found = (
            "success, but status.json next to it has"
            f" {clean(f'{filed.status.value} {filed.detail}', 120)}"
        )
        yield Complaint(
            "run_stop",
            0,
            found,
            "the same end in both files",
            "see the reason in status.json, and run again",
        )


def _open_reason_complaints(record: RunRecord) -> Iterator[Complaint]:
    try:
        reasons = StatusFile.read(record.path.with_name(STATUS_FILE)).open_reasons
    except (OSError, ValueError):
        return
    for reason in reasons:
        if reason not in record.settings.deviations:
            needed = f"{clean(reason, 120)}, as in {STATUS_FILE}"
            yield Complaint("suite_open", 0, MISSING, needed, _RESTORE)


def find_metrics_complaints(record: RunRecord, events: Sequence[Event]) -> Iterator[Complaint]:
    """Yield a complaint about the first block that differs from metrics.jsonl.

    The comparison includes the measurements and the quality metrics of the block.
    """
    rows = list(json_lines(record.path.with_name(METRICS_FILE)))
    if not rows:
        return
    blocks = [event for event in events if event.key == "tracked_stats"]
    if len(rows) != len(blocks):
        line = blocks[-1].line if blocks else 0
        found = f"{len(blocks)} blocks"
        yield Complaint(
            "tracked_stats", line, found, f"{len(rows)}, as in {METRICS_FILE}", _RESTORE
        )
        return
    evaluations = {item.line: item for item in record.evaluations}
    previous_line = 0
    for row, block in zip(rows, blocks, strict=True):
        stats = _object(block.value)
        names = ("samples", "train_seconds", "evaluation_seconds", "loss")
        pairs = [(name, stats.get(name), row.get(name)) for name in names]
        pairs.append(("step", block.metadata.get("step"), row.get("step")))
        quality = _object(row.get("quality"))
        for line, evaluation in evaluations.items():
            if previous_line < line < block.line:
                pairs += [
                    (name, value, quality.get(name)) for name, value in evaluation.quality.items()
                ]
        previous_line = block.line
        yield from _elapsed_complaints(record, events, block, row)
        for name, logged, recorded in pairs:
            if not _is_equal(logged, recorded):
                found = f"{name} {_text(logged)}"
                yield Complaint(
                    "tracked_stats",
                    block.line,
                    found,
                    f"{_text(recorded)}, as in {METRICS_FILE}",
                    _RESTORE,
                )
                return


def _elapsed_complaints(
    record: RunRecord, events: Sequence[Event], block: Event, row: Mapping[str, Json]
) -> Iterator[Complaint]:
    """Compare the elapsed time at the end of a block with the time in metrics.jsonl.

    The log and metrics.jsonl use the same monotonic clock. The two times may differ, because the
    process may wait for a CPU core after `run_start`, and again before it writes the block's line
    to metrics.jsonl.
    """
    start = next((event for event in events if event.key == "run_start"), None)
    elapsed = number(row.get("elapsed_seconds"))
    if start is None or elapsed is None or record.resumptions:
        return
    logged = (block.time_ms - start.time_ms) / 1e3
    if abs(logged - elapsed) > ELAPSED_SECONDS:
        found = f"{logged:.3f} s after run_start"
        needed = f"{elapsed:.3f} s, as in {METRICS_FILE}"
        yield Complaint("tracked_stats", block.line, found, needed, _RESTORE)


def _is_equal(logged: Json, recorded: Json) -> bool:
    """Compare two JSON values. An integer equals a floating-point number of the same value."""
    if type(logged) in (int, float) and type(recorded) in (int, float):
        return bool(logged == recorded)
    if isinstance(logged, dict) and isinstance(recorded, dict):
        return logged.keys() == recorded.keys() and all(
            _is_equal(logged[name], recorded[name]) for name in logged
        )
    if isinstance(logged, (list, tuple)) and isinstance(recorded, (list, tuple)):
        pairs = zip(logged, recorded, strict=False)
        return len(logged) == len(recorded) and all(_is_equal(*pair) for pair in pairs)
    return bool(logged == recorded)


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return clean(json.dumps(value, ensure_ascii=False, default=str), 80)
