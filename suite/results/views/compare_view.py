"""`suite compare`: ratios between two sets of results, and their differences.

Meaningless ratios are omitted with a reason (docs/how-to/compare.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from suite.results.columns import EPOCH_COLUMNS, Result
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.experiment_key import EPOCH_TIME, EPOCHS, THROUGHPUT, TIME, incomparable_reasons
from suite.results.names import short_title
from suite.results.ratios import SIGNIFICANCE, Ratio, ratio, ratio_text
from suite.results.text import clean, devices_text, figure_text, time_text
from suite.results.views.compare_settings import (
    comparison_caveats,
    find_differences,
    most_similar,
    settings_section,
)
from suite.results.views.compare_sides import Side, hardware_text, result_name
from suite.results.views.convergence import Convergence, judge_convergence
from suite.results.views.section import DEVICES_NOT_KNOWN, NOT_VERIFIED, Section, View, ViewKind
from suite.results.views.speedup_text import NOT_SEPARATED
from suite.results.views.verdict import (
    COLUMNS,
    ComparisonRow,
    RowKind,
    is_known_ratio,
    judge,
    quantities,
    quantity_texts,
    quantity_title,
)

_NOTICES = {
    "demo": "DEMO: small models with targets for demos. Not MLPerf results.",
    "synthetic": "SYNTHETIC DATA: these results measure throughput only. Not MLPerf results.",
}
"""Notice above a comparison, by profile."""

_NO_RELATION = {
    "demo": (
        "a demo has a small model and a target for demos, so it cannot be compared with MLPerf"
        " results. Compare it with a demo"
    ),
    "synthetic": (
        "runs on synthetic data measure throughput only and cannot be compared with MLPerf results."
        " Compare them with runs on synthetic data"
    ),
}
"""Reason why results of a profile cannot be compared with results of a different profile."""


class _Refused(NamedTuple):
    """Result, or quantity of a pair of results, that cannot be compared."""

    subject: str
    reason: str


@dataclass(frozen=True)
class _Match:
    """Result of the first side and the matching result of the second side."""

    ours: Result
    theirs: Result | None
    """Matching result. None if the second side has no comparable result."""
    note: str
    """Reason for choosing `theirs` among several candidates, or for a missing comparable result."""


@dataclass(frozen=True)
class _Comparison:
    """Comparison of two results."""

    ours: Result
    theirs: Result
    note: str
    """Reason for choosing `theirs` among several candidates.

    The note is empty if `theirs` belongs to the same experiment or is the only candidate.
    """
    ratio: Ratio
    rows: tuple[ComparisonRow, ...]
    """Rows for all quantities, with the ratio or the reason for a missing ratio."""

    @property
    def compared(self) -> list[ComparisonRow]:
        """Return the rows that have a ratio, the most important quantity first."""
        return [row for row in self.rows if row.kind is RowKind.RATIO]

    @property
    def separates_setup(self) -> bool:
        """Return whether the logs of both results separate setup."""
        return self.ours.parts is not None and self.theirs.parts is not None


def compare(ours: Side, theirs: Side | None, published: Sequence[Result]) -> View:
    """Compare each result of the first side with the most similar result of the second.

    Args:
        ours: The first side.
        theirs: The second side. With None, only the convergence of `ours` is checked.
        published: Published results, as a reference for the number of epochs to target.
    """
    if theirs is None:
        convergence, rows = _convergence([ours], published)
        sections = [Section("Left out", below=ours.left_out), convergence]
        return View(
            "Convergence",
            _not_empty(sections),
            _data(rows),
            (NOT_VERIFIED,),
            kind=ViewKind.CONVERGENCE,
        )
    names = (ours.name, theirs.name)
    comparisons: list[_Comparison] = []
    refused: list[_Refused] = []
    rows = []
    matched: set[str] = set()  # Keys of matched results of the second side.
    for match in _matches(ours, theirs):
        if match.theirs is not None:
            matched.add(match.theirs.key)
        comparison = (
            _compare_results(match.ours, match.theirs, match.note, names) if match.theirs else None
        )
        if comparison is not None and comparison.compared:
            comparisons.append(comparison)
            rows += comparison.rows
            continue
        subject = ours.describe(match.ours)
        if match.theirs is not None:
            subject += f" with {theirs.describe(match.theirs)}"
        verdicts = [] if comparison is None else [row.verdict or "" for row in comparison.rows]
        refusal = _Refused(subject, "; ".join(dict.fromkeys(verdicts)) or match.note)
        refused.append(refusal)
        rows.append(
            ComparisonRow(kind=RowKind.REFUSED, ours=refusal.subject, verdict=refusal.reason)
        )
    setup_is_separated = any(comparison.separates_setup for comparison in comparisons)
    sections = []
    for comparison in comparisons:
        sections += _comparison_sections(comparison, (ours, theirs), setup_is_separated)
    left_out = [*ours.left_out, *theirs.left_out]
    if not theirs.published:
        unmatched = [result for result in theirs.results if result.key not in matched]
        left_out += [f"only in {theirs.name}: {theirs.describe(result)}" for result in unmatched]
    judged_sides = [ours] if theirs.published else [ours, theirs]
    convergence, convergence_rows = _convergence(judged_sides, published)
    sections += [
        Section("Not compared", below=_by_reason(refused)),
        Section("Left out", below=tuple(left_out)),
    ]
    if not all(result.profile in _NO_RELATION for side in judged_sides for result in side.results):
        sections.append(convergence)
    above = [
        " ".join((*_notices(comparisons), NOT_VERIFIED)),
        f"{ours.name} = {clean(ours.title, 400)}. {theirs.name} = {clean(theirs.title, 400)}.",
    ]
    if comparisons:
        units = _units_text(comparison.ours for comparison in comparisons)
        above.append(
            f"A ratio above 1 means that {ours.name} is better: less time, fewer {units}, or more"
            " samples/s."
        )
    to_target = any(comparison.ratio.total is not None for comparison in comparisons)
    if to_target and not setup_is_separated:
        above.append(NOT_SEPARATED)
    data = _data([*rows, *convergence_rows])
    return View("Comparison", _not_empty(sections), data, tuple(above), kind=ViewKind.COMPARISON)


def _not_empty(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(
        section
        for section in sections
        if section.below or section.above or section.facts or section.table
    )


def _units_text(results: Iterable[Result]) -> str:
    """Return the units in which results count training up to the target: `epochs or samples`."""
    return " or ".join(dict.fromkeys(result.epoch_unit for result in results)) or "epochs"


def _data(rows: Iterable[ComparisonRow]) -> DataTable:
    return DataTable.from_rows((row.columns() for row in rows), COLUMNS)


def _notices(comparisons: Iterable[_Comparison]) -> list[str]:
    profiles = dict.fromkeys(comparison.ours.profile for comparison in comparisons)
    return [_NOTICES[profile] for profile in profiles if profile in _NOTICES]


def comparable(view: View) -> bool:
    """Check whether any result was compared.

    Results are compared with the second side, or with published runs if there is no second side.
    """
    kind = RowKind.CONVERGENCE if view.kind is ViewKind.CONVERGENCE else RowKind.RATIO
    return any(row["kind"] == kind.value and row["theirs_value"] is not None for row in view.data)


def _matches(ours: Side, theirs: Side) -> Iterator[_Match]:
    """Yield each result of the first side with the most similar result of the second side.

    With several published systems, a result is compared with a result of each system.
    """
    for result in ours.results:
        same_workload = [
            candidate for candidate in theirs.results if candidate.workload == result.workload
        ]
        relation = _NO_RELATION.get(result.profile)
        related = [
            candidate
            for candidate in same_workload
            if _NO_RELATION.get(candidate.profile) == relation
        ]
        alike = [
            candidate
            for candidate in related
            if result.devices and candidate.devices == result.devices
        ]
        if not alike:
            yield _Match(
                result, None, clean(_why_unmatched(result, theirs, same_workload, related), 300)
            )
        systems = grouped(alike, lambda candidate: candidate.run if theirs.published else "")
        for candidates in systems.values():
            yield _Match(result, *most_similar(result, candidates, theirs.name))


def _why_unmatched(
    result: Result, theirs: Side, same_workload: Sequence[Result], related: Sequence[Result]
) -> str:
    """Return why a result has no match, and which comparison is possible instead."""
    if same_workload and not related:
        return _NO_RELATION.get(result.profile) or _NO_RELATION[same_workload[0].profile]
    if related and not (result.devices and any(candidate.devices for candidate in related)):
        return DEVICES_NOT_KNOWN
    if related:
        counts = ", ".join(
            map(str, sorted({candidate.devices for candidate in related if candidate.devices}))
        )
        return (
            f"{theirs.name} has no result on {devices_text(result.devices or 0)}. Compare on"
            f" {counts} instead"
        )
    workloads = (
        ", ".join(sorted({candidate.workload for candidate in theirs.results})) or "no results"
    )
    return f"{theirs.name} has no result of {result.workload}; it has {workloads}"


def _compare_results(
    ours: Result, theirs: Result, note: str, names: tuple[str, str]
) -> _Comparison:
    """Compare two results.

    Args:
        ours: Result of the first side.
        theirs: Result of the second side.
        note: Reason for choosing `theirs`.
        names: Names of the two sides.
    """
    measured = ratio(theirs, ours)
    return _Comparison(ours, theirs, note, measured, tuple(_rows(measured, names)))


def _rows(measured: Ratio, names: tuple[str, str]) -> Iterator[ComparisonRow]:
    """Yield a row for each quantity with its ratio, or the reason for a missing ratio."""
    ours, theirs = measured.after, measured.before
    refused: dict[str, str] = {}
    for refusal in incomparable_reasons(ours, theirs, names):
        for name in refusal.quantities:
            refused.setdefault(name, clean(refusal.text, 300))
    pair = ComparisonRow(
        kind=RowKind.REFUSED,
        workload=ours.workload,
        devices=ours.devices,
        ours=result_name(ours),
        theirs=result_name(theirs),
    )
    both = find_differences(ours, theirs).of_both
    differ = "; ".join(f"{setting.name}: {setting.ours} | {setting.theirs}" for setting in both)
    in_blocks = ours.parts is not None and theirs.parts is not None
    for quantity in quantities(in_blocks, ours.epoch_unit):
        if quantity.name in refused:
            yield replace(pair, quantity=quantity.name, verdict=refused[quantity.name])
        elif is_known_ratio(quantity.ratio(measured)):
            yield judge(quantity, replace(pair, differences=differ), measured, names)
        elif quantity.name != THROUGHPUT:
            without = [result_name(side) for side in (ours, theirs) if not quantity.value(side)]
            yield replace(
                pair, quantity=quantity.name, verdict=f"unknown for {' and '.join(without)}"
            )


def _comparison_sections(
    comparison: _Comparison, sides: tuple[Side, Side], setup_is_separated: bool
) -> list[Section]:
    """Return the verdicts with the table of ratios, and the table of differing settings.

    Args:
        comparison: Two results that are compared.
        sides: The two sides of the comparison.
        setup_is_separated: True if any comparison of the view separates setup. A note is then added
            to comparisons that do not separate setup.
    """
    ours, theirs = comparison.ours, comparison.theirs
    names = (sides[0].name, sides[1].name)
    profile = f" ({ours.profile})" if ours.profile in _NO_RELATION else ""
    both = f"{names[0]} ({sides[0].name_of(ours)}) and {names[1]} ({sides[1].name_of(theirs)})"
    main, *further = comparison.compared
    unit = ours.epoch_unit
    facts = [(_capitalized(quantity_title(main.quantity or "", unit)), main.verdict or "")]
    for row in further:
        if row.p is not None and row.p < SIGNIFICANCE:
            title = quantity_title(row.quantity or "", unit)
            facts.append((_capitalized(title), row.verdict or ""))
    if main.quantity == TIME:
        facts[0] = (facts[0][0], f"{facts[0][1]} {_setup_sentence(comparison, names)}".rstrip())
    table = DataTable.from_rows(_ratio_table_rows(comparison, names)).without_empty()
    refused = [
        _Refused(row.quantity or "", row.verdict or "")
        for row in comparison.rows
        if row.kind is RowKind.REFUSED
    ]
    below = [
        *_factors(comparison),
        *_by_reason(refused, "Not compared: "),
        *comparison_caveats(ours, theirs, names),
    ]
    if (
        setup_is_separated
        and ours.to_target
        and theirs.to_target
        and ours.parts is None
        and theirs.parts is None
    ):
        below.append("The logs of both sides do not separate setup, so time per epoch includes it.")
    ratios = Section(
        title=f"{hardware_text(ours)}{profile}: {both}",
        above=(comparison.note,) if comparison.note else (),
        facts=tuple(facts),
        table=table,
        below=tuple(below),
    )
    return [ratios, settings_section(ours, theirs, names)]


def _capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _ratio_table_rows(
    comparison: _Comparison, names: tuple[str, str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of the table of ratios, with setup after the time to target."""
    ours, theirs = names
    for row in comparison.compared:
        assert row.quantity is not None
        texts = quantity_texts(row.quantity, row.ours_value or 0.0, row.theirs_value or 0.0)
        yield {
            "quantity": quantity_title(row.quantity, comparison.ours.epoch_unit),
            ours: texts[0],
            theirs: texts[1],
            "ratio": row.ratio,
            "ratio_low": row.ratio_low,
            "ratio_high": row.ratio_high,
            "p": row.p,
        }
        parts = comparison.ours.parts, comparison.theirs.parts
        if row.quantity == TIME and parts[0] is not None and parts[1] is not None:
            yield {
                "quantity": "setup",
                ours: time_text(parts[0].setup),
                theirs: time_text(parts[1].setup),
            }


