"""What differs between two measurements, the most important first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from suite.results.compare.entries import Entry
from suite.results.score.measurement import Measurement

BLEU_WORKLOADS = ("gnmt", "transformer")
"""Some logs hold BLEU as a fraction, some in points."""
_SAME_TARGET = 1e-6
"""Relative difference of two targets that are one: float32 rounding."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same; both values as text."""

    name: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Differences:
    """All that differs, and what cannot be told because one side does not say it."""

    known: tuple[Difference, ...]
    unknown: tuple[Difference, ...]
    """One of the two texts is `unknown`."""


UNKNOWN = "unknown"


def differences(ours: Entry, theirs: Entry) -> Differences:
    """Everything that is not the same on both sides. What both sides leave unsaid is left out."""
    found = [Difference(name, text(ours) or UNKNOWN, text(theirs) or UNKNOWN) for name, text in _TEXTS.items()]
    found = [item for item in found if item.ours != item.theirs and _differs(item, ours, theirs)]
    found += _hyperparameters(ours.measurement, theirs.measurement)
    unsaid = [item for item in found if UNKNOWN in (item.ours, item.theirs)]
    known = tuple(item for item in found if item not in unsaid)
    return Differences(known, tuple(item for item in unsaid if item.name not in _OF_OUR_LOGS))


def same_target(ours: Measurement, theirs: Measurement) -> bool | None:
    """True if both were trained to the same quality; None if one side does not say to which.

    A single target is compared by its value (logs of the rounds name the metric differently), several by name.
    """
    one, other = points(ours), points(theirs)
    if not one or not other:
        return None
    if len(one) == len(other) == 1:
        return math.isclose(*one.values(), *other.values(), rel_tol=_SAME_TARGET)
    return one.keys() == other.keys() and all(
        math.isclose(one[name], other[name], rel_tol=_SAME_TARGET) for name in one
    )


def points(item: Measurement) -> dict[str, float]:
    """Targets by metric; BLEU in points."""
    scale = 100.0 if item.workload in BLEU_WORKLOADS and all(0 < value < 1 for value in item.targets.values()) else 1.0
    return {name: value * scale for name, value in item.targets.items()}


def target_text(item: Measurement) -> str:
    """`0.749`, `BBOX 0.377, SEGM 0.339`; empty if unknown."""
    targets = points(item)
    if len(targets) == 1:
        return f"{next(iter(targets.values())):.6g}"
    return ", ".join(f"{name} {value:.6g}" for name, value in sorted(targets.items()))


def _differs(item: Difference, ours: Entry, theirs: Entry) -> bool:
    """False for texts that say the same in other words."""
    one, other = ours.measurement, theirs.measurement
    if item.name == "target":
        return same_target(one, other) is not True
    if item.name == "global batch":
        return one.batch_size_global != other.batch_size_global or in_tokens(one) != in_tokens(other)
    return True


def in_tokens(item: Measurement) -> bool:
    """True if batches are counted in tokens, False if in samples (sentence pairs, images …)."""
    return "token" in item.batch_unit


def _clock(entry: Entry) -> str:
    clock = entry.measurement.clock
    words = {
        "v0.5": "v0.5 (set-up is timed)",
        "v0.7": "v0.6 and later (set-up is not timed)",
        "unknown": "",
    }
    return words.get(clock, clock) or ("" if clock == "unknown" else _clock_of_round(entry.measurement.rules))


def _clock_of_round(rules: str) -> str:
    """Logs of other programs name no clock; their round does."""
    if rules == "v0.5":
        return "v0.5 (set-up is timed)"
    return "v0.6 and later (set-up is not timed)" if rules.startswith("v") else ""


def _batch(entry: Entry) -> str:
    item = entry.measurement
    if item.batch_size_global is None:
        return ""
    unit = item.batch_unit if item.batch_unit not in ("", "samples") else ""
    return f"{item.batch_size_global:,} {unit}".strip()


def _framework(entry: Entry) -> str:
    return f"{entry.measurement.framework} {entry.framework_version}".strip()


def _runs(entry: Entry) -> str:
    score = entry.measurement.score
    if score.method == "single figure":
        return "a single figure"
    text = str(score.runs_successful)
    if score.runs_required is not None and entry.measurement.to_target:
        text += f" of {score.runs_required}"
    return text + (f", {score.runs_failed} failed" if score.runs_failed else "")


_TEXTS: Mapping[str, Callable[[Entry], str]] = {
    "target": lambda entry: target_text(entry.measurement),
    "clock rule": _clock,
    "round": lambda entry: entry.measurement.rules,
    "data set": lambda entry: entry.dataset,
    "data fingerprint": lambda entry: entry.data_fingerprint[:12],
    "global batch": _batch,
    "batch rule": lambda entry: entry.measurement.batch_rule,
    "learning-rate scaling": lambda entry: entry.lr_scaling,
    "precision": lambda entry: entry.measurement.precision,
    "hardware": lambda entry: entry.measurement.hardware,
    "cores per device": lambda entry: "" if entry.cores_per_device is None else str(entry.cores_per_device),
    "framework": _framework,
    "runs": _runs,
    "profile": lambda entry: {"published": "reference"}.get(entry.measurement.profile, entry.measurement.profile),
    "labels": lambda entry: ", ".join(entry.measurement.labels) or "none",
    "stop rule": lambda entry: entry.stop,
    "mode": lambda entry: entry.mode,
    "division": lambda entry: entry.division,
    "leaves the closed rules": lambda entry: "; ".join(entry.deviations) or "no",
    "hyperparameter set": lambda entry: entry.hyperparameter_set,
}
"""Name of a difference to its text on one side, in the order in which they are shown."""
_OF_OUR_LOGS = ("data fingerprint", "batch rule", "learning-rate scaling", "cores per device", "hyperparameter set")
"""Said by our logs alone: not worth a word where one side does not say them."""


def _hyperparameters(ours: Measurement, theirs: Measurement) -> Iterator[Difference]:
    """Logged `opt_*` and `model_*` values, where both sides logged any."""
    one, other = ours.hyperparameters, theirs.hyperparameters
    if one and other:
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                yield Difference(key, one.get(key, "not logged"), other.get(key, "not logged"))
