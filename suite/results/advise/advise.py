"""Advice on how many devices to run a job, from measured times to target: ours, a published round's, or the article's.

Only measured device counts are chosen from; for a machine with more devices than were measured a note adds what is predicted.
Jobs side by side are assumed not to slow each other down; the output says so wherever that assumption is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from suite.results.predict.forecast import gradients_of, traffic_text
from suite.results.predict.forecast_text import prediction_note
from suite.results.score.condition import merged_labels
from suite.results.score.family_labels import family_settings
from suite.results.score.measurement import UNCOUNTED, Measurement, by_family
from suite.results.score.price import Prices
from suite.results.score.scaling import ScalingPair, scaling_pair
from suite.results.text import clean, devices_text

ASSUMPTION = (
    "Assumption, not measured: jobs side by side on different devices do not slow each other down "
    "(they share memory, storage, power and cooling)."
)
WORTH_SPREADING = 0.5
"""Our threshold: if an added device adds less than half of what the first ones give, a job belongs on the fewest devices."""

ROUNDING_TOLERANCE = 1.0 + 1e-6
"""Relative tolerance of deadlines: a published `1.0` minutes times sixty may be slightly above 60 s."""


class Placement(str, Enum):
    """On how many devices the jobs of a workload should run."""

    SPREAD = "spread"
    """Most jobs per hour with the most devices each: the speedup is at least the ratio of devices (or of jobs at once)."""
    SOONER = "sooner"
    """Side by side gives more jobs; spread when a single result is wanted sooner."""
    FEWEST = "fewest"
    """An added device adds less than half of a device: side by side."""
    BETWEEN = "between"
    """The most jobs come from a number of devices in between."""
    UNKNOWN = "unknown"
    """One device count only: nothing to choose from."""


@dataclass(frozen=True)
class DeviceChoice:
    """One measured number of devices for a job, on a machine with `machine_devices`."""

    devices: int
    seconds: float
    """Mean time to target of one job."""
    slowest_seconds: float | None
    """Time of the slowest run in the mean."""
    jobs_at_once: int
    """Jobs of this size that run side by side; 1 without idle devices: one job after another on the whole machine."""
    idle_devices: int
    """Devices left over, too few for another such job."""
    jobs_per_hour: float
    """Jobs per hour of the whole machine; assumes no interference if `jobs_at_once` is above 1."""
    device_hours: float
    """Device-hours of one job, counting its own devices."""
    energy_joules: float | None
    """Mean energy to target of one job over its runs; None where power was not measured in all of them."""
    cost: float | None
    """Cost of one job, counting its own devices; None without a price."""
    runs: int
    failed: int
    measurement: Measurement


@dataclass(frozen=True)
class Deadline:
    """The cheapest choice that meets a deadline."""

    seconds: float
    choice: DeviceChoice | None
    """The choice with the fewest device-hours, the faster one of equals; None: no measured count meets the deadline."""


@dataclass(frozen=True)
class Advice:
    """The advice for one workload in one family of measurements. Choices are in order of devices."""

    workload: str
    series: str
    settings: str
    """Settings that distinguish it from other advice for the same workload and series; empty if there is none."""
    profile: str
    labels: tuple[str, ...]
    machine_devices: int
    extrapolated: bool
    """True if the machine has more devices than any measurement kept busy: its jobs per hour were not observed."""
    choices: tuple[DeviceChoice, ...]
    pair: ScalingPair | None
    """The speedup from the fewest to the most devices; None with one count."""
    belongs: Placement
    deadline: Deadline | None
    notes: tuple[str, ...]

    @property
    def fastest(self) -> DeviceChoice:
        """The fastest choice for a single job; of equals the fewer devices."""
        return min(self.choices, key=lambda choice: (choice.seconds, choice.devices))

    @property
    def most_jobs(self) -> DeviceChoice:
        """The choice with the most jobs per hour; of equals the more devices, because its first result comes sooner."""
        return max(self.choices, key=lambda choice: (choice.jobs_per_hour, choice.devices))

    @property
    def cheapest(self) -> DeviceChoice:
        """The choice with the fewest device-hours; of equals the faster one."""
        return min(self.choices, key=lambda choice: (choice.device_hours, choice.seconds))

    @property
    def lowest_cost(self) -> DeviceChoice | None:
        """The choice with the lowest cost per job; None without a price."""
        priced = [choice for choice in self.choices if choice.cost is not None]
        return min(priced, key=lambda choice: (choice.cost or 0.0, choice.seconds), default=None)

    @property
    def nothing_to_choose(self) -> bool:
        """True if one number of devices was measured, and nothing else was asked that this number answers."""
        return len(self.choices) == 1 and self.deadline is None and not self.extrapolated

    @property
    def least_energy(self) -> DeviceChoice | None:
        """The choice with the least energy per job; None if power was never measured."""
        measured = [choice for choice in self.choices if choice.energy_joules is not None]
        return min(measured, key=lambda choice: choice.energy_joules or 0.0, default=None)


def parse_deadline(text: str) -> float:
    """Seconds of a deadline such as `2h`, `90m`, `1h30m` or `3600s`. Raises ValueError for anything else."""
    match = re.fullmatch(
        r"(?:(\d{1,9}(?:\.\d{1,9})?)h)?(?:(\d{1,9}(?:\.\d{1,9})?)m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?", text
    )
    parts = [float(part or 0.0) for part in match.groups()] if match else []
    total = sum(part * unit for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False))
    if total <= 0.0:
        raise ValueError(f"--deadline {text[:40]!r}: give hours, minutes or seconds above 0, such as 2h, 90m or 3600s")
    return total


def advise(
    items: Sequence[Measurement],
    devices: int | None = None,
    deadline_seconds: float | None = None,
    prices: Prices | None = None,
) -> list[Advice]:
    """Advice for each workload and family with a time to target, for a machine of `devices` (None: the most measured).

    Families never mix: profile, hardware, framework, precision, targets and clock are the same within one advice.
    Raises ValueError if there is no time to target, or none on so few devices.
    """
    reached = [item for item in items if (item.score.seconds or 0.0) > 0.0]
    timed = [item for item in reached if item.devices > 0]
    if reached and not timed:
        raise ValueError(f"advice is about numbers of devices, and {UNCOUNTED}: {clean(reached[0].series, 80)}")
    if not timed:
        raise ValueError(
            "advice needs runs that reached a target, and there are none: only runs of fixed length, or none that succeeded; "
            "run to the target first: python run_suite.py -m workload=ncf profile=demo gpus=1,2"
        )
    families = by_family(timed)
    fitting = [family for family in families if devices is None or family[0].devices <= devices]
    if not fitting:
        fewest = min(family[0].devices for family in families)
        raise ValueError(
            f"--devices {devices}: the fewest devices that were measured are {fewest}; give {fewest} or more"
        )
    advice = [
        _advice(family, settings, devices, deadline_seconds, prices)
        for family, settings in zip(fitting, family_settings(fitting), strict=True)
    ]
    return sorted(
        advice, key=lambda item: (item.workload, item.series, item.profile, item.settings, repr(item.choices))
    )


def _advice(
    family: Sequence[Measurement],
    settings: str,
    devices: int | None,
    deadline_seconds: float | None,
    prices: Prices | None,
) -> Advice:
    machine = devices or max(item.devices for item in family)
    best, notes = _fastest_per_device_count(family, machine)
    choices = tuple(_choice(item, machine, prices) for item in best)
    pair = scaling_pair(best[0], best[-1]) if len(best) > 1 else None
    busiest = max(item.devices for item in family)
    if machine > busiest:
        notes.append(
            f"extrapolated: jobs/h on {devices_text(machine)}, when no more than {busiest} were busy in any measurement"
        )
        notes += filter(None, [prediction_note(family, machine)])
    if machine not in [item.devices for item in best]:
        measured = ", ".join(str(item.devices) for item in best)
        notes.append(
            f"{devices_text(machine)} were not measured for one job; only measured counts are used ({measured})"
        )
    placed = [devices_text(item.devices, item.nodes) for item in best if item.nodes > 1]
    notes += [f"over several nodes (nodes × devices of each): {', '.join(placed)}"] if placed else []
    if pair is not None:
        notes += pair.flags
        notes += filter(None, [_traffic_note(family)])
    notes += [
        f"{choice.failed} of {choice.failed + choice.runs} runs on {devices_text(choice.devices)} failed; "
        "the time they took is not counted"
        for choice in choices
        if choice.failed
    ]
    return Advice(
        workload=family[0].workload,
        series=family[0].series,
        settings=settings,
        profile=family[0].profile,
        labels=merged_labels(label for item in best for label in item.labels),
        machine_devices=machine,
        extrapolated=machine > busiest,
        choices=choices,
        pair=pair,
        belongs=_placement(choices, pair),
        deadline=Deadline(deadline_seconds, _cheapest_within(choices, deadline_seconds)) if deadline_seconds else None,
        notes=tuple(dict.fromkeys(notes)),
    )


def _traffic_note(family: Sequence[Measurement]) -> str:
    """What each step sums over the devices; empty where nobody says."""
    try:
        return f"each step sums {traffic_text(gradients_of(family))} over the devices (docs/scaling.md)"
    except ValueError:
        return ""


def _fastest_per_device_count(family: Sequence[Measurement], machine: int) -> tuple[list[Measurement], list[str]]:
    """The fastest measurement on each count up to `machine`, and a note where it is one of several."""
    counts: dict[int, list[Measurement]] = {}
    for item in family:
        if item.devices <= machine:
            counts.setdefault(item.devices, []).append(item)
    best = [min(items, key=lambda item: (item.score.seconds or 0.0, repr(item))) for items in counts.values()]
    notes = [
        f"on {devices_text(count)} the fastest of {len(items)} settings is used"
        for count, items in counts.items()
        if len(items) > 1
    ]
    return sorted(best, key=lambda item: item.devices), notes


def _choice(item: Measurement, machine: int, prices: Prices | None) -> DeviceChoice:
    seconds = item.score.seconds
    assert seconds is not None
    at_once = machine // item.devices
    energies = [run.energy_joules for run in item.runs if run.energy_joules is not None]
    return DeviceChoice(
        devices=item.devices,
        seconds=seconds,
        slowest_seconds=item.score.seconds_maximum,
        jobs_at_once=at_once,
        idle_devices=machine - at_once * item.devices,
        jobs_per_hour=at_once * 3600.0 / seconds,
        device_hours=item.devices * seconds / 3600.0,
        energy_joules=sum(energies) / len(energies) if energies and len(energies) == len(item.runs) else None,
        cost=None if prices is None else prices.cost(item),
        runs=item.score.runs_successful,
        failed=item.score.runs_failed,
        measurement=item,
    )


def _placement(choices: Sequence[DeviceChoice], pair: ScalingPair | None) -> Placement:
    if pair is None or pair.total is None:
        return Placement.UNKNOWN
    most_jobs = max(choice.jobs_per_hour * (1.0 - 1e-9) for choice in choices)
    best = [choice.devices for choice in choices if choice.jobs_per_hour >= most_jobs]
    if choices[-1].devices in best:
        return Placement.SPREAD
    if choices[0].devices not in best:
        return Placement.BETWEEN
    for_each_added = (pair.total - 1.0) / (pair.devices_to / pair.devices_from - 1.0)
    return Placement.SOONER if for_each_added >= WORTH_SPREADING else Placement.FEWEST


def _cheapest_within(choices: Sequence[DeviceChoice], deadline_seconds: float) -> DeviceChoice | None:
    meeting = [choice for choice in choices if choice.seconds <= deadline_seconds * ROUNDING_TOLERANCE]
    return min(meeting, key=lambda choice: (choice.device_hours, choice.seconds), default=None)
