"""Compares two sets of results, matched by workload, profile and devices: what differs, ratios, and why some are refused.

What merely differs (clock rule, batch, precision, hardware, framework …) is shown. A difference that would make a ratio
meaningless is a refusal with its reason (docs/comparing.md has the list).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.common.registry import not_allowed
from suite.results.identity import HYPERPARAMETERS, Row, differences, label, own_words, same, value_text
from suite.results.names import workload_name
from suite.results.scores import SIGNIFICANCE, find_published, labels, permutation_test, ratio, ratio_text, result_rows
from suite.results.table import table
from suite.results.targets import in_points, same_targets
from suite.results.text import clean, devices_text, figure_text, time_text
from suite.results.views.convergence import convergence, run_keys
from suite.results.views.section import NOT_VERIFIED, Section, View, frame_of, without_empty

TIME, EPOCH_TIME, EPOCHS, THROUGHPUT = "time to target", "time per epoch", "epochs to target", "throughput"
_QUANTITIES = {
    TIME: ("seconds", "s", "took", "{better} is {amount} times faster"),
    EPOCH_TIME: ("seconds_per_epoch", "s", "took", "{better} is {amount} times faster in each epoch"),
    EPOCHS: ("epochs", "epochs", "needed", "{worse} needs {amount} times as many epochs"),
    THROUGHPUT: ("samples_per_second", "samples/s", "trained", "{better} trains {amount} times as many samples/s"),
}
"""Quantity to its column, its unit, and how it is told."""
_COLUMNS = (
    *("kind", "workload", "devices", "ours", "theirs", "quantity", "unit", "ours_value", "theirs_value", "ratio"),
    *("ratio_low", "ratio_high", "p", "runs_ours", "runs_theirs", "verdict", "differences"),
)
_NO_RELATION = {
    "demo": "a demo's target has no relation to MLPerf (generated data, small model)",
    "synthetic": "synthetic data have no relation to MLPerf results",
}
_UNPLACED = "the logs do not say on how many devices; put its description (system.json) into the folder above the logs"
_FIRST = ("machine", "targets", "clock", "rules", "dataset", "batch_size_global")
"""What stands first among differences."""
UNCOUNTED = "the number of devices of a CPU system is not known"
_Line = dict[str, Any]
"""A ratio, refusal or verdict on convergence: a row of the data."""


# --- the two sides ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One of the two sets of results."""

    name: str
    """In sentences and columns: `A`, `ours`, `published`."""
    title: str
    """Where the results come from."""
    results: tuple[Row, ...]
    left_out: tuple[str, ...] = ()
    published: bool = False

    def words(self, row: Row) -> str:
        """What tells a result from the others of its side on as many devices; empty where nothing does."""
        alike = [other for other in self.results if _place(other) == _place(row)]
        return own_words(alike)[next(index for index, other in enumerate(alike) if other is row)]

    def described(self, row: Row) -> str:
        """`ncf on 2 devices, learning rate 0.002`."""
        own = self.words(row)
        return f"{_where(row)}{f', {own}' if own and not row.published else f' ({name_of(row)})'}"


def _said(side: Side, row: Row) -> str:
    """A side in sentences."""
    return name_of(row) if side.name == "published" else side.name


def name_of(row: Row) -> str:
    """`v0.5/NVIDIA/dgx1_…` of a published result, `pytorch on dgx1` of others."""
    return clean(row.run if row.published else f"{row.framework} on {row.system}" if row.framework else row.system, 100)


def _place(row: Row) -> tuple[Any, ...]:
    return row.workload, row.devices, row.nodes or 1, row.run if row.published else ""


def _where(row: Row) -> str:
    return f"{clean(row.workload, 40)} on {devices_text(row.devices or 0, row.nodes)}"


def published_side(name: str, side: str = "published", workloads: Sequence[str] = ()) -> Side:
    """The published results called `name`, of these workloads alone if any are named. Raises ValueError for an unknown name."""
    wanted = [workload_name(one) for one in workloads]
    found = tuple(row for row in find_published(name) if not wanted or row.workload in wanted)
    return Side(side, f"{name.strip('/')} ({len(found)} published result{'s' * (len(found) != 1)})", found, (), True)


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
    found = [row for row in result_rows(runs) if row.runs]
    profiles = sorted({clean(row.profile, 40) or "published" for row in found})
    if len(profiles) > 1:
        raise ValueError(
            f"{argument} {title}: runs of several profiles ({', '.join(profiles)}), which have no relation to each other; "
            f"give --profile {profiles[0]}, or folders of one profile"
        )
    counts = {
        "have not ended": runs["running"].sum(),
        "did not succeed": (~runs["succeeded"] & ~runs["running"]).sum(),
        "are copies of others": runs["copy_of"].ne("").sum(),
    }
    told = [
        f"{title}: {count} of {len(runs)} runs {text} (suite report lists them)"
        for text, count in counts.items()
        if count
    ]
    if not found:
        raise ValueError(f"{argument} {'; '.join(told)}: none succeeded, there is nothing to compare")
    told += [f"{name_of(row)}: {_UNPLACED}" for row in found if not row.devices]
    return Side(name, title, tuple(row for row in found if row.devices), tuple(told))