def _setup_sentence(comparison: _Comparison, names: tuple[str, str]) -> str:
    """Return how much of the difference in time to target is due to setup.

    The sentence is empty if the fraction is unknown or less than 20 %.
    """
    ours, theirs = comparison.ours.parts, comparison.theirs.parts
    if ours is None or theirs is None or not comparison.ratio.setup_explains_much:
        return ""
    setup = (
        f"Setup took {time_text(ours.setup)} in {names[0]} and {time_text(theirs.setup)} in"
        f" {names[1]}"
    )
    share = comparison.ratio.setup_saving
    if share is not None and 0 <= share <= 1:
        return f"{setup}, which explains {100 * share:.0f} % of the difference."
    rest = (
        f"{names[0]} took {time_text(ours.total - ours.setup)} and {names[1]}"
        f" {time_text(theirs.total - theirs.setup)}"
    )
    return f"{setup}. Without setup {rest}."


def _factors(comparison: _Comparison) -> Iterator[str]:
    """Yield the factors of the ratio of times to target.

    There are no factors if their product differs from the ratio.
    """
    measured = comparison.ratio
    compared = {row.quantity for row in comparison.compared}
    if (
        TIME not in compared
        or measured.total is None
        or measured.throughput is None
        or measured.efficiency is None
    ):
        return
    unit = comparison.ours.epoch_unit
    factors = [
        (quantity_title(EPOCH_TIME, unit), measured.throughput),
        (unit, measured.efficiency),
    ]
    if measured.setup is not None:
        factors.append(("setup and other time outside of epochs", measured.setup))
    scaling = (comparison.theirs.scaling_factor or 1.0) / (comparison.ours.scaling_factor or 1.0)
    if scaling != 1.0:
        factors.append(("scaling factors", scaling))
    product = " × ".join(f"{ratio_text(value)} ({name})" for name, value in factors)
    yield f"{ratio_text(measured.total)} (time to target) = {product}."


