"""`suite compare`: ratios of two sets of results, their differences, and refusals of meaningless ratios (docs/comparing.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from suite.common.labels import LabelKind
from suite.common.registry import not_allowed
from suite.launch.known import title_of
from suite.results.columns import Result, RunRow, epochs_trained
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.identity import (
    EPOCHS,
    HYPERPARAMETERS,
    THROUGHPUT,
    TIME,
    differences,
    label,
    refusals,
    same,
    value_text,
)
from suite.results.names import UNKNOWN_ROUND, short_title, workload_name
from suite.results.ratios import SIGNIFICANCE, permutation_test, ratio
from suite.results.scores import failures, find_published, labels, results_of
from suite.results.settings_difference import distinct_labels
from suite.results.table import read_runs
from suite.results.targets import same_targets
from suite.results.text import clean, devices_text
from suite.results.views.convergence import convergence, run_keys
from suite.results.views.section import DEVICES_NOT_KNOWN, NOT_VERIFIED, Section, View, ViewKind
from suite.results.views.speedup_text import describe
from suite.results.views.verdict import QUANTITIES, Line, figure_in, verdict

RATIO, REFUSED, CONVERGENCE = "ratio", "refused", "convergence"
"""Values of the column `kind`."""
_COLUMNS = (
    "kind", "workload", "devices", "ours", "theirs", "quantity", "unit", "ours_value", "theirs_value", "ratio",
    "ratio_low", "ratio_high", "p", "runs_ours", "runs_theirs", "failed_ours", "failed_theirs",
    "verdict", "differences",
)  # fmt: skip
_NO_RELATION = {
    "demo": "a demo has a small model and its own target, so it cannot be compared with MLPerf results",
    "synthetic": "runs on synthetic data measure throughput only and cannot be compared with MLPerf results",
}
"""Reasons why results of a profile cannot be compared with results of other profiles."""


@dataclass(frozen=True)
class Side:
    """A set of results to compare."""

    name: str
    """Name in sentences and columns: `A`, `ours`, `published`."""
    title: str
    """Folders of the logs, or name of the published results."""
    results: tuple[Result, ...]
    left_out: tuple[str, ...] = ()
    published: bool = False

    def named(self, result: Result) -> str:
        """Return a name that is different for each result of the side: `PyTorch on dgx1, learning rate 0.002`."""
        if self.published:
            return _name(result)
        alike = [other for other in self.results if _where(other) == _where(result)]
        labels_by_key = dict(zip((other.key for other in alike), distinct_labels(alike), strict=True))
        return ", ".join(filter(None, (_name(result), labels_by_key.get(result.key))))

    def described(self, result: Result) -> str:
        """Return workload, devices, and name of a result: `NCF on 2 devices (PyTorch on dgx1, learning rate 0.002)`."""
        return f"{_where(result)} ({self.named(result)})"


def _name(result: Result) -> str:
    """Return the name of a result: `v0.5/NVIDIA/dgx1_…` if it is published, else `PyTorch on dgx1`."""
    if result.published:
        return clean(result.run, 100)
    return clean(f"{title_of(result.framework)} on {result.system}" if result.framework else result.system, 100)


def _where(result: Result) -> str:
    return f"{short_title(clean(result.workload, 40))} on {devices_text(result.devices or 0, result.nodes)}"


def published_side(name: str, side: str = "published", workloads: Sequence[str] = ()) -> Side:
    """Return the published results of a name.

    Args:
        name: ROUND, ROUND/SUBMITTER, or ROUND/SUBMITTER/SYSTEM.
        side: Name of the side.
        workloads: Only these workloads; empty: all.

    Raises:
        ValueError: No published results have the name.
    """
    wanted = [workload_name(workload) for workload in workloads]
    published = tuple(result for result in find_published(name) if not wanted or result.workload in wanted)
    count = f"{len(published)} published result{'' if len(published) == 1 else 's'}"
    return Side(side, f"{name.strip('/')} ({count})", published, published=True)


def logs_side(
    paths: Sequence[Path], name: str, profile: str | None = None, workloads: Sequence[str] = (), argument: str = "LOGS"
) -> Side:
    """Return the results of the runs below `paths`.

    Args:
        paths: Logs, or folders with logs.
        name: Name of the side.
        profile: Only runs of this profile.
        workloads: Only these workloads; empty: all.
        argument: Name of the argument in error messages.

    Raises:
        ValueError: A path has no logs, no run has the workload or profile, there are several profiles, or no run succeeded.
    """
    title, runs = ", ".join(map(str, paths)), read_runs(list(paths))
    for setting, wanted in (("workload", [*map(workload_name, workloads)]), ("profile", [profile] if profile else [])):
        known = {clean(getattr(run, setting), 40) for run in runs} - {""}
        for value in wanted:
            if value not in known:
                raise not_allowed(f"{argument} {title}: --{setting}", value, known)
        if wanted:
            runs = [run for run in runs if getattr(run, setting) in wanted]
    if any(run.has_label(LabelKind.NULL_DEVICE) for run in runs):
        raise ValueError(
            f"{argument} {title}: these are runs of the {LabelKind.NULL_DEVICE.value}, which computes nothing, "
            "so they cannot be compared"
        )
    with_runs = [result for result in results_of(runs) if result.runs]
    profiles = sorted({clean(result.profile, 40) or "published" for result in with_runs})
    if len(profiles) > 1:
        raise ValueError(
            f"{argument} {title}: the runs have several profiles ({', '.join(profiles)}), which cannot be compared with each "
            f"other; set --profile {profiles[0]}, or give folders of a single profile"
        )
    originals = [run for run in runs if not run.copy_of]
    counts = {
        "have not ended": sum(run.running for run in originals),
        "did not succeed": sum(not (run.succeeded or run.running) for run in originals),
        "are copies of other logs": len(runs) - len(originals),
    }
    left_out = [
        f"{title}: {count} of {len(runs)} runs {text} (suite report lists them)"
        for text, count in counts.items()
        if count
    ]
    if not with_runs:
        raise ValueError(f"{argument} {'; '.join(left_out)}: no run succeeded, so there is nothing to compare")
    why = "the logs do not contain the number of devices; put a system description (system.json) into the folder above them"
    left_out += [f"{_name(result)}: {why}" for result in with_runs if not result.devices]
    return Side(name, title, tuple(result for result in with_runs if result.devices), tuple(left_out))


class _Refused(NamedTuple):
    """A result, or a quantity of a pair of results, that is not compared."""

    subject: str
    reason: str


@dataclass(frozen=True)
class _Match:
    """A result of ours with the result that it is compared with."""

    ours: Result
    theirs: Result | None
    """None: there is no result that it can be compared with."""
    note: str
    """How `theirs` was chosen among several candidates, or why there is none."""


def compare(ours: Side, theirs: Side | None, published: Sequence[Result]) -> View:
    """Compare each result of one side with the most similar result of the other side.

    Args:
        ours: The first side.
        theirs: The second side; None: only the convergence of `ours` is judged.
        published: Published results, to judge the number of epochs to target.
    """
    sections: list[Section] = []
    rows: list[Line] = []
    refused: list[_Refused] = []
    compared: set[str] = set()
    above, left_out = [NOT_VERIFIED], [*ours.left_out]
    if theirs is not None:
        above.append(f"{ours.name} is {clean(ours.title, 400)}. {theirs.name} is {clean(theirs.title, 400)}.")
        above.append(f"A ratio above 1 means that {ours.name} is better: less time, fewer epochs, or more samples/s.")
        for match in _matches(ours, theirs):
            lines = list(_lines(match.ours, match.theirs, (ours.name, theirs.name))) if match.theirs is not None else []
            if match.theirs is not None:
                compared.add(match.theirs.key)
            if match.theirs is not None and any(line["kind"] == RATIO for line in lines):
                rows += lines
                sections += _sections(match.ours, match.theirs, match.note, lines, (ours, theirs))
                continue
            subject = ours.described(match.ours)
            if match.theirs is not None:
                subject += f" with {theirs.described(match.theirs)}"
            reason = "; ".join(dict.fromkeys(line["verdict"] for line in lines)) or match.note
            refused.append(_Refused(subject, reason))
            rows.append({"kind": REFUSED, "ours": subject, "verdict": reason})
        left_out += theirs.left_out
        if not theirs.published:
            alone = [result for result in theirs.results if result.key not in compared]
            left_out += [f"only in {theirs.name}: {theirs.described(result)}" for result in alone]
    sides = [ours] if theirs is None or theirs.published else [ours, theirs]
    last, judged = _convergence(sides, published)
    sections += [Section("Not compared", below=_by_reason(refused)), Section("Left out", below=tuple(left_out)), last]
    data = DataTable.from_rows([dict.fromkeys(_COLUMNS) | row for row in (*rows, *judged)], _COLUMNS)
    shown = tuple(section for section in sections if section.below or section.above or section.table)
    if theirs is None:
        return View("Convergence", shown, data, tuple(above), kind=ViewKind.CONVERGENCE)
    return View("Comparison", shown, data, tuple(above), kind=ViewKind.COMPARISON)


def comparable(view: View) -> bool:
    """Check whether any result was compared with the other side, or with published runs if there is no other side."""
    kind = CONVERGENCE if view.kind is ViewKind.CONVERGENCE else RATIO
    return any(row["kind"] == kind and row["theirs_value"] is not None for row in view.data)


def _matches(ours: Side, theirs: Side) -> Iterator[_Match]:
    """Yield each result of `ours` with the most similar result of `theirs`; of published results one for each system."""
    for result in ours.results:
        same_workload = [other for other in theirs.results if other.workload == result.workload]
        kind = _NO_RELATION.get(result.profile)
        related = [other for other in same_workload if _NO_RELATION.get(other.profile) == kind]
        alike = [other for other in related if result.devices and other.devices == result.devices]
        for run in dict.fromkeys(other.run if theirs.published else "" for other in alike):
            candidates = [other for other in alike if not run or other.run == run]
            yield _Match(result, *_most_similar(result, candidates, theirs.name))
        if not alike:
            yield _Match(result, None, clean(_why_unmatched(result, theirs, same_workload, related), 300))


def _why_unmatched(result: Result, theirs: Side, same_workload: Sequence[Result], related: Sequence[Result]) -> str:
    """Return why a result has no match, and what can be compared instead."""
    if same_workload and not related:
        return _NO_RELATION.get(result.profile) or _NO_RELATION[same_workload[0].profile]
    if related and not (result.devices and any(other.devices for other in related)):
        return DEVICES_NOT_KNOWN
    if related:
        counts = ", ".join(map(str, sorted({other.devices for other in related if other.devices})))
        return f"{theirs.name} has no result on {devices_text(result.devices or 0)}; compare on {counts} instead"
    workloads = ", ".join(sorted({other.workload for other in theirs.results})) or "none"
    return f"{theirs.name} has no result of {result.workload}; it has {workloads}"


def _most_similar(result: Result, candidates: Sequence[Result], side: str) -> tuple[Result, str]:
    """Return the candidate with the fewest differences, and a note on the choice if no candidate is the same experiment."""

    def distance(other: Result) -> tuple[Any, ...]:
        target = {True: 0, None: 1, False: 2}[same_targets(result.targets, other.targets, result.workload)]
        kinds = ("to_target", "mode", "dataset", "framework", "system", "nodes")
        differ = [getattr(result, name) != getattr(other, name) for name in kinds]
        return (not same(result, other), *differ[:2], target, *differ[2:], len(differences(result, other)))

    chosen = min(candidates, key=distance)
    if len(candidates) < 2 or same(result, chosen):
        return chosen, ""
    near = sum(distance(other) == distance(chosen) for other in candidates)
    why = "which has the fewest differences" if near == 1 else f"the first of {near} with equally few differences"
    texts = dict(zip((other.key for other in candidates), distinct_labels(candidates), strict=True))
    listed = f"{side} has {len(candidates)} results on {devices_text(result.devices or 0)}: {'; '.join(texts.values())}"
    differ = ", ".join(label(name) for name in [*differences(result, chosen)][:5])
    return (
        chosen,
        f"{listed}. None of them has the same settings. The comparison is with {texts[chosen.key]}, {why} ({differ}).",
    )


class _Difference(NamedTuple):
    """A setting in which two results differ, as text."""

    name: str
    ours: str
    theirs: str


def _differing(result: Result, other: Result) -> tuple[list[_Difference], list[_Difference]]:
    """Return the settings that both results have and that differ, and the settings that only one of them has."""
    of_suite = bool(result.profile and other.profile)  # runs of this suite log all of their settings
    pairs: dict[str, Any] = {"machine": (result.machine_condition, other.machine_condition)}
    pairs |= differences(result, other)
    ignored = set()
    if not of_suite:
        pairs["rules"] = (result.rules, other.rules)
        ignored |= {"round", "submitter", "folder", "profile"}
    if same_targets(result.targets, other.targets, result.workload):
        ignored.add("targets")
    if not (result.hyperparameters and other.hyperparameters):
        ignored.add(HYPERPARAMETERS)
    known: list[_Difference] = []
    partly: list[_Difference] = []
    for name, (first, second) in pairs.items():
        if first == second or name.partition(".")[0] in ignored:
            continue
        difference = _Difference(label(name), value_text(name, first, result), value_text(name, second, other))
        is_partial = _is_unknown(first) or _is_unknown(second)
        (partly if is_partial and (not of_suite or name == "machine") else known).append(difference)
    return known, partly


def _is_unknown(value: Any) -> bool:
    return value is None or value in ("", (), [], {}, "unknown", UNKNOWN_ROUND)


def _lines(result: Result, other: Result, names: tuple[str, str]) -> Iterator[Line]:
    """Yield a row of data for each quantity: its ratio, or why there is none."""
    measured, reasons = ratio(other, result), reversed([*refusals(result, other)])
    refused = {quantity: clean(reason, 300) for quantities, reason in reasons for quantity in quantities}
    in_blocks = result.parts is not None and other.parts is not None
    intervals = (*measured.intervals, None if measured.total is not None else measured.intervals[1])
    differ = "; ".join(f"{name}: {ours} | {theirs}" for name, ours, theirs in _differing(result, other)[0])
    about: Line = {
        "workload": result.workload, "devices": result.devices, "ours": _name(result), "theirs": _name(other),
    }  # fmt: skip
    for interval, (quantity, (column, name, unit, *_)) in zip(intervals, QUANTITIES.items(), strict=True):
        if column == "seconds_per_epoch" and not in_blocks:
            column = "seconds_over_epochs"
        value = getattr(measured, name)
        if quantity in refused:
            yield {"kind": REFUSED, "quantity": quantity, **about, "verdict": refused[quantity]}
        elif value and math.isfinite(value):
            line: Line = {"kind": RATIO, "quantity": quantity, **about, "unit": unit, "ratio": value}
            line |= {"ours_value": getattr(result, column), "theirs_value": getattr(other, column)}
            if interval is not None:
                line |= {"ratio_low": interval.low, "ratio_high": interval.high}
            runs = [[_of_run(column, run) for run in side.runs if not side.single_figure] for side in (result, other)]
            line |= {"runs_ours": len(runs[0]) or None, "runs_theirs": len(runs[1]) or None}
            line |= {"failed_ours": result.runs_failed or None, "failed_theirs": other.runs_failed or None}
            p, smallest = permutation_test(*runs) or (None, 1.0)
            line |= {"differences": differ, "p": p}
            yield line | {"verdict": verdict(line, names, (result, other), smallest)}
        elif quantity != THROUGHPUT:
            unknown = " and ".join(_name(side) for side in (result, other) if not getattr(side, column))
            reason = f"unknown for {unknown}"
            yield {"kind": REFUSED, "quantity": quantity, **about, "verdict": reason}


def _of_run(column: str, run: RunRow) -> float | None:
    """Return the figure of a run that a column of its result averages."""
    if column == "seconds_per_epoch":
        return _over(run.block_seconds, epochs_trained(run))
    if column == "seconds_over_epochs":
        return _over(run.seconds, epochs_trained(run))
    if column == "samples_per_second":
        return _over(run.samples, run.train_seconds)
    value: float | None = getattr(run, column)
    if column == "seconds" and value is not None:
        return value * (run.scaling_factor or 1.0)
    return value


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def _sections(
    result: Result, other: Result, choice: str, lines: Sequence[Line], sides: tuple[Side, Side]
) -> list[Section]:
    """Return the verdict with the table of differences, and the table of ratios."""
    ours, theirs = (side.name for side in sides)
    shown = [line for line in lines if line["kind"] == RATIO]
    known, partly = _differing(result, other)
    relation = _NO_RELATION.get(result.profile)
    above = [f"{relation[:1].upper()}{relation[1:]}."] if relation else []
    above += [choice] if choice else []
    above += _caveats(result, other, (ours, theirs))
    above.append(f"Verdict on {shown[0]['quantity']}: {shown[0]['verdict']}.")
    if not known:
        above.append(f"No setting differs{' that both sides have' if partly else ''}.")
    differ = DataTable.from_rows({"setting": name, ours: first, theirs: second} for name, first, second in known)
    title = f"{_where(result)}{f' ({result.profile})' if relation else ''}: {ours} ({sides[0].named(result)}) and "
    title += f"{theirs} ({sides[1].named(other)})"
    partial = "; ".join(f"{name} ({first} and {second})" for name, first, second in partly)
    settings = Section(title, tuple(above), differ, below=(f"Known for one side only: {partial}.",) if partial else ())
    ratios = DataTable.from_rows(
        {
            "quantity": line["quantity"],
            ours: figure_in(line["unit"], line["ours_value"]),
            theirs: figure_in(line["unit"], line["theirs_value"]),
            "ratio": line["ratio"],
            "ratio_low": line.get("ratio_low"),
            "ratio_high": line.get("ratio_high"),
            "p": line["p"],
        }
        for line in shown
    )
    below = [f"{line['quantity']}: {line['verdict']}" for line in shown[1:] if (line["p"] or 1) < SIGNIFICANCE]
    measured = ratio(other, result, intervals=False)
    scored = all(failures(side)[1] for side in (result, other))
    if scored and any(line["quantity"] == TIME for line in shown) and measured.total is not None:
        below.append(f"As measured, {ours} is {describe(measured)}")
    refused = [_Refused(line["quantity"], line["verdict"]) for line in lines if line["kind"] == REFUSED]
    return [settings, Section(table=ratios.without_empty(), below=(*below, *_by_reason(refused, "Not compared: ")))]


def _caveats(result: Result, other: Result, names: Sequence[str]) -> Iterator[str]:
    """Yield what limits a comparison: unknown targets and rounds, equal runs, labels, and notes on the scores."""
    both = list(zip(names, (result, other), strict=True))
    if result.to_target and other.to_target and same_targets(result.targets, other.targets, result.workload) is None:
        without = names[1] if result.targets else names[0]
        yield f"The target of {without} is unknown. Ratios of times and epochs hold only if it is the same target."
    unknown = [name for name, side in both if side.rules == UNKNOWN_ROUND]
    if unknown:
        yield f"The round of {' and of '.join(unknown)} is unknown, so the rules may differ."
    if run_keys(result.runs) & run_keys(other.runs):
        yield "The same runs are on both sides."
    if "tpu" in (result.device_name + other.device_name).lower() and result.rules != other.rules:
        yield "TPUs are counted in cores in v0.5, and in chips (two cores each) from v0.6 on."
    if result.to_target and other.to_target and (result.parts is None) != (other.parts is None):
        yield "The logs of only one side separate setup, so time per epoch includes setup on both sides."
    shared = [text for text in labels(result) if text in labels(other)]
    if shared:
        yield f"Labels of both sides: {', '.join(shared)}."
    for name, side in both:
        notes = [text for text in (*labels(side), *side.score_notes, side.note) if text and text not in shared]
        if notes:
            yield f"{name}: {'; '.join(notes)}."


def _by_reason(refused: Iterable[_Refused], prefix: str = "") -> tuple[str, ...]:
    """Return a line for each reason: `time to target, epochs: reason`."""
    lines = []
    for reason, members in grouped(refused, lambda item: item.reason).items():
        subjects = dict.fromkeys(item.subject for item in members)
        lines.append(f"{prefix}{', '.join(subjects)}: {reason}")
    return tuple(lines)


def _convergence(sides: Sequence[Side], published: Sequence[Result]) -> tuple[Section, list[Line]]:
    """Return the section and the data on epochs to target, judged by published runs."""
    lines: list[Line] = []
    judged: list[Line] = []
    missing: list[_Refused] = []
    for side in sides:
        for found in convergence(side.results, published):
            result, point, name = found.row, found.reference, f"{side.name}: {side.described(found.row)}"
            line: Line = {"kind": CONVERGENCE, "workload": result.workload, "devices": result.devices, "ours": name}
            line |= {"quantity": EPOCHS, "unit": "epochs", "ours_value": found.epochs, "runs_ours": len(result.runs)}
            line["verdict"] = ": ".join((found.verdict, *found.why))
            lines.append(line)
            if point is None:
                missing.append(_Refused(side.name if result.profile in _NO_RELATION else name, found.why[0]))
                continue
            line |= {"theirs": "; ".join(point.sources), "theirs_value": point.mean, "runs_theirs": point.runs}
            row: Line = {"result": name, "batch": point.batch, "epochs": found.epochs, "published epochs": point.mean}
            row |= {"published runs": point.runs, "fewest": found.fewest_acceptable, "most": found.most_expected}
            notes = (*found.why, *found.notes, f"published runs: {', '.join(point.sources)}")
            judged.append(row | {"verdict": found.verdict, "notes": notes})
    title = "Convergence: epochs to target compared with published runs"
    return Section(title, table=DataTable.from_rows(judged), below=_by_reason(missing, "Not judged: ")), lines