# --- matching -----------------------------------------------------------------------------------------------------------


def compare(ours: Side, theirs: Side | None, published: Sequence[Row]) -> View:
    """Each result of ours with the one of theirs that agrees in most, and the convergence of all against `published`.

    The data have a line for each ratio, refusal and verdict on convergence (`kind`).
    """
    sections, lines, taken = list[Section](), list[_Line](), list[Row]()
    left_out, judged, above = [*ours.left_out], [ours], [NOT_VERIFIED]
    for row, chosen, picked in _matches(ours, theirs) if theirs is not None else ():
        assert theirs is not None
        if isinstance(chosen, str):
            lines.append({"kind": "refused", "ours": ours.described(row), "verdict": chosen})
            continue
        taken.append(chosen)
        made = _lines(row, chosen, ours, theirs)
        if any(line["kind"] == "ratio" for line in made):
            lines += made
            sections += _sections(row, chosen, picked, made, (ours, theirs))
        else:
            what = f"{ours.described(row)} with {theirs.described(chosen)}"
            reasons = "; ".join(dict.fromkeys(line["verdict"] for line in made))
            lines.append({"kind": "refused", "ours": what, "verdict": reasons})
    refused = _by_reason((line["verdict"], line["ours"]) for line in lines if "quantity" not in line)
    if theirs is not None:
        above.append(f"{ours.name} is {clean(ours.title, 400)}. {theirs.name} is {clean(theirs.title, 400)}.")
        above.append(f"A ratio above 1 means that {ours.name} is better: less time, fewer epochs, more samples/s.")
        alone = [] if theirs.published else [row for row in theirs.results if all(row is not one for one in taken)]
        left_out += [*theirs.left_out, *(f"only in {theirs.name}: {theirs.described(row)}" for row in alone)]
        judged += [] if theirs.published else [theirs]
    last, told = _convergence(judged, published)
    sections += [Section("Not compared", below=tuple(refused)), Section("Left out", below=tuple(left_out)), last]
    data = frame_of([dict.fromkeys(_COLUMNS) | line for line in (*lines, *told)], _COLUMNS)
    shown = tuple(one for one in sections if one.above or one.below or (one.table is not None and len(one.table)))
    return View("Convergence" if theirs is None else "Comparison", shown, data, tuple(above))


def _matches(ours: Side, theirs: Side) -> Iterator[tuple[Row, Row | str, str]]:
    """Each result of ours with the nearest of theirs, of published ones with that of each system; or why there is none."""
    for row in ours.results:
        found = _candidates(row, theirs)
        if isinstance(found, str):
            yield row, found, ""
            continue
        for run in dict.fromkeys(other.run if theirs.published else "" for other in found):
            yield (row, *_nearest(row, [other for other in found if not run or other.run == run], theirs))


def comparable(view: View) -> bool:
    """Whether anything could be compared or, without a second side, judged."""
    kind = "ratio" if view.title == "Comparison" else "convergence"
    return bool((view.data["kind"].eq(kind) & view.data["theirs_value"].notna()).any())


def _candidates(row: Row, theirs: Side) -> list[Row] | str:
    """Results of the other side that `row` can be compared with, or why there are none."""
    found = [other for other in theirs.results if other.workload == row.workload]
    if not found:
        there = ", ".join(sorted({other.workload for other in theirs.results})) or "none"
        return clean(f"{theirs.name} has no result of {row.workload}; there are: {there}", 300)
    related = [other for other in found if _group(other) == _group(row)]
    if not related:
        return _NO_RELATION[_group(row) or _group(found[0])]
    if not row.devices or not any(other.devices for other in related):
        return UNCOUNTED
    alike = [other for other in related if other.devices == row.devices]
    there = ", ".join(str(count) for count in sorted({other.devices for other in related if other.devices}))
    return alike or f"{theirs.name} has no result on {devices_text(row.devices)}; there are: {there}"


def _group(row: Row) -> str:
    """Profiles that can be compared: our reference runs and published results are one."""
    return row.profile if row.profile in _NO_RELATION else ""


