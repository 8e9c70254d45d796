"""Compares two sets of results: what differs is shown, what would make a ratio meaningless is refused (docs/comparing.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.common.labels import LabelKind, label_of_text
from suite.common.registry import not_allowed
from suite.results.columns import Result, RunRow, epochs_trained
from suite.results.combine import grouped
from suite.results.identity import (
    EPOCHS,
    HYPERPARAMETERS,
    THROUGHPUT,
    differences,
    label,
    own_words,
    refusals,
    same,
    value_text,
)
from suite.results.names import UNKNOWN_ROUND, workload_name
from suite.results.ratios import SIGNIFICANCE, permutation_test, ratio, ratio_text
from suite.results.scores import failures, find_published, labels, result_rows
from suite.results.table import table
from suite.results.targets import same_targets
from suite.results.text import clean, devices_text
from suite.results.views.convergence import convergence, run_keys
from suite.results.views.section import (
    DEVICES_NOT_KNOWN,
    NOT_VERIFIED,
    Section,
    View,
    ViewKind,
    frame_of,
    without_empty,
)
from suite.results.views.verdict import QUANTITIES, Line, figure_in, verdict

_COLUMNS = (
    "kind", "workload", "devices", "ours", "theirs", "quantity", "unit", "ours_value", "theirs_value", "ratio",
    "ratio_low", "ratio_high", "p", "runs_ours", "runs_theirs", "failed_ours", "failed_theirs",
    "verdict", "differences",
)  # fmt: skip
_NO_RELATION = {
    "demo": "a demo's target has no relation to MLPerf (small model, target of its own)",
    "synthetic": "synthetic data have no relation to MLPerf results",
}


@dataclass(frozen=True)
class Side:
    """One of the two sets of results; `name` in sentences and columns (`A`, `ours`, `published`), `title`: where from."""

    name: str
    title: str
    results: tuple[Result, ...]
    left_out: tuple[str, ...] = ()
    published: bool = False

    def named(self, row: Result) -> str:
        """`pytorch on dgx1, learning rate 0.002`: with what tells it from other logs' results on as many devices."""
        alike = [other for other in self.results if not self.published and _where(other) == _where(row)]
        words = {id(one): text for one, text in zip(alike, own_words(alike, fewest=True), strict=True)}
        return ", ".join(filter(None, (_name(row), words.get(id(row)))))

    def described(self, row: Result) -> str:
        """`ncf on 2 devices (pytorch on dgx1, learning rate 0.002)`."""
        return f"{_where(row)} ({self.named(row)})"


def _name(row: Result) -> str:
    """`v0.5/NVIDIA/dgx1_…` of a published result, `pytorch on dgx1` of others."""
    return clean(row.run if row.published else f"{row.framework} on {row.system}" if row.framework else row.system, 100)


def _where(row: Result) -> str:
    return f"{clean(row.workload, 40)} on {devices_text(row.devices or 0, row.nodes)}"


def published_side(name: str, side: str = "published", workloads: Sequence[str] = ()) -> Side:
    """The published results called `name`, of these workloads alone if any are named. ValueError for an unknown name."""
    wanted = [workload_name(one) for one in workloads]
    published = tuple(row for row in find_published(name) if not wanted or row.workload in wanted)
    return Side(
        side, f"{name.strip('/')} ({len(published)} published result{'s' * (len(published) != 1)})", published, (), True
    )


