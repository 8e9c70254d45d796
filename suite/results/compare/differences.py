"""Lists what differs between two results, the most important first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from suite.results.compare.entries import Entry
from suite.results.score.measurement import Measurement
from suite.results.targets import BLEU_WORKLOADS
from workloads.api import LoggedSettings, field_names

_TARGET_TOLERANCE = 1e-6
"""Relative difference up to which two targets count as equal: float32 rounding."""


@dataclass(frozen=True)
class Difference:
    """A property that differs, with both values as text."""

    name: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Differences:
    """The properties that differ, and those that only one of the two results states."""

    known: tuple[Difference, ...]
    unknown: tuple[Difference, ...]
    """One of the two texts is `unknown`."""


UNKNOWN = "unknown"


def differences(ours: Entry, theirs: Entry) -> Differences:
    """The properties that differ between two results; those that neither states are left out."""
    differing = [
        Difference(name, text(ours) or UNKNOWN, text(theirs) or UNKNOWN)
        for name, text in {**_COMPARED_PROPERTIES, **_OTHER_SETTINGS}.items()
    ]
    differing = [item for item in differing if item.ours != item.theirs and _really_differs(item, ours, theirs)]
    differing += _hyperparameter_differences(ours.measurement, theirs.measurement)
    unknown = [item for item in differing if UNKNOWN in (item.ours, item.theirs)]
    known = tuple(item for item in differing if item not in unknown)
    return Differences(known, tuple(item for item in unknown if item.name not in _ONLY_IN_OUR_LOGS))


def same_target(ours: Measurement, theirs: Measurement) -> bool | None:
    """True if both were trained to the same quality; None if one of the targets is unknown.

    A single target is compared by its value (logs of the rounds name the metric differently), several by name.
    """
    first, second = targets_in_points(ours), targets_in_points(theirs)
    if not first or not second:
        return None
    if len(first) == len(second) == 1:
        return math.isclose(*first.values(), *second.values(), rel_tol=_TARGET_TOLERANCE)
    return first.keys() == second.keys() and all(
        math.isclose(first[name], second[name], rel_tol=_TARGET_TOLERANCE) for name in first
    )


def targets_in_points(item: Measurement) -> dict[str, float]:
    """Targets by metric; BLEU in points."""
    scale = 100.0 if item.workload in BLEU_WORKLOADS and all(0 < value < 1 for value in item.targets.values()) else 1.0
    return {name: value * scale for name, value in item.targets.items()}


def target_text(item: Measurement) -> str:
    """The target as text: `0.749`, `BBOX 0.377, SEGM 0.339`; empty if unknown."""
    targets = targets_in_points(item)
    if len(targets) == 1:
        return f"{next(iter(targets.values())):.6g}"
    return ", ".join(f"{name} {value:.6g}" for name, value in sorted(targets.items()))


def _really_differs(item: Difference, ours: Entry, theirs: Entry) -> bool:
    """False if the two texts are different spellings of the same value."""
    first, second = ours.measurement, theirs.measurement
    if item.name == "target":
        return same_target(first, second) is not True
    if item.name == "global batch":
        return first.batch_size_global != second.batch_size_global or in_tokens(first) != in_tokens(second)
    return True


def in_tokens(item: Measurement) -> bool:
    """True if batches are counted in tokens, False if in samples (sentence pairs, images …)."""
    return "token" in item.batch_unit


def _clock_text(entry: Entry) -> str:
    clock = entry.measurement.clock
    texts = {
        "v0.5": "v0.5 (set-up is timed)",
        "v0.7": "v0.6 and later (set-up is not timed)",
        "unknown": "",
    }
    return texts.get(clock, clock) or ("" if clock == "unknown" else _clock_of_round(entry.measurement.rules))


def _clock_of_round(rules: str) -> str:
    """The clock rule of a round, for logs of other programs, which do not name it."""
    if rules == "v0.5":
        return "v0.5 (set-up is timed)"
    return "v0.6 and later (set-up is not timed)" if rules.startswith("v") else ""


def _batch_text(entry: Entry) -> str:
    item = entry.measurement
    if item.batch_size_global is None:
        return ""
    unit = item.batch_unit if item.batch_unit not in ("", "samples") else ""
    return f"{item.batch_size_global:,} {unit}".strip()


def _framework_text(entry: Entry) -> str:
    return f"{entry.measurement.framework} {entry.framework_version}".strip()


def _waiting_text(entry: Entry) -> str:
    return "" if entry.group is None else entry.group.thread_waiting or "the runtime's default"


def _labels_text(entry: Entry) -> str:
    """Without that of a busy machine, which is a property of its own."""
    return ", ".join(label for label in entry.measurement.labels if label != entry.machine) or "none"


def _runs_text(entry: Entry) -> str:
    score = entry.measurement.score
    if score.method == "single figure":
        return "a single figure"
    text = str(score.runs_successful)
    if score.runs_required is not None and entry.measurement.to_target:
        text += f" of {score.runs_required}"
    return text + (f", {score.runs_failed} failed" if score.runs_failed else "")


_COMPARED_PROPERTIES: Mapping[str, Callable[[Entry], str]] = {
    "machine": lambda entry: entry.machine,
    "target": lambda entry: target_text(entry.measurement),
    "clock rule": _clock_text,
    "round": lambda entry: entry.measurement.rules,
    "data set": lambda entry: entry.dataset,
    "data fingerprint": lambda entry: entry.data_fingerprint[:12],
    "global batch": _batch_text,
    "batch rule": lambda entry: entry.measurement.batch_rule,
    "learning-rate scaling": lambda entry: entry.lr_scaling,
    "precision": lambda entry: entry.measurement.precision,
    "hardware": lambda entry: entry.measurement.hardware,
    "nodes": lambda entry: str(entry.measurement.nodes),
    "cores per device": lambda entry: "" if entry.cores_per_device is None else str(entry.cores_per_device),
    "thread waiting": _waiting_text,
    "framework": _framework_text,
    "runs": _runs_text,
    "profile": lambda entry: {"published": "reference"}.get(entry.measurement.profile, entry.measurement.profile),
    "labels": _labels_text,
    "stop rule": lambda entry: entry.stop,
    "mode": lambda entry: entry.mode,
    "division": lambda entry: entry.division,
    "leaves the closed rules": lambda entry: "; ".join(entry.deviations) or "no",
    "hyperparameter set": lambda entry: entry.hyperparameter_set,
}
"""Property to its text for one result, in the order in which differences are shown."""
_COVERED = (
    *("targets", "clock", "rules", "dataset", "batch_size_global", "batch_rule", "lr_scaling", "precision", "device"),
    *("nodes", "cores_per_device", "framework", "profile", "stop", "mode", "hyperparameter_set", "workload", "devices"),
)
"""Settings whose differences the properties above show, and what two results must share to be compared."""


def _setting_text(name: str) -> Callable[[Entry], str]:
    """The text of a setting for one result; empty where it is not known."""
    return lambda entry: "" if entry.group is None else str(getattr(entry.group, name))


_OTHER_SETTINGS: Mapping[str, Callable[[Entry], str]] = {
    name.replace("_", " "): _setting_text(name)
    for name in field_names(LoggedSettings, row=True)
    if name not in _COVERED
}
"""Every other setting that distinguishes rows."""
_ONLY_IN_OUR_LOGS = (
    "machine",
    "thread waiting",
    "data fingerprint",
    "batch rule",
    "learning-rate scaling",
    "cores per device",
    "hyperparameter set",
    *_OTHER_SETTINGS,
)
"""Properties that only our logs state: left out where one of the results does not have them."""


def _hyperparameter_differences(ours: Measurement, theirs: Measurement) -> Iterator[Difference]:
    """Differences of logged `opt_*` and `model_*` values, if both results logged any."""
    first, second = ours.hyperparameters, theirs.hyperparameters
    if first and second:
        for key in sorted(first.keys() | second.keys()):
            if first.get(key) != second.get(key):
                yield Difference(key, first.get(key, "not logged"), second.get(key, "not logged"))