def _nearest(row: Row, candidates: Sequence[Row], theirs: Side) -> tuple[Row, str]:
    """The candidate that differs in least (what is timed, target, data, framework, machine, then all else); and, of several of
    which none is the same experiment, what there was and why this one."""

    def distance(other: Row) -> tuple[Any, ...]:
        target = {True: 0, None: 1, False: 2}[same_targets(row.targets, other.targets, row.workload)]
        kinds = ("to_target", "mode", "dataset", "framework", "system", "nodes")
        differ = [getattr(row, name) != getattr(other, name) for name in kinds]
        return (not same(row, other), *differ[:2], target, *differ[2:], len(differences(row, other)))

    chosen = min(candidates, key=distance)
    if len(candidates) < 2 or same(row, chosen):
        return chosen, ""
    near = sum(distance(other) == distance(chosen) for other in candidates)
    why = "which differs in least" if near == 1 else f"the first of {near} that differ in as little"
    return chosen, (
        f"{theirs.name} has {len(candidates)} results on {devices_text(row.devices, row.nodes)}: "
        f"{'; '.join(theirs.words(other) for other in candidates)}. None has all settings of this one. It is compared with "
        f"{theirs.words(chosen)}, {why} ({', '.join(label(name) for name in [*differences(row, chosen)][:5])})."
    )


# --- one match ----------------------------------------------------------------------------------------------------------


def _differing(one: Row, other: Row) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """(what both say and differs, what only one says): name and both values in words. Runs of this suite say everything."""
    ours = bool(one.profile and other.profile)
    found: dict[str, Any] = {"machine": (one.machine_condition, other.machine_condition)}
    found |= {} if ours else {"rules": (one.rules, other.rules)}
    aside = () if ours else ("round", "submitter", "folder", "profile", "rules")
    logged = one.hyperparameters and other.hyperparameters
    for name, pair in differences(one, other).items():
        equal = name == "targets" and same_targets(*pair, one.workload)
        if not equal and name not in aside and (logged or not name.startswith(HYPERPARAMETERS)):
            found[name] = pair
    names = [name for name in (*_FIRST, *found) if name in found and found[name][0] != found[name][1]]
    values = {name: [value_text(name, *pair) for pair in zip(found[name], (one, other), strict=True)] for name in names}
    told = [(name, left, right) for name, (left, right) in values.items()]
    partly = [item for item in told if {"none", "unknown"} & {*item[1:]} and (not ours or item[0] == "machine")]
    return [item for item in told if item not in partly], partly


def _lines(row: Row, other: Row, ours: Side, theirs: Side) -> list[_Line]:
    """A line for each quantity: its ratio, or why there is none."""
    found, refused = ratio(other, row), dict[str, str]()
    for quantities, reason in _refusals(row, other):
        refused = dict.fromkeys(quantities, clean(reason, 300)) | refused
    rate = None if found.total is not None else found.intervals[1]
    ratios = dict(zip(_QUANTITIES, (found.total, found.throughput, found.efficiency, found.rate), strict=True))
    intervals = dict(zip(_QUANTITIES, (*found.intervals, rate), strict=True))
    differ = "; ".join(f"{label(name)}: {one} | {two}" for name, one, two in _differing(row, other)[0])
    lines = []
    for quantity, (column, unit, *_) in _QUANTITIES.items():
        line: _Line = {"kind": "refused", "workload": row.workload, "devices": row.devices, "quantity": quantity}
        line |= {"ours": name_of(row), "theirs": name_of(other)}
        value, interval = ratios[quantity], intervals[quantity]
        if quantity in refused:
            lines.append(line | {"verdict": refused[quantity]})
        elif value and math.isfinite(value):
            line |= {"kind": "ratio", "unit": unit, "ratio": value, "differences": differ}
            line |= {"ours_value": getattr(row, column), "theirs_value": getattr(other, column)}
            line |= {} if interval is None else {"ratio_low": interval.low, "ratio_high": interval.high}
            runs = [[_of_run(column, run) for run in one.runs if not one.single_figure] for one in (row, other)]
            line |= {"runs_ours": len(runs[0]) or None, "runs_theirs": len(runs[1]) or None}
            test = permutation_test(*runs)
            line |= {} if test is None else {"p": test[0]}
            lines.append(line | {"verdict": _verdict(line, (_said(ours, row), _said(theirs, other)), test)})
        elif quantity != THROUGHPUT:
            unknown = " and ".join(name_of(one) for one in (row, other) if not getattr(one, column))
            lines.append(line | {"verdict": f"not known of {unknown}"})
    return lines