def logs_side(
    paths: Sequence[Path], name: str, profile: str | None = None, workloads: Sequence[str] = (), argument: str = "LOGS"
) -> Side:
    """The results of the runs below `paths`; `argument` is how errors name them.

    Raises ValueError (one line): a path without logs, no run of a workload or profile, several profiles, no success.
    """
    title, runs = ", ".join(map(str, paths)), table(list(paths))
    for column, wanted in (("workload", [*map(workload_name, workloads)]), ("profile", [profile] if profile else [])):
        there = {clean(one, 40) for one in runs[column] if one}
        for one in (one for one in wanted if one not in there):
            raise not_allowed(f"{argument} {title}: --{column}", one, there)
        runs = runs[runs[column].isin(wanted)] if wanted else runs
    if any(label_of_text(text).kind is LabelKind.NULL_DEVICE for labels in runs["labels"] for text in labels):
        raise ValueError(
            f"{argument} {title}: runs of the {LabelKind.NULL_DEVICE.value}, which computes nothing: "
            "there is nothing to compare"
        )
    with_runs = [row for row in result_rows(runs) if row.runs]
    profiles = sorted({clean(row.profile, 40) or "published" for row in with_runs})
    if len(profiles) > 1:
        several = f"runs of several profiles ({', '.join(profiles)}), which have no relation to each other"
        raise ValueError(f"{argument} {title}: {several}; give --profile {profiles[0]}, or folders of one profile")
    copies, running, of = runs["copy_of"].ne(""), runs["running"], f"of {len(runs)} runs"
    counts = {"have not ended": running & ~copies, "did not succeed": ~(runs["succeeded"] | running | copies)}
    counts["are copies of others"] = copies
    listed = "(suite report lists them)"
    left_out = [f"{title}: {some.sum()} {of} {text} {listed}" for text, some in counts.items() if some.any()]
    if not with_runs:
        raise ValueError(f"{argument} {'; '.join(left_out)}: none succeeded, there is nothing to compare")
    why = "its logs do not say on how many devices; put its description (system.json) into the folder above them"
    left_out += [f"{_name(row)}: {why}" for row in with_runs if not row.devices]
    return Side(name, title, tuple(row for row in with_runs if row.devices), tuple(left_out))


def compare(ours: Side, theirs: Side | None, published: Sequence[Result]) -> View:
    """Each result of ours with the one of theirs that agrees in most, and the convergence of all against `published`."""
    sections, lines, refused = list[Section](), list[Line](), list[tuple[str, str]]()
    above, left_out, met = [NOT_VERIFIED], [*ours.left_out], set[int]()
    if theirs is not None:
        above.append(f"{ours.name} is {clean(ours.title, 400)}. {theirs.name} is {clean(theirs.title, 400)}.")
        above.append(f"A ratio above 1 means that {ours.name} is better: less time, fewer epochs, more samples/s.")
        for row, other, said in _matches(ours, theirs):
            made = [] if other is None else list(_lines(row, other, (ours.name, theirs.name)))
            met.add(id(other))
            if other is not None and any(line["kind"] == "ratio" for line in made):
                lines += made
                sections += _sections(row, other, said, made, (ours, theirs))
            else:
                what = ours.described(row) + ("" if other is None else f" with {theirs.described(other)}")
                refused.append(("; ".join(dict.fromkeys(line["verdict"] for line in made)) or said, what))
                lines.append({"kind": "refused", "ours": what, "verdict": refused[-1][0]})
        alone = [row for row in theirs.results if not theirs.published and id(row) not in met]
        left_out += [*theirs.left_out, *(f"only in {theirs.name}: {theirs.described(row)}" for row in alone)]
    last, convergence = _convergence([ours] if theirs is None or theirs.published else [ours, theirs], published)
    sections += [Section("Not compared", below=_by_reason(refused)), Section("Left out", below=tuple(left_out)), last]
    data = frame_of([dict.fromkeys(_COLUMNS) | line for line in (*lines, *convergence)], _COLUMNS)
    shown = tuple(one for one in sections if one.below or (one.table is not None and len(one.table)) or one.above)
    if theirs is None:
        return View("Convergence", shown, data, tuple(above), kind=ViewKind.CONVERGENCE)
    return View("Comparison", shown, data, tuple(above), kind=ViewKind.COMPARISON)


