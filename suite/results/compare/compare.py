"""Compares two sets of results, matched by workload, target and device count: differences, ratios, refusals.

Settings that merely differ (clock rule, batch, precision, hardware, framework …) are shown. A difference that would make a
ratio meaningless is a refusal with its reason (docs/comparing.md has the list).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from suite.results.compare.convergence import Convergence, convergence, run_keys
from suite.results.compare.differences import Differences, differences, same_target, target_text
from suite.results.compare.entries import Entry, ResultSet
from suite.results.compare.ratios import EPOCH_TIME, EPOCHS, THROUGHPUT, TIME, Ratio, ratios
from suite.results.published.csv_files import PublishedResult
from suite.results.score.measurement import UNCOUNTED, Measurement
from suite.results.score.scaling import ScalingPair, scaling_pair
from suite.results.text import devices_text

_PROFILE_REASONS = {
    "demo": "demo target has no relation to MLPerf (generated data, small model)",
    "synthetic": "synthetic data have no relation to MLPerf results",
}


@dataclass(frozen=True)
class Refusal:
    """A quantity or measurement that cannot be compared, and why."""

    what: str
    """Which quantity, or which measurement."""
    reason: str


@dataclass(frozen=True)
class Match:
    """Two measurements of one workload on the same number of devices, compared."""

    ours: Entry
    theirs: Entry
    differences: Differences
    caveats: tuple[str, ...]
    """Reservations about the ratios."""
    ratios: tuple[Ratio, ...]
    """Time to target is exactly the product of time per epoch and epochs, where all three are there."""
    refused: tuple[Refusal, ...]
    pair: ScalingPair
    names: tuple[str, str]
    """Names of the two in sentences: (`ours`, `v0.5/NVIDIA/dgx1_ngc18.11_mxnet`), (`A`, `B`)."""

    def ratio(self, quantity: str) -> Ratio | None:
        """The ratio of a quantity; None if it was refused or is not known."""
        return next((item for item in self.ratios if item.quantity == quantity), None)


@dataclass(frozen=True)
class Comparison:
    """The whole comparison: matches, refusals and verdicts on convergence."""

    ours: ResultSet
    theirs: ResultSet | None
    """None: only convergence is judged."""
    matches: tuple[Match, ...]
    refusals: tuple[Refusal, ...]
    unmatched: tuple[str, ...]
    """Results that only the other set of runs has."""
    convergence: tuple[Convergence, ...]

    @property
    def comparable(self) -> bool:
        """True if anything could be compared or, without a second set, judged."""
        if self.theirs is None:
            return any(item.reference is not None for item in self.convergence)
        return bool(self.matches)


def compare(ours: ResultSet, theirs: ResultSet | None, published: Sequence[PublishedResult]) -> Comparison:
    """Match the entries of both sets, compare the matches, and judge the convergence of all runs."""
    judged = [entry.measurement for entry in ours.entries]
    matches: list[Match] = []
    refusals: list[Refusal] = []
    if theirs is not None:
        judged += [] if theirs.published else [entry.measurement for entry in theirs.entries]
        for entry in ours.entries:
            candidates = _candidates(entry, theirs)
            if isinstance(candidates, Refusal):
                refusals.append(candidates)
                continue
            for group in _group_by_partner(candidates, theirs):
                match = _make_match(entry, _least_different(entry, group), ours, theirs)
                if match.ratios:
                    matches.append(match)
                else:
                    reasons = "; ".join(dict.fromkeys(item.reason for item in match.refused))
                    refusals.append(Refusal(f"{entry.description} with {match.theirs.name}", reasons))
    taken = {id(match.theirs) for match in matches}
    left = (
        [entry for entry in theirs.entries if id(entry) not in taken]
        if theirs is not None and not theirs.published
        else []
    )
    return Comparison(
        ours=ours,
        theirs=theirs,
        matches=tuple(matches),
        refusals=tuple(refusals),
        unmatched=tuple(entry.description for entry in left),
        convergence=tuple(convergence(judged, published)),
    )


# --- matching -----------------------------------------------------------------------------------------------------------


def _candidates(entry: Entry, theirs: ResultSet) -> list[Entry] | Refusal:
    """Entries of the other set that `entry` can be compared with, or why there are none."""
    item = entry.measurement
    candidates = [other for other in theirs.entries if other.measurement.workload == item.workload]
    if not candidates:
        existing = sorted({other.measurement.workload for other in theirs.entries})
        return Refusal(
            entry.description,
            f"{theirs.name} has no result of {item.workload}; there are: {', '.join(existing) or 'none'}",
        )
    related = [other for other in candidates if _profile_group(other.measurement) == _profile_group(item)]
    if not related:
        profiles = (item.profile, candidates[0].measurement.profile)
        return Refusal(entry.description, next(_PROFILE_REASONS[name] for name in profiles if name in _PROFILE_REASONS))
    if item.devices < 1:
        return Refusal(entry.description, UNCOUNTED)
    if all(other.measurement.devices < 1 for other in related):
        return Refusal(entry.description, f"{theirs.name}: {UNCOUNTED}")
    counts = sorted({other.measurement.devices for other in related} - {0})
    as_many = [other for other in related if other.measurement.devices == item.devices]
    if not as_many:
        listed = ", ".join(map(str, counts))
        return Refusal(
            entry.description, f"{theirs.name} has no result on {devices_text(item.devices)}; there are: {listed}"
        )
    return as_many


def _profile_group(item: Measurement) -> str:
    """Group of profiles that can be compared: our reference runs and published results are `official`."""
    return item.profile if item.profile in _PROFILE_REASONS else "official"


def _group_by_partner(candidates: Iterable[Entry], theirs: ResultSet) -> list[list[Entry]]:
    """Candidates grouped so that each group yields one match: one per published system, one for a set of runs."""
    groups: dict[str, list[Entry]] = {}
    for entry in candidates:
        groups.setdefault(entry.name if theirs.published else "", []).append(entry)
    return list(groups.values())


def _least_different(entry: Entry, candidates: Sequence[Entry]) -> Entry:
    """The candidate that differs least: in what is timed, target, data, framework, system, nodes, batch, then in number."""

    def distance(other: Entry) -> tuple[object, ...]:
        item, theirs = entry.measurement, other.measurement
        target = {True: 0, None: 1, False: 2}[same_target(item, theirs)]
        kind = (item.to_target != theirs.to_target, entry.mode != other.mode, target, entry.dataset != other.dataset)
        setting = [
            getattr(item, name) != getattr(theirs, name)
            for name in ("framework", "system", "nodes", "batch_rule", "batch_size_global", "precision")
        ]
        return (*kind, *setting, len(differences(entry, other).known))

    return min(candidates, key=distance)


# --- one match ----------------------------------------------------------------------------------------------------------


def _make_match(ours: Entry, theirs: Entry, our_set: ResultSet, their_set: ResultSet) -> Match:
    names = (our_set.name, theirs.name if their_set.published else their_set.name)
    refused = tuple(_refusals(ours, theirs))
    pair = scaling_pair(theirs.measurement, ours.measurement)
    kept = ratios(
        ours.measurement, theirs.measurement, pair, {item.what for item in refused}, _epoch_time_label(ours, theirs)
    )
    missing = tuple(
        _unknown_quantities(ours, theirs, {item.quantity for item in kept} | {item.what for item in refused})
    )
    return Match(
        ours=ours,
        theirs=theirs,
        differences=differences(ours, theirs),
        caveats=tuple(dict.fromkeys(_make_caveats(ours, theirs, names))),
        ratios=tuple(kept),
        refused=(*refused, *missing),
        pair=pair,
        names=names,
    )


def _refusals(ours: Entry, theirs: Entry) -> Iterator[Refusal]:
    """Quantities whose ratio would be meaningless, each with the first reason."""
    seen: set[str] = set()
    for quantities, reason in _refusal_reasons(ours, theirs):
        for quantity in quantities:
            if quantity not in seen:
                seen.add(quantity)
                yield Refusal(quantity, reason)


def _refusal_reasons(ours: Entry, theirs: Entry) -> Iterator[tuple[tuple[str, ...], str]]:
    item, other = ours.measurement, theirs.measurement
    training = (TIME, EPOCHS, EPOCH_TIME)
    if ours.mode != theirs.mode:
        yield (*training, THROUGHPUT), f"mode {ours.mode} does other work than mode {theirs.mode}"
    if item.to_target != other.to_target:
        fixed_length = "ours" if not item.to_target else "theirs"
        yield training, f"{fixed_length} is a run of fixed length (throughput only), the other a time to target"
    elif not item.to_target:
        yield training, "both are runs of fixed length: there is a throughput only"
    other_data = _data_set_refusal(ours, theirs)
    if other_data:
        yield training, other_data
    if item.to_target and other.to_target and same_target(item, other) is False:
        yield (TIME, EPOCHS), f"trained to another target: {target_text(item)} against {target_text(other)}"
    if ("token" in item.rate_unit) != ("token" in other.rate_unit):
        yield (THROUGHPUT,), f"samples are {item.rate_unit} against {other.rate_unit}"


def _data_set_refusal(ours: Entry, theirs: Entry) -> str:
    if ours.dataset and theirs.dataset and ours.dataset != theirs.dataset:
        return f"trained on another data set: {ours.dataset} against {theirs.dataset}"
    for entry, other in ((ours, theirs), (theirs, ours)):
        if not other.dataset and any(text.startswith("data set") for text in entry.deviations):
            return f"trained on another data set than the rules': {entry.dataset}"
    return ""


def _unknown_quantities(ours: Entry, theirs: Entry, seen: set[str]) -> Iterator[Refusal]:
    """Quantities of a time to target that one of the two does not have."""
    values: dict[str, Callable[[Measurement], float | None]] = {
        TIME: lambda item: item.score.seconds,
        EPOCH_TIME: lambda item: item.score.seconds_per_epoch,
        EPOCHS: lambda item: item.score.epochs,
    }
    for quantity, value in values.items():
        if quantity not in seen:
            unknown_in = [entry.name for entry in (ours, theirs) if not value(entry.measurement)]
            yield Refusal(quantity, f"not known of {' and '.join(unknown_in)}")


def _epoch_time_label(ours: Entry, theirs: Entry) -> str:
    """Label of the time-per-epoch ratio if the targets differ, so that it is not taken for a time to target."""
    if same_target(ours.measurement, theirs.measurement) is False:
        return "to different targets: speed of training, not time to target"
    return ""


def _make_caveats(ours: Entry, theirs: Entry, names: tuple[str, str]) -> Iterator[str]:
    item, other = ours.measurement, theirs.measurement
    if item.to_target and other.to_target and same_target(item, other) is None:
        without_target = names[1] if item.targets else names[0]
        yield f"the target of {without_target} is not known: ratios of time and epochs hold only if it is the same"
    if run_keys(item.runs) & run_keys(other.runs):
        yield "the same runs are on both sides"
    if "tpu" in (item.hardware + other.hardware).lower() and item.rules != other.rules:
        yield "TPUs are counted in cores in v0.5 and in chips (two cores each) from v0.6 on"
    labels = [", ".join(one.labels) for one in (item, other)]
    if labels[0] and labels[0] == labels[1]:
        yield f"both: {labels[0]}"
    for name, label, one in zip(names, labels, (item, other), strict=True):
        if label and labels[0] != labels[1]:
            yield f"{name}: {label}"
        official = one.profile not in _PROFILE_REASONS  # runs of other profiles make no official score: none is missing
        yield from (f"{name}: {text}" for text in (*(one.score.notes if official else ()), one.note) if text)
