"""What a log of this suite claims, held against the suite's own table of rules, against itself and against what lies beside it.

The checker of mlperf-logging believes `submission_division` and looks at no more than its rule files name.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from suite.common import registry
from suite.compliance.complaints import MISSING, Complaint
from suite.results.logs.collect import KILLED, RUNNING, filed_status
from suite.results.logs.events import Event, number
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import json_object
from suite.results.text import clean
from workloads.api import Json, Settings, Workload, field_names

_AGAIN = "a log is never edited: run again, and give the log as it was written"
_PARTS = ("model", "hyperparameters", "options")
_SHARES = ("repeated_share", "left_out_share")
"""Circumstances that follow from the lengths and shapes of the samples, so that the log says them."""
_BY_ANY_NAME = ("backbone_weights",)
"""Keys that hold a path or a digest of a file: its contents are judged by the notes of the data."""


def complaints(record: RunRecord, events: Sequence[Event]) -> list[Complaint]:
    """What a log of this suite says that cannot be, or that its division does not allow. No content of the log raises."""
    if not record.settings.profile:
        return []
    found: list[Complaint] = []
    try:
        found += [*_status(record), *_batches(record, events), *_opened_later(events)]
        if record.division == "closed":
            found += _closed(record, events)
    except Exception as error:  # settings that no run has, in whatever way
        problem = f"settings that no run can have ({type(error).__name__}: {clean(str(error), 120)})"
        found.append(Complaint("suite_run", _line(events, "suite_run"), problem, "those of a run", _AGAIN))
    return found


def _status(record: RunRecord) -> Iterator[Complaint]:
    """`status.json` is written by the controller when the run has ended: it knows of failures that a log does not hold."""
    filed = filed_status(record.path.with_name("status.json"))
    if record.status == "success" and filed != KILLED and filed[0] not in ("", "success", RUNNING):
        found = f"success, but status.json beside it says {clean(' '.join(filed), 120)}"
        yield Complaint("run_stop", 0, found, "one end of a run", "see why in status.json; run again")


def _opened_later(events: Sequence[Event]) -> Iterator[Complaint]:
    """Complaints about a log that says closed, to which the controller added a reason for open when the run had ended."""
    closed = next((event for event in events if event.key == "submission_division" and event.value == "closed"), None)
    for event in events:
        if event.key == "suite_open" and closed is not None:
            reasons = event.value.get("reasons") if isinstance(event.value, dict) else None
            text = "; ".join(map(str, reasons)) if isinstance(reasons, list) else "a line without reasons"
            do = "the run is open: run again"
            yield Complaint("submission_division", closed.line, f"closed, but {clean(text, 200)}", "open", do)


def _batches(record: RunRecord, events: Sequence[Event]) -> Iterator[Complaint]:
    """The batch, which stands in the log twice."""
    size = record.settings.batch_size_global
    for event in events:
        if event.key == "global_batch_size" and event.value != size:
            yield Complaint(
                "global_batch_size", event.line, clean(str(event.value), 40), f"{size}, as in suite_run", _AGAIN
            )


def _closed(record: RunRecord, events: Sequence[Event]) -> Iterator[Complaint]:
    """What makes the run open, and keys of the log that are not those of its settings."""
    line = _line(events, "submission_division")
    decided = _decided(record, events)
    if decided is None:
        do = "an older version of the suite wrote it: check it beside its run.json, or run again"
        yield Complaint("suite_run", line, "no hyperparameters", "those of the run, for division closed", do)
        return
    of_log = {name: getattr(record.settings, name) for name in field_names(Settings, logged=True)}
    judged = _as_judged(json.dumps(of_log, default=str), json.dumps(decided, sort_keys=True))
    cleared = all(event.value is True for event in events if event.key == "cache_clear")
    reasons = (*record.settings.deviations, *judged.reasons, *(() if cleared else ("cache_clear false, not true",)))
    needed = f"what rules={clean(record.settings.rules, 20)} allows in division closed (docs/rules.md)"
    for reason in dict.fromkeys(reasons):
        do = "only an open run may have that: run again without it"
        yield Complaint("submission_division", line, clean(reason, 200), needed, do)
    yield from _keys(judged, events)


def _keys(judged: Judged, events: Sequence[Event]) -> Iterator[Complaint]:
    for key, value in judged.keys.items():
        needed = f"{_text(value)}, by the settings of the run"
        of_key = [event for event in events if event.key == key]
        if not of_key:
            yield Complaint(key, 0, MISSING, needed, _AGAIN)
        others = (event for event in of_key if event.value != value)
        yield from (Complaint(key, event.line, _text(event.value), needed, _AGAIN) for event in others)
    for event in events:
        count = number(event.value) if event.key == "train_samples" and judged.about else None
        if count is not None and not judged.about / 2 <= count <= judged.about * 2:
            needed = f"about {judged.about}, the published data without samples that are too long"
            yield Complaint("train_samples", event.line, _text(event.value), needed, _AGAIN)


def _decided(record: RunRecord, events: Sequence[Event]) -> Mapping[str, Json] | None:
    """Model, hyperparameters, options and shares of the run, from `suite_run` or, where an older one lacks them, `run.json`."""
    logged = next((event.value for event in events if event.key == "suite_run" and isinstance(event.value, dict)), {})
    of_run = json_object(record.path.with_name("run.json")).get("settings")
    beside = {name: of_run.get(name) for name in _PARTS} if isinstance(of_run, dict) else {}
    found = {**beside, **{name: logged[name] for name in (*_PARTS, *_SHARES) if logged.get(name) is not None}}
    return found if all(isinstance(found.get(name), dict) for name in _PARTS) else None


class Judged(NamedTuple):
    """What follows from the settings of a run."""

    reasons: tuple[str, ...]
    """What makes it open."""
    keys: Mapping[str, Json]
    """Key to the value that its log must have."""
    about: int
    """Training samples, where those of the published data that are too long are left out; 0: `keys` has their number."""


@functools.lru_cache(maxsize=256)
def _as_judged(logged: str, decided: str) -> Judged:
    """`logged`: the settings in the log, `decided`: what `_decided` gives, as JSON."""
    of_log, of_run = json.loads(logged), json.loads(decided)
    workload: type[Workload] = registry.load_workload(of_log["workload"])
    settings = Settings(**of_log, **{name: of_run[name] for name in _PARTS})
    facts = workload.read_facts(settings)  # without a folder of data: the published counts
    run = workload(settings, facts)
    shares = {name: of_run[name] for name in _SHARES if name in of_run}
    ends = {name: value for name, value in run.circumstances().items() if name not in _SHARES}
    of_set = settings.hyperparameter_set
    reasons = [] if of_set in workload.named_sets() else [f"hyperparameter set {clean(of_set, 60)}, not the suite's"]
    reasons += [*workload.deviations(settings), *workload.deviations(settings, **ends, **shares), *facts.notes]
    counts = {"train_samples": facts.train_samples, "eval_samples": facts.evaluation_samples}
    of_lengths = {*_BY_ANY_NAME, *workload.keys_of_lengths}
    keys = {key: value for key, value in {**run.log_keys(), **counts}.items() if key not in of_lengths}
    about = facts.train_samples if "train_samples" in of_lengths else 0
    return Judged(tuple(reasons), json.loads(json.dumps(keys)), about)


def _line(events: Sequence[Event], key: str) -> int:
    return next((event.line for event in events if event.key == key), 0)


def _text(value: Json) -> str:
    return clean(json.dumps(value, ensure_ascii=False), 80)