def comparable(view: View) -> bool:
    """Whether anything could be compared or, without a second side, judged."""
    kind = "ratio" if view.kind is ViewKind.COMPARISON else "convergence"
    return bool((view.data["kind"].eq(kind) & view.data["theirs_value"].notna()).any())


def _matches(ours: Side, theirs: Side) -> Iterator[tuple[Result, Result | None, str]]:
    """Each result of ours with the nearest of theirs (of published ones with that of each system) and what there was to choose
    from; or with None, and why there is none."""
    for row in ours.results:
        same_workload = [other for other in theirs.results if other.workload == row.workload]
        related = [one for one in same_workload if _NO_RELATION.get(one.profile) == _NO_RELATION.get(row.profile)]
        alike = [other for other in related if row.devices and other.devices == row.devices]
        for run in dict.fromkeys(other.run if theirs.published else "" for other in alike):
            yield (row, *_nearest(row, [other for other in alike if not run or other.run == run], theirs.name))
        if alike:
            continue
        counts = sorted({one.devices for one in related if one.devices})
        there = [*map(str, counts)] or sorted({one.workload for one in theirs.results})
        what = f"on {devices_text(row.devices or 0)}" if related else f"of {row.workload}"
        why = f"{theirs.name} has no result {what}; there are: {', '.join(there) or 'none'}"
        if same_workload and not related:
            why = _NO_RELATION.get(row.profile) or _NO_RELATION[same_workload[0].profile]
        if related and not (row.devices and any(one.devices for one in related)):
            why = DEVICES_NOT_KNOWN
        yield row, None, clean(why, 300)


def _nearest(row: Result, candidates: Sequence[Result], side: str) -> tuple[Result, str]:
    """The candidate that differs in least (what is timed, target, data, framework, machine, then all else); and, of several of
    which none is the same experiment, what there was and why this one."""

    def distance(other: Result) -> tuple[Any, ...]:
        target = {True: 0, None: 1, False: 2}[same_targets(row.targets, other.targets, row.workload)]
        kinds = ("to_target", "mode", "dataset", "framework", "system", "nodes")
        differ = [getattr(row, name) != getattr(other, name) for name in kinds]
        return (not same(row, other), *differ[:2], target, *differ[2:], len(differences(row, other)))

    chosen = min(candidates, key=distance)
    if len(candidates) < 2 or same(row, chosen):
        return chosen, ""
    near = sum(distance(other) == distance(chosen) for other in candidates)
    why = "which differs in least" if near == 1 else f"the first of {near} that differ in as little"
    words = [text or "one with the usual settings" for text in own_words(candidates, fewest=True)]
    named = next(text for text, other in zip(words, candidates, strict=True) if other is chosen)
    listed = f"{side} has {len(candidates)} results on {devices_text(row.devices or 0)}: {'; '.join(words)}"
    differ = ", ".join(label(name) for name in [*differences(row, chosen)][:5])
    return chosen, f"{listed}. None has all settings of this one. It is compared with {named}, {why} ({differ})."


def _differing(one: Result, other: Result) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """(what both say and differs, what only one says): name and both values in words. Runs of this suite say everything."""
    ours = bool(one.profile and other.profile)
    pairs: dict[str, Any] = {"machine": (one.machine_condition, other.machine_condition)}
    pairs |= differences(one, other) | ({} if ours else {"rules": (one.rules, other.rules)})
    aside = [] if ours else ["round", "submitter", "folder", "profile"]
    aside += ["targets"] if same_targets(one.targets, other.targets, one.workload) else []
    aside += [] if one.hyperparameters and other.hyperparameters else [HYPERPARAMETERS]
    shown = [
        (label(name), value_text(name, first, one), value_text(name, second, other))
        for name, (first, second) in pairs.items()
        if first != second and name.partition(".")[0] not in aside
    ]
    partly = [
        item
        for item in shown
        if {"none", "unknown", UNKNOWN_ROUND} & {*item[1:]} and (not ours or item[0] == "machine")
    ]
    return [item for item in shown if item not in partly], partly


