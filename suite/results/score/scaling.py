"""Speedups decomposed for every pair of device counts: total = time-per-epoch ratio x epochs ratio, with an interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from suite.results.score.bootstrap import CONFIDENCE_LEVEL, MINIMUM_RUNS, Bootstrap, Interval, RatioIntervals
from suite.results.score.condition import merged_labels
from suite.results.score.family_labels import differing_values
from suite.results.score.measurement import Measurement, by_family
from suite.results.text import devices_text, placed_text

PRINTED_TOLERANCE = 0.003
"""Relative difference allowed between a printed speedup and its own tables: the article's figures are rounded."""
ACROSS_NODES = "across nodes: the network between them counts"
"""The flag of a speedup from one number of nodes to another."""
OTHER_SEEDS = "epochs to target vary from seed to seed; runs of different seeds"
"""How the flag of epochs that differ between too few runs begins."""
SAME_EPOCHS = 0.005
"""Epochs ratios nearer to 1 than this print as 1.00 and are called the same."""
_ROUNDING = 1e-6
"""A ratio below 1 by no more than this is not called slower."""


@dataclass(frozen=True)
class ScalingPair:
    """The speedup between two measurements of one family on different numbers of devices. Above 1: more devices are better."""

    before: Measurement
    after: Measurement
    total: float | None
    """Ratio of times to target, exactly `throughput * efficiency` where both are known; None for runs of fixed length."""
    throughput: float | None
    """Ratio of times per epoch (mean seconds / mean epochs of the same retained runs); of fixed-length runs of samples/s."""
    efficiency: float | None
    """Statistical efficiency: ratio of epochs to target."""
    interval: Interval | None
    """Of `total`; for runs of fixed length of `throughput`."""
    interval_throughput: Interval | None
    interval_efficiency: Interval | None
    no_interval: str
    """Why there is none; empty if there is one."""
    scaling_kind: str
    """`strong` (same global batch), `weak` (same batch per device), `mixed` (neither), `unknown`."""
    flags: tuple[str, ...]
    """Warnings: what else differs between the two, or why the choice of the two is ambiguous."""
    settings: str = ""
    """In what the two differ from other results on as many devices: `learning_rate=0.01`."""

    @property
    def workload(self) -> str:
        """The suite's name of the workload."""
        return self.before.workload

    @property
    def series(self) -> str:
        """Name shared by both measurements."""
        return self.before.series

    @property
    def devices_from(self) -> int:
        """The smaller number of devices."""
        return self.before.devices

    @property
    def devices_to(self) -> int:
        """The larger number of devices."""
        return self.after.devices

    @property
    def places(self) -> str:
        """From where to where: `1 → 8`; over several nodes `1 × 1 → 2 × 4`, nodes × devices per node."""
        return " → ".join(
            placed_text(item.devices, item.nodes, self._several_nodes) for item in (self.before, self.after)
        )

    @property
    def _several_nodes(self) -> bool:
        return max(self.before.nodes, self.after.nodes) > 1

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of either measurement, to show beside every number."""
        return merged_labels((*self.before.labels, *self.after.labels))

    @property
    def notes(self) -> tuple[str, ...]:
        """Why the scores of the two measurements are not official."""
        return tuple(dict.fromkeys((*self.before.score.notes, *self.after.score.notes)))

    @property
    def scaling_efficiency(self) -> float | None:
        """Throughput ratio over the ratio of devices: 1 is linear scaling."""
        return None if self.throughput is None else self.throughput / (self.devices_to / self.devices_from)

    @property
    def verdict(self) -> str:
        """The speedup and its factors in words: `15.8× = 7.9× faster epochs × 2.0× fewer epochs`."""
        return speedup_text(self.total, self.throughput, self.efficiency)


def scaling_pairs(measurements: Iterable[Measurement], intervals: bool = True) -> list[ScalingPair]:
    """Every pair of device counts within a family, fewest devices first; the order of `measurements` changes nothing.

    Where a count was measured with several settings, those that agree in their logged hyperparameters are paired; if none do,
    all are, and flagged. `intervals=False` leaves the bootstrap out.
    """
    bootstrap = Bootstrap() if intervals else None
    families = by_family(sorted(measurements, key=_order))
    family_pairs = [pair for family in families for pair in _family_pairs(family, bootstrap)]
    return sorted(family_pairs, key=lambda pair: (_order(pair.before), _order(pair.after)))


def scaling_pair(before: Measurement, after: Measurement, flags: Iterable[str] = ()) -> ScalingPair:
    """The speedup from `before` to `after`; the caller decides that the two may be compared."""
    return _make_pair(before, after, tuple(flags), Bootstrap())


def _order(item: Measurement) -> tuple[object, ...]:
    place = (item.origin, item.workload, item.series, repr(item.family), item.devices, item.batch_size_global or 0)
    return (*place, item.system, sorted(item.hyperparameters.items()), item.score.seconds or 0.0, repr(item.score))


def _family_pairs(family: Sequence[Measurement], bootstrap: Bootstrap | None) -> Iterator[ScalingPair]:
    counts: dict[int, list[Measurement]] = {}
    for item in family:
        if item.devices > 0:
            counts.setdefault(item.devices, []).append(item)
    for fewer, more in combinations(sorted(counts), 2):
        both = [(one, other) for one in counts[fewer] for other in counts[more]]
        alike = [(one, other) for one, other in both if one.hyperparameters == other.hyperparameters]
        for one, other in alike if len(both) > 1 and alike else both:
            several = [(item, counts[item.devices]) for item in (one, other) if len(counts[item.devices]) > 1]
            own = dict.fromkeys(text for item, twins in several if (text := _own_settings(item, twins)))
            flags = [_ambiguity_flag(item, twins) for item, twins in several]
            yield replace(_make_pair(one, other, tuple(flags), bootstrap), settings=" → ".join(own))


def _own_settings(item: Measurement, twins: Sequence[Measurement]) -> str:
    """In what `item` differs from other results on as many devices: `batch=4096, learning_rate=0.01`."""
    return differing_values(_setting_values(item), [_setting_values(twin) for twin in twins])


def _setting_values(item: Measurement) -> Mapping[str, str]:
    settings = {"system": item.system or "none", "batch": str(item.batch_size_global or "unknown")}
    return {**item.hyperparameters, **settings, "nodes": str(item.nodes)}


def _ambiguity_flag(item: Measurement, twins: Sequence[Measurement]) -> str:
    own = _own_settings(item, twins)
    return f"one of {len(twins)} results on {devices_text(item.devices, item.nodes)}{f': {own}' if own else ''}"


def _make_pair(
    before: Measurement, after: Measurement, flags: tuple[str, ...], bootstrap: Bootstrap | None
) -> ScalingPair:
    one, other = before.score, after.score
    to_target = before.to_target and after.to_target
    if to_target:
        throughput = _ratio(one.seconds_per_epoch, other.seconds_per_epoch)
        efficiency = _ratio(one.epochs, other.epochs)
        known = throughput is not None and efficiency is not None
        total = throughput * efficiency if known else _ratio(one.seconds, other.seconds)  # type: ignore[operator]
        throughput, efficiency = (throughput, efficiency) if known else (None, None)
    else:
        total, throughput, efficiency = None, _ratio(other.samples_per_second, one.samples_per_second), None
    why, intervals = (
        bootstrap.intervals(before, after) if bootstrap is not None else ("not asked for", RatioIntervals())
    )
    return ScalingPair(
        before=before,
        after=after,
        total=total,
        throughput=throughput,
        efficiency=efficiency,
        interval=intervals.total if to_target else intervals.throughput,
        interval_throughput=intervals.throughput,
        interval_efficiency=intervals.efficiency,
        no_interval=why,
        scaling_kind=scaling_kind(before, after),
        flags=(*flags, *_difference_flags(before, after), *(_seeds_flag(before, after) if to_target else ())),
    )


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None


def scaling_kind(before: Measurement, after: Measurement) -> str:
    """Kind of scaling between two measurements: `strong`, `weak`, `mixed`, or `unknown` if a batch size is unknown."""
    one, other = before.batch_size_global, after.batch_size_global
    if not one or not other or before.batch_unit != after.batch_unit:
        return "unknown"
    if one == other:
        return "strong"
    return "weak" if one * after.devices == other * before.devices else "mixed"


def _difference_flags(before: Measurement, after: Measurement) -> Iterator[str]:
    """One text for each property that should be equal for a speedup and is not."""
    labels = {"clock": "clock rule", "precision": "precision", "rules": "rules", "profile": "profile"}
    labels |= {"hardware": "hardware", "framework": "framework", "batch_unit": "unit of the batch"}
    for name, label in labels.items():
        one, other = getattr(before, name), getattr(after, name)
        if one != other:
            yield f"{label} differs: {one or 'unknown'} and {other or 'unknown'}"
    if before.nodes != after.nodes:
        yield ACROSS_NODES
    if dict(before.targets) != dict(after.targets):
        yield f"target differs: {_targets(before)} and {_targets(after)}"


def _seeds_flag(before: Measurement, after: Measurement) -> Iterator[str]:
    """That epochs differ between too few runs of other seeds, where the same global batch should need the same epochs."""
    differ = _ratio(before.score.epochs, after.score.epochs)
    if scaling_kind(before, after) != "strong" or differ is None or abs(differ - 1) < SAME_EPOCHS:
        return
    one, other = ({run.seed for run in item.runs} for item in (before, after))
    few, many = sorted((len(before.runs), len(after.runs)))
    if 0 < few < MINIMUM_RUNS and None not in one | other and one != other:
        counts = f"{few} and {many}" if few != many else f"{'one' if few == 1 else few} each"
        yield f"{OTHER_SEEDS} ({counts}) do not show that devices change them"


def _targets(item: Measurement) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in sorted(item.targets.items())) or "unknown"


# --- text --------------------------------------------------------------------------------------------------------------


def ratio_text(value: float, more_digits: int = 0) -> str:
    """A ratio for printing: `15.8`, `1.76`, `0.63`; with `more_digits` decimals than usual."""
    if value < 0.1:
        return f"{value:.{2 + more_digits}g}"
    return f"{value:.{(1 if value >= 1.995 else 2) + more_digits}f}"


def speedup_text(total: float | None, throughput: float | None, efficiency: float | None) -> str:
    """A speedup and its factors in words, which multiply to the printed total; a factor below 1 is printed as a divisor."""
    if total is None:
        if throughput is None:
            return "not measured"
        word = "faster" if throughput >= 1 else "slower"
        ratio = throughput if throughput >= 1 else 1 / throughput
        return f"{ratio_text(ratio)}× {word} training (samples/s); runs of fixed length say nothing about epochs"
    if throughput is None or efficiency is None:
        return f"{ratio_text(total)}×; epochs are not known, so it cannot be decomposed"
    texts = (_factors_text(throughput, efficiency, digits) for digits in range(6))
    fitting = [
        text
        for text, product in texts
        if ratio_text(total) in (ratio_text(product * 0.999999), ratio_text(product * 1.000001))
    ]
    return f"{ratio_text(total)}× = {fitting[0] if fitting else _factors_text(throughput, efficiency, 6)[0]}"


def _factors_text(throughput: float, efficiency: float, digits: int) -> tuple[str, float]:
    """(factors in words, product of the printed numbers)."""
    parts: list[str] = []
    divided: list[str] = []
    product = 1.0
    same = abs(efficiency - 1) < (SAME_EPOCHS if digits < 2 else SAME_EPOCHS / 10)
    factors = [(throughput, "faster epochs", "slower epochs"), (efficiency, "fewer epochs", "more epochs")]
    for ratio, above, below in factors[:1] if same else factors:
        text, better = ratio_text(max(ratio, 1 / ratio), digits), ratio > 1 - _ROUNDING
        product = product * float(text) if better else product / float(text)
        (parts if better else divided).append(f"{text}× {above if better else below}")
    joined = " ÷ ".join([" × ".join(parts) or "1", *divided])
    return f"{joined}, same number of epochs" if same else joined, product


def interval_text(pair: ScalingPair) -> str:
    """The interval of a speedup, `7.64–8.21`; a dash if there is none."""
    if pair.interval is None:
        return "–"
    digits = 1 if pair.interval.low >= 10 else 2
    return f"{pair.interval.low:.{digits}f}–{pair.interval.high:.{digits}f}"


def interval_suffix(pair: ScalingPair) -> str:
    """The interval as a suffix, ` (95 % interval 7.64–8.21)`; empty if there is none."""
    return (
        "" if pair.interval is None else f" ({CONFIDENCE_LEVEL:.0%} interval {interval_text(pair)})".replace("%", " %")
    )


# --- printed speedups ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrintedSpeedup:
    """A speedup that an article printed, beside the one computed from its tables."""

    workload: str
    devices_from: int
    devices_to: int
    printed: float
    computed: float | None
    """From the article's own tables; None if they lack one of the device counts."""

    @property
    def flag(self) -> str:
        """How the two disagree, in words; empty if they agree."""
        if self.computed is None:
            return f"{self.printed:g} printed, and its own tables do not have both device counts"
        if abs(self.printed / self.computed - 1) <= PRINTED_TOLERANCE:
            return ""
        return f"{self.printed:g} printed, {self.computed:.2f} by its own tables"


def check_printed(
    printed: Mapping[tuple[str, int, int], float], family_pairs: Iterable[ScalingPair]
) -> list[PrintedSpeedup]:
    """Compare printed speedups, by (workload, devices from, devices to), with computed pairs."""
    computed = {(pair.workload, pair.devices_from, pair.devices_to): pair.total for pair in family_pairs}
    return [PrintedSpeedup(*key, printed=value, computed=computed.get(key)) for key, value in printed.items()]