def _refusals(row: Row, other: Row) -> Iterator[tuple[tuple[str, ...], str]]:
    """Quantities whose ratio would be meaningless, the most important reason first."""
    training = (TIME, EPOCHS, EPOCH_TIME)
    if row.mode != other.mode:
        yield (*training, THROUGHPUT), f"mode {row.mode} does other work than mode {other.mode}"
    if row.to_target != other.to_target:
        fixed = "theirs" if row.to_target else "ours"
        yield training, f"{fixed} is a run of fixed length (throughput only), the other a time to target"
    elif not row.to_target:
        yield training, "both are runs of fixed length: there is a throughput only"
    if row.dataset and other.dataset and row.dataset != other.dataset:
        yield training, f"trained on another data set: {row.dataset} against {other.dataset}"
    for one, without in ((row, other), (other, row)):
        if not without.dataset and any(text.startswith("data set") for text in one.deviations):
            yield training, f"trained on another data set than the rules': {one.dataset}"
    if same_targets(row.targets, other.targets, row.workload) is False:
        both = [in_points(one.targets, row.workload).values() for one in (row, other)]
        texts = [", ".join(f"{value:.7g}" for value in one) for one in both]
        yield (TIME, EPOCHS), f"trained to another target: {' against '.join(texts)}"
    if ("token" in row.sample_unit) != ("token" in other.sample_unit):
        yield (THROUGHPUT,), f"samples are {row.sample_unit} against {other.sample_unit}"


def _of_run(column: str, run: Row) -> float | None:
    over = {"seconds_per_epoch": (run.seconds, run.epochs), "samples_per_second": (run.samples, run.train_seconds)}
    above, below = over.get(column) or (getattr(run, column), 1)
    return above / below if above and below else None


def _verdict(line: _Line, names: tuple[str, str], test: tuple[float, float] | None) -> str:
    """A ratio in words, which claim a difference only where runs show one."""
    value, runs = line["ratio"], (line["runs_ours"], line["runs_theirs"])
    column, unit, verb, claim = _QUANTITIES[line["quantity"]]
    of = {"seconds": "", "seconds_per_epoch": " an epoch"}.get(column, f" {unit}")
    values = (line["ours_value"], line["theirs_value"])
    texts = [time_text(one) if unit == "s" else figure_text(one, 4) for one in values]
    (better, good), (worse, bad) = list(zip(names, texts, strict=True))[:: 1 if value >= 1 else -1]
    equal = f"no difference ({good}{of} each)" if good == bad else ""
    both = f"{better} {verb} {good}{of}, {worse} {bad}"
    if 1 in runs and None not in runs:
        return f"{equal or both}; one run {'a side' if runs == (1, 1) else f'against {max(runs)}'} is too few to judge"
    if test is None:
        return f"{equal or both}; single runs are not known"
    if equal and test[0] >= SIGNIFICANCE:
        return equal
    ends = sorted(end if value >= 1 else 1 / end for end in (line.get("ratio_low"), line.get("ratio_high")) if end)
    between = f" (95 %: {ratio_text(ends[0])} to {ratio_text(ends[1])})" if ends else ""
    chance = f"run-to-run variation (p = {test[0]:.3f}, {runs[0]} against {runs[1]} runs)"
    if test[0] < SIGNIFICANCE and not (ends and ends[0] <= 1):
        amount = ratio_text(max(value, 1 / value))
        return f"{claim.format(better=better, worse=worse, amount=amount)}{between}, more than {chance}"
    why = f"not more than {chance}" if test[0] >= SIGNIFICANCE else f"p = {test[0]:.3f}, but the interval includes 1"
    if test[1] >= SIGNIFICANCE:
        why = f"{runs[0]} against {runs[1]} runs are too few to judge (the smallest p that they allow: {test[1]:.2g})"
    return f"no difference shown: {both}{between}; {why}"