def _lines(row: Result, other: Result, names: tuple[str, str]) -> Iterator[Line]:
    """A line for each quantity: its ratio, or why there is none."""
    measured, meaningless = ratio(other, row), reversed([*refusals(row, other)])
    refused = {quantity: clean(reason, 300) for quantities, reason in meaningless for quantity in quantities}
    intervals = (*measured.intervals, None if measured.total is not None else measured.intervals[1])
    differ = "; ".join(f"{name}: {one} | {two}" for name, one, two in _differing(row, other)[0])
    about: Line = {"workload": row.workload, "devices": row.devices, "ours": _name(row), "theirs": _name(other)}
    for interval, (quantity, (column, name, unit, *_)) in zip(intervals, QUANTITIES.items(), strict=True):
        value, line = getattr(measured, name), {"kind": "refused", "quantity": quantity, **about}
        if quantity in refused:
            yield line | {"verdict": refused[quantity]}
        elif value and math.isfinite(value):
            line |= {"kind": "ratio", "unit": unit, "ratio": value, "differences": differ}
            line |= {"ours_value": getattr(row, column), "theirs_value": getattr(other, column)}
            line |= {} if interval is None else {"ratio_low": interval.low, "ratio_high": interval.high}
            runs = [[_of_run(column, run) for run in one.runs if not one.single_figure] for one in (row, other)]
            line |= {"runs_ours": len(runs[0]) or None, "runs_theirs": len(runs[1]) or None}
            line |= {"failed_ours": row.runs_failed or None, "failed_theirs": other.runs_failed or None}
            p, smallest = permutation_test(*runs) or (None, 1.0)
            line |= {"p": p}
            yield line | {"verdict": verdict(line, names, (row, other), smallest)}
        elif quantity != THROUGHPUT:
            unknown = " and ".join(_name(one) for one in (row, other) if not getattr(one, column))
            yield line | {"verdict": f"not known of {unknown}"}


def _of_run(column: str, run: RunRow) -> float | None:
    over = {
        "seconds_per_epoch": (run.seconds, epochs_trained(run)),
        "samples_per_second": (run.samples, run.train_seconds),
    }
    above, below = over.get(column) or (getattr(run, column), 1)
    scaling_factor = (run.scaling_factor or 1.0) if column == "seconds" else 1.0
    return above / below * scaling_factor if above and below else None


def _sections(
    row: Result, other: Result, picked: str, lines: Sequence[Line], sides: tuple[Side, Side]
) -> list[Section]:
    """Verdict and differences; then the ratios. What the verdict says of all is not said of each quantity again."""
    one, two = (side.name for side in sides)
    shown = [line for line in lines if line["kind"] == "ratio"]
    known, partly = _differing(row, other)
    relation = _NO_RELATION.get(row.profile)
    above = [f"Both sides: {relation}." if relation else "", picked, *_caveats(row, other, (one, two))]
    above.append(f"Verdict on {shown[0]['quantity']}: {shown[0]['verdict']}.")
    above.append("" if known else f"What differs: nothing{' that both sides say' if partly else ''}.")
    only = "; ".join(f"{name} ({first} and {second})" for name, first, second in partly)
    differ = frame_of({"what differs": name, one: first, two: second} for name, first, second in known)
    names = f"{one} ({sides[0].named(row)}) against {two} ({sides[1].named(other)})"
    title = f"{_where(row)}{f' ({row.profile})' if relation else ''}: {names}"
    first = Section(title, tuple(above), differ, below=(f"only one side says: {only}",) if only else ())
    ratios = frame_of(
        {"quantity": line["quantity"], one: figure_in(line["unit"], line["ours_value"])}
        | {two: figure_in(line["unit"], line["theirs_value"]), "ratio": line["ratio"]}
        | {"ratio_low": line.get("ratio_low"), "ratio_high": line.get("ratio_high"), "p": line["p"]}
        for line in shown
    )
    below = [f"{line['quantity']}: {line['verdict']}" for line in shown[1:] if (line["p"] or 1) < SIGNIFICANCE]
    scored = all(failures(one)[1] for one in (row, other))
    if scored and len(shown) >= 3 and any(ratio_text(line["ratio"]) != "1.00" for line in shown[:3]):
        below.append(f"{one} against {two}, as measured: {ratio(other, row, intervals=False).words}")
    refused = ((line["verdict"], line["quantity"]) for line in lines if line["kind"] == "refused")
    return [first, Section(table=without_empty(ratios), below=(*below, *_by_reason(refused, "not compared: ")))]


