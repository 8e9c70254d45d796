"""Results side by side: matched by workload, target and device count; what differs first, then ratios, then what was refused.

What is merely different (clock rule, batch, precision, hardware, framework …) is a difference shown. What would make a ratio
meaningless is a refusal with its reason (docs/comparing.md has the list).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from suite.results.compare.convergence import Convergence, convergence, identities
from suite.results.compare.differences import Differences, differences, in_tokens, same_target, target_text
from suite.results.compare.entries import Entry, Side
from suite.results.compare.ratios import EPOCH_TIME, EPOCHS, THROUGHPUT, TIME, Ratio, ratios
from suite.results.published.csv_files import PublishedResult
from suite.results.score.measurement import Measurement
from suite.results.score.scaling import ScalingPair, scaling_pair
from suite.results.text import devices_text

_PROFILE_REASONS = {
    "demo": "demo target has no relation to MLPerf (generated data, small model)",
    "synthetic": "synthetic runs train on made-up data, which has no relation to MLPerf results",
}


@dataclass(frozen=True)
class Refusal:
    """Something that cannot be compared."""

    what: str
    """Which quantity, or which measurement."""
    reason: str


@dataclass(frozen=True)
class Match:
    """Two measurements of one workload on as many devices."""

    ours: Entry
    theirs: Entry
    differences: Differences
    caveats: tuple[str, ...]
    """In what the ratios hold only with reservation."""
    ratios: tuple[Ratio, ...]
    """Time to target is exactly the product of time per epoch and epochs, where all three are there."""
    refused: tuple[Refusal, ...]
    pair: ScalingPair
    names: tuple[str, str]
    """What the two are called in sentences: (`ours`, `v0.5/NVIDIA/dgx1_ngc18.11_mxnet`), (`A`, `B`)."""

    def ratio(self, quantity: str) -> Ratio | None:
        """The ratio of a quantity; None if it was refused or is not known."""
        return next((item for item in self.ratios if item.quantity == quantity), None)


@dataclass(frozen=True)
class Comparison:
    """All of it."""

    ours: Side
    theirs: Side | None
    """None: convergence only."""
    matches: tuple[Match, ...]
    refusals: tuple[Refusal, ...]
    unmatched: tuple[str, ...]
    """What only the other set of runs has."""
    convergence: tuple[Convergence, ...]

    @property
    def comparable(self) -> bool:
        """True if anything could be compared, or, with one side only, judged."""
        if self.theirs is None:
            return any(item.reference is not None for item in self.convergence)
        return bool(self.matches)


def compare(ours: Side, theirs: Side | None, published: Sequence[PublishedResult]) -> Comparison:
    """Match, compare and judge."""
    judged = [entry.measurement for entry in ours.entries]
    matches: list[Match] = []
    refusals: list[Refusal] = []
    if theirs is not None:
        judged += [] if theirs.published else [entry.measurement for entry in theirs.entries]
        for entry in ours.entries:
            found = _candidates(entry, theirs)
            if isinstance(found, Refusal):
                refusals.append(found)
                continue
            for group in _grouped(found, theirs):
                match = _match(entry, _nearest(entry, group), ours, theirs)
                if match.ratios:
                    matches.append(match)
                else:
                    reasons = "; ".join(dict.fromkeys(item.reason for item in match.refused))
                    refusals.append(Refusal(f"{entry.what} with {match.theirs.name}", reasons))
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
        unmatched=tuple(entry.what for entry in left),
        convergence=tuple(convergence(judged, published)),
    )


# --- matching -----------------------------------------------------------------------------------------------------------


def _candidates(entry: Entry, theirs: Side) -> list[Entry] | Refusal:
    """Entries of the other side that may stand beside `entry`, or why there is none."""
    item = entry.measurement
    found = [other for other in theirs.entries if other.measurement.workload == item.workload]
    if not found:
        there = sorted({other.measurement.workload for other in theirs.entries})
        return Refusal(
            entry.what, f"{theirs.name} has no result of {item.workload}; there are: {', '.join(there) or 'none'}"
        )
    related = [other for other in found if _kind(other.measurement) == _kind(item)]
    if not related:
        profiles = (item.profile, found[0].measurement.profile)
        return Refusal(entry.what, next(_PROFILE_REASONS[name] for name in profiles if name in _PROFILE_REASONS))
    counts = sorted({other.measurement.devices for other in related})
    as_many = [other for other in related if other.measurement.devices == item.devices]
    if not as_many:
        listed = ", ".join(map(str, counts))
        return Refusal(entry.what, f"{theirs.name} has no result on {devices_text(item.devices)}; there are: {listed}")
    return as_many


def _kind(item: Measurement) -> str:
    """Profiles with the same kind may meet: ours with the reference profile and published ones."""
    return item.profile if item.profile in _PROFILE_REASONS else "official"


def _grouped(found: Iterable[Entry], theirs: Side) -> list[list[Entry]]:
    """A set of runs has one partner for each of ours; of published results each system has one."""
    groups: dict[str, list[Entry]] = {}
    for entry in found:
        groups.setdefault(entry.name if theirs.published else "", []).append(entry)
    return list(groups.values())


def _nearest(entry: Entry, found: Sequence[Entry]) -> Entry:
    """The one that differs least: in what is timed, target, data, framework, system, batch, then in number."""

    def distance(other: Entry) -> tuple[object, ...]:
        item, theirs = entry.measurement, other.measurement
        target = {True: 0, None: 1, False: 2}[same_target(item, theirs)]
        kind = (item.to_target != theirs.to_target, entry.mode != other.mode, target, entry.dataset != other.dataset)
        setting = [
            getattr(item, name) != getattr(theirs, name)
            for name in ("framework", "system", "batch_rule", "batch_size_global", "precision")
        ]
        return (*kind, *setting, len(differences(entry, other).known))

    return min(found, key=distance)


# --- one match ----------------------------------------------------------------------------------------------------------


def _match(ours: Entry, theirs: Entry, side: Side, other_side: Side) -> Match:
    names = (side.name, theirs.name if other_side.published else other_side.name)
    refused = tuple(_refusals(ours, theirs))
    pair = scaling_pair(theirs.measurement, ours.measurement)
    kept = ratios(ours.measurement, theirs.measurement, pair, {item.what for item in refused}, _label(ours, theirs))
    missing = tuple(_missing(ours, theirs, {item.quantity for item in kept} | {item.what for item in refused}))
    return Match(
        ours=ours,
        theirs=theirs,
        differences=differences(ours, theirs),
        caveats=tuple(dict.fromkeys(_caveats(ours, theirs, names))),
        ratios=tuple(kept),
        refused=(*refused, *missing),
        pair=pair,
        names=names,
    )


def _refusals(ours: Entry, theirs: Entry) -> Iterator[Refusal]:
    """Quantities whose ratio would mean nothing. The first reason for each counts."""
    said: set[str] = set()
    for quantities, reason in _reasons(ours, theirs):
        for quantity in quantities:
            if quantity not in said:
                said.add(quantity)
                yield Refusal(quantity, reason)


def _reasons(ours: Entry, theirs: Entry) -> Iterator[tuple[tuple[str, ...], str]]:
    item, other = ours.measurement, theirs.measurement
    training = (TIME, EPOCHS, EPOCH_TIME)
    if ours.mode != theirs.mode:
        yield (*training, THROUGHPUT), f"mode {ours.mode} does other work than mode {theirs.mode}"
    if item.to_target != other.to_target:
        side = "ours" if not item.to_target else "theirs"
        yield training, f"{side} is a run of fixed length (throughput only), the other a time to target"
    elif not item.to_target:
        yield training, "both are runs of fixed length: there is a throughput only"
    other_data = _other_data(ours, theirs)
    if other_data:
        yield training, other_data
    if item.to_target and other.to_target and same_target(item, other) is False:
        yield (TIME, EPOCHS), f"trained to another target: {target_text(item)} against {target_text(other)}"
    if in_tokens(item) != in_tokens(other):
        yield (THROUGHPUT,), f"samples are {item.batch_unit} against {other.batch_unit}"


def _other_data(ours: Entry, theirs: Entry) -> str:
    if ours.dataset and theirs.dataset and ours.dataset != theirs.dataset:
        return f"trained on another data set: {ours.dataset} against {theirs.dataset}"
    for entry, beside in ((ours, theirs), (theirs, ours)):
        if not beside.dataset and any(text.startswith("data set") for text in entry.deviations):
            return f"trained on another data set than the rules': {entry.dataset}"
    return ""


def _missing(ours: Entry, theirs: Entry, said: set[str]) -> Iterator[Refusal]:
    """Quantities of a time to target that one side does not know."""
    values: dict[str, Callable[[Measurement], float | None]] = {
        TIME: lambda item: item.score.seconds,
        EPOCH_TIME: lambda item: item.score.seconds_per_epoch,
        EPOCHS: lambda item: item.score.epochs,
    }
    for quantity, value in values.items():
        if quantity not in said:
            unsaid = [entry.name for entry in (ours, theirs) if not value(entry.measurement)]
            yield Refusal(quantity, f"not known of {' and '.join(unsaid)}")


def _label(ours: Entry, theirs: Entry) -> str:
    """What must stand beside a time per epoch that is compared without the time to target."""
    if same_target(ours.measurement, theirs.measurement) is False:
        return "to different targets: speed of training, not time to target"
    return ""


def _caveats(ours: Entry, theirs: Entry, names: tuple[str, str]) -> Iterator[str]:
    item, other = ours.measurement, theirs.measurement
    if item.to_target and other.to_target and same_target(item, other) is None:
        side = names[1] if item.targets else names[0]
        yield f"the target of {side} is not known: ratios of time and epochs hold only if it is the same"
    if identities(item.runs) & identities(other.runs):
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