def _by_reason(refused: Iterable[_Refused], prefix: str = "") -> tuple[str, ...]:
    """Return a line for each reason: `time to target, epochs: reason`."""
    lines = []
    for reason, members in grouped(refused, lambda refusal: refusal.reason).items():
        subjects = dict.fromkeys(refusal.subject for refusal in members)
        lines.append(f"{prefix}{', '.join(subjects)}: {reason}")
    return tuple(lines)


def _convergence(
    sides: Sequence[Side], published: Sequence[Result]
) -> tuple[Section, list[ComparisonRow]]:
    """Return the section and the rows that compare epochs to target with published runs."""
    rows: list[ComparisonRow] = []
    table: list[Mapping[str, Any]] = []
    missing: list[_Refused] = []
    for side in sides:
        for found in judge_convergence(side.results, published):
            name = f"{side.name}: {side.describe(found.result)}"
            rows.append(_convergence_row(found, name))
            if found.reference is not None:
                row = _convergence_table_row(found, side)
                table.append({"side": side.name, **row} if len(sides) > 1 else row)
                continue
            subject = side.name if found.result.profile in _NO_RELATION else name
            missing.append(_Refused(subject, found.why_not_judged))
    units = _units_text(result for side in sides for result in side.results)
    title = f"Convergence: {units} to target compared with published runs"
    keys = 4 if len(sides) > 1 else 3
    shown = DataTable.from_rows(table)
    return Section(title, table=shown, below=_by_reason(missing, "Not judged: "), keys=keys), rows