def _caveats(row: Result, other: Result, names: Sequence[str]) -> Iterator[str]:
    if row.to_target and other.to_target and same_targets(row.targets, other.targets, row.workload) is None:
        without = names[1] if row.targets else names[0]
        yield f"The target of {without} is not known: ratios of time and epochs hold only if it is the same."
    if unknown := [name for name, one in zip(names, (row, other), strict=True) if one.rules == UNKNOWN_ROUND]:
        yield f"The round of {' and of '.join(unknown)} is not known: whether both followed the same rules is open."
    if run_keys(row.runs) & run_keys(other.runs):
        yield "The same runs are on both sides."
    if "tpu" in (row.device_name + other.device_name).lower() and row.rules != other.rules:
        yield "TPUs are counted in cores in v0.5 and in chips (two cores each) from v0.6 on."
    if shared := [one for one in labels(row) if one in labels(other)]:
        yield f"Both: {', '.join(shared)}."
    for name, one in zip(names, (row, other), strict=True):
        own_notes = [text for text in (*labels(one), *one.score_notes, one.note) if text and text not in shared]
        yield from [f"{name}: {'; '.join(own_notes)}."] if own_notes else []


def _by_reason(refused: Iterable[tuple[str, str]], prefix: str = "") -> tuple[str, ...]:
    """`time to target, epochs: why`, for each reason."""
    by_reason = grouped(refused, lambda pair: pair[0])
    things = {reason: dict.fromkeys(thing for _, thing in pairs) for reason, pairs in by_reason.items()}
    return tuple(f"{prefix}{', '.join(listed)}: {reason}" for reason, listed in things.items())


def _convergence(sides: Sequence[Side], published: Sequence[Result]) -> tuple[Section, list[Line]]:
    lines, judged, missing = list[Line](), list[Line](), list[tuple[str, str]]()
    for side, one in ((owner, one) for owner in sides for one in convergence(owner.results, published)):
        row, point, name = one.row, one.reference, f"{side.name}: {side.described(one.row)}"
        line: Line = {"kind": "convergence", "workload": row.workload, "devices": row.devices, "ours": name}
        line |= {"quantity": EPOCHS, "unit": "epochs", "ours_value": one.epochs, "runs_ours": len(row.runs)}
        lines.append(line | {"verdict": ": ".join((one.verdict, *one.why))})
        if point is None:
            missing.append((one.why[0], side.name if row.profile in _NO_RELATION else name))
            continue
        lines[-1] |= {"theirs": "; ".join(point.sources), "theirs_value": point.mean, "runs_theirs": point.runs}
        numbers: Line = {"result": name, "batch": point.batch, "epochs": one.epochs, "published epochs": point.mean}
        numbers |= {"published runs": point.runs, "fewest": one.fewest_acceptable, "most": one.most_expected}
        notes = (*one.why, *one.notes, f"published runs: {', '.join(point.sources)}")
        judged.append(numbers | {"verdict": one.verdict, "notes": notes})
    title = "Convergence: epochs to target against published runs"
    return Section(title, table=frame_of(judged), below=_by_reason(missing, "not judged: ")), lines