def _sections(row: Row, other: Row, picked: str, lines: Sequence[_Line], sides: Sequence[Side]) -> list[Section]:
    """Verdict and differences; then the ratios."""
    pair = list(zip(sides, (row, other), strict=True))
    heads = (f"{side.name} ({(not one.published and side.words(one)) or name_of(one)})" for side, one in pair)
    said = [_said(side, one) for side, one in pair]
    shown = {line["quantity"]: line for line in lines if line["kind"] == "ratio"}
    known, partly = _differing(row, other)
    group = _group(row)
    above = [f"Both sides: {_NO_RELATION[group]}." if group else "", picked]
    above += [clean(text, 300) for text in _caveats(row, other, said)]
    above += [f"Verdict: {next(iter(shown.values()))['verdict']}."]
    above += [] if known else ["What differs: nothing that both sides say."]
    only = "; ".join(f"{label(name)} ({one} and {two})" for name, one, two in partly)
    first = Section(
        title=f"{_where(row)}{f' ({group})' if group else ''}: {' against '.join(heads)}",
        above=tuple(above),
        table=frame_of(
            {"what differs": label(name), sides[0].name: one, sides[1].name: two} for name, one, two in known
        ),
        below=(f"only one side says: {only}",) if only else (),
    )
    table = frame_of(
        {"quantity": name, "unit": line["unit"], sides[0].name: line["ours_value"], sides[1].name: line["theirs_value"]}
        | {column: line.get(column) for column in ("ratio", "ratio_low", "ratio_high", "p")}
        for name, line in shown.items()
    )
    below = [f"{name}: {line['verdict']}" for name, line in list(shown.items())[1:]]
    if shown.keys() >= {TIME, EPOCH_TIME, EPOCHS}:
        below.append(f"{said[0]} against {said[1]}, as measured: {ratio(other, row, intervals=False).words}")
    refused = ((line["verdict"], line["quantity"]) for line in lines if line["kind"] == "refused")
    below += _by_reason(refused, "not compared: ")
    return [first, Section(table=without_empty(table), below=tuple(below))]


def _caveats(row: Row, other: Row, names: Sequence[str]) -> Iterator[str]:
    equal = same_targets(row.targets, other.targets, row.workload) if row.to_target and other.to_target else True
    if equal is None:
        without = names[1] if row.targets else names[0]
        yield f"The target of {without} is not known: ratios of time and epochs hold only if it is the same."
    if equal is False:
        yield "Different targets: the time per epoch is the speed of training, not of reaching a target."
    if run_keys(row.runs) & run_keys(other.runs):
        yield "The same runs are on both sides."
    if "tpu" in (row.device_name + other.device_name).lower() and row.rules != other.rules:
        yield "TPUs are counted in cores in v0.5 and in chips (two cores each) from v0.6 on."
    if labels(row) and labels(row) == labels(other):
        yield f"Both: {', '.join(labels(row))}."
    for name, one in zip(names, (row, other), strict=True):
        own = (*(labels(one) if labels(row) != labels(other) else ()), *one.score_notes, one.note)
        yield from [f"{name}: {'; '.join(filter(None, own))}."] if any(own) else []


def _by_reason(refused: Iterable[tuple[str, str]], prefix: str = "") -> list[str]:
    """`time to target, epochs: why`, for each reason."""
    things: dict[str, list[str]] = {}
    for reason, thing in refused:
        things.setdefault(reason, []).append(thing)
    return [f"{prefix}{', '.join(dict.fromkeys(listed))}: {reason}" for reason, listed in things.items()]


def _convergence(sides: Sequence[Side], published: Sequence[Row]) -> tuple[Section, list[_Line]]:
    lines, table, below = list[_Line](), list[_Line](), list[str]()
    missing: list[tuple[str, str]] = []
    for side, one in [(owner, one) for owner in sides for one in convergence(owner.results, published)]:
        name, point = f"{side.name}: {side.described(one.row)}", one.reference
        line = {"kind": "convergence", "workload": one.row.workload, "devices": one.row.devices, "ours": name}
        line |= {"quantity": EPOCHS, "unit": "epochs", "ours_value": one.epochs, "runs_ours": len(one.row.runs)}
        reason = clean(one.reason, 300)
        if point is None:
            missing.append((reason, side.name if _group(one.row) else name))
            lines.append(line | {"verdict": f"not judged: {reason}"})
            continue
        line |= {"theirs": "; ".join(point.sources), "theirs_value": point.mean, "runs_theirs": point.runs}
        lines.append(line | {"verdict": one.verdict})
        row = {"result": name, "batch": point.batch, "epochs": one.epochs, "published epochs": point.mean}
        limits = {"fewest": one.fewest_acceptable, "most": one.most_expected, "verdict": one.verdict}
        table.append(row | {"published runs": point.runs} | limits)
        more = f" and {len(point.sources) - 5} more" if len(point.sources) > 5 else ""
        notes = [reason, *one.notes, f"published runs: {', '.join(point.sources[:5])}{more}"]
        below.append(f"{name}: {'; '.join(filter(None, notes))}")
    below += _by_reason(missing, "not judged: ")
    title = "Convergence: epochs to target against published runs"
    return Section(title=title, table=frame_of(table), below=tuple(below)), lines