def _convergence_row(found: Convergence, name: str) -> ComparisonRow:
    """Return the data row on the epochs of a result."""
    result, reference = found.result, found.reference
    verdict = found.verdict.value
    return ComparisonRow(
        kind=RowKind.CONVERGENCE,
        workload=result.workload,
        devices=result.devices,
        ours=name,
        theirs=None if reference is None else "; ".join(reference.sources),
        quantity=EPOCHS,
        unit=result.epoch_unit,
        ours_value=found.epochs,
        theirs_value=None if reference is None else reference.mean,
        runs_ours=len(result.runs),
        runs_theirs=None if reference is None else reference.runs,
        verdict=f"{verdict}: {found.why_not_judged}" if found.why_not_judged else verdict,
    )


def _convergence_table_row(found: Convergence, side: Side) -> Mapping[str, Any]:
    """Return the table row on the epochs of a result that has a reference."""
    reference = found.reference
    assert reference is not None
    accepted = ""
    if found.fewest_acceptable is not None and found.most_expected is not None:
        accepted = f"{figure_text(found.fewest_acceptable)}–{figure_text(found.most_expected)}"
    notes = (found.why_not_judged, *found.notes, f"published runs: {', '.join(reference.sources)}")
    return {
        "workload": short_title(clean(found.result.workload, 40)),
        "devices": found.result.devices,
        "result": side.name_of(found.result),
        "batch": reference.batch,
        EPOCH_COLUMNS[found.result.epoch_unit]: found.epochs,
        "published": reference.mean,
        "accepted": accepted,
        "verdict": found.verdict.value,
        "notes": tuple(filter(None, notes)),
    }
