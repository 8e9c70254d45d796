"""Settings that differ between two compared results, and caveats of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from suite.common.labels import LabelKind
from suite.results.columns import Result
from suite.results.data_table import DataTable
from suite.results.experiment_key import HYPERPARAMETERS, differences, label, same, value_text
from suite.results.names import UNKNOWN_ROUND
from suite.results.scores import labels
from suite.results.settings_difference import distinct_labels
from suite.results.targets import same_targets
from suite.results.text import devices_text
from suite.results.views.convergence import run_keys
from suite.results.views.section import Section

_LABELS_OF_NOTICE = (LabelKind.DEMO, LabelKind.SYNTHETIC)
"""Kinds of labels that are omitted, because the notice above the comparison contains them."""


def most_similar(result: Result, candidates: Sequence[Result], side: str) -> tuple[Result, str]:
    """Return the candidate with the fewest differences from a result, and a note.

    The note explains the choice if no candidate belongs to the same experiment as the result.
    """

    def distance(candidate: Result) -> tuple[Any, ...]:
        target = {True: 0, None: 1, False: 2}[
            same_targets(result.targets, candidate.targets, result.workload)
        ]
        settings = ("to_target", "mode", "dataset", "framework", "system", "nodes")
        differ = [getattr(result, name) != getattr(candidate, name) for name in settings]
        return (
            not same(result, candidate),
            *differ[:2],
            target,
            *differ[2:],
            len(differences(result, candidate)),
        )

    chosen = min(candidates, key=distance)
    if len(candidates) < 2 or same(result, chosen):
        return chosen, ""
    ties = sum(distance(candidate) == distance(chosen) for candidate in candidates)
    why = (
        "which has the fewest differences"
        if ties == 1
        else f"the first of {ties} with equally few differences"
    )
    texts = dict(
        zip((candidate.key for candidate in candidates), distinct_labels(candidates), strict=True)
    )
    listed = (
        f"{side} has {len(candidates)} results on {devices_text(result.devices or 0)}:"
        f" {'; '.join(texts.values())}"
    )
    differ = ", ".join(label(name) for name in [*differences(result, chosen)][:5])
    note = (
        f"No result has the same settings. The comparison is with {texts[chosen.key]}, {why}"
        f" ({differ})."
    )
    return chosen, f"{listed}. {note}"


class _Difference(NamedTuple):
    """A setting that differs between two results, as text."""

    name: str
    ours: str
    theirs: str


class _Differences(NamedTuple):
    """Settings that differ between two results."""

    of_both: list[_Difference]
    """Differing settings that both results have."""
    only_ours: list[str]
    """Settings that only the first result has, such as `precision fp32`."""
    only_theirs: list[str]


def find_differences(ours: Result, theirs: Result) -> _Differences:
    """Return the settings that differ between two results.

    If one of the machines was busy, this difference comes first.
    """
    # Runs of this suite log all of their settings.
    of_suite = bool(ours.profile and theirs.profile)
    pairs: dict[str, Any] = {"machine": (ours.machine_condition, theirs.machine_condition)}
    pairs |= differences(ours, theirs)
    ignored = set()
    if not of_suite:
        pairs["rules"] = (ours.rules, theirs.rules)
        ignored |= {"round", "submitter", "folder", "profile"}
    if same_targets(ours.targets, theirs.targets, ours.workload):
        ignored.add("targets")
    if not (ours.hyperparameters and theirs.hyperparameters):
        ignored.add(HYPERPARAMETERS)
    found = _Differences([], [], [])
    for name, (first, second) in pairs.items():
        if first == second or name.partition(".")[0] in ignored:
            continue
        texts = value_text(name, first, ours), value_text(name, second, theirs)
        may_be_unknown = not of_suite or name == "machine"
        if may_be_unknown and _is_unknown(first) and _is_unknown(second):
            continue
        if may_be_unknown and _is_unknown(second):
            found.only_ours.append(f"{label(name)} {texts[0]}")
        elif may_be_unknown and _is_unknown(first):
            found.only_theirs.append(f"{label(name)} {texts[1]}")
        else:
            found.of_both.append(_Difference(label(name), *texts))
    return found


def _is_unknown(value: Any) -> bool:
    return value is None or value in ("", (), [], {}, "unknown", UNKNOWN_ROUND)


def settings_section(ours: Result, theirs: Result, names: tuple[str, str]) -> Section:
    """Return a table of differing settings.

    The section also lists the settings that only one of the results has.
    """
    found = find_differences(ours, theirs)
    partial = found.only_ours or found.only_theirs
    above = "Settings that differ:"
    if not found.of_both:
        above = "No setting differs that both sides have." if partial else "No setting differs."
    table = DataTable.from_rows(
        {"setting": name, names[0]: first, names[1]: second}
        for name, first, second in found.of_both
    )
    below = []
    for name, settings in zip(names, (found.only_ours, found.only_theirs), strict=True):
        if settings:
            below.append(f"Known for {name} only: {'; '.join(settings)}.")
    return Section("", (above,), table, below=tuple(below))


def comparison_caveats(ours: Result, theirs: Result, names: tuple[str, str]) -> Iterator[str]:
    """Yield the caveats of a comparison.

    The caveats concern unknown targets and rounds, identical runs, labels, and notes on the scores.
    """
    sides = dict(zip(names, (ours, theirs), strict=True))
    if (
        ours.to_target
        and theirs.to_target
        and same_targets(ours.targets, theirs.targets, ours.workload) is None
    ):
        without = names[1] if ours.targets else names[0]
        yield (
            f"The target of {without} is unknown. Ratios of times and epochs hold only if it is the"
            " same target."
        )
    unknown = [name for name, side in sides.items() if side.rules == UNKNOWN_ROUND]
    if unknown:
        yield f"The round of {' and of '.join(unknown)} is unknown, so the rules may differ."
    if run_keys(ours.runs) & run_keys(theirs.runs):
        yield "The same runs are on both sides."
    if "tpu" in (ours.device_name + theirs.device_name).lower() and ours.rules != theirs.rules:
        yield "TPUs are counted in cores in v0.5, and in chips (two cores each) from v0.6 on."
    if ours.to_target and theirs.to_target and (ours.parts is None) != (theirs.parts is None):
        yield (
            "The logs of only one side separate setup, so time per epoch includes setup on both"
            " sides."
        )
    shared = [text for text in labels(ours) if text in labels(theirs)]
    of_notice = {found.text for found in ours.parsed_labels if found.kind in _LABELS_OF_NOTICE}
    named = [text for text in shared if text not in of_notice]
    if named:
        yield f"Labels of both sides: {', '.join(named)}."
    for name, side in sides.items():
        notes = [
            text
            for text in (*labels(side), *side.score_notes, side.note)
            if text and text not in shared
        ]
        if notes:
            yield f"{name}: {'; '.join(notes)}."
