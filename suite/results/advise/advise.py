"""What to run on how many devices, from measured times to target: ours, a published round's, or the article's.

Only device counts that were measured are used. Jobs side by side are assumed not to slow each other down: an assumption, and
said wherever it is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from suite.results.score.family_labels import family_labels
from suite.results.score.measurement import Measurement, by_family
from suite.results.score.scaling import ScalingPair, scaling_pair
from suite.results.text import devices_text

ASSUMPTION = (
    "Assumption, not measured: jobs side by side on different devices do not slow each other down "
    "(they share memory, storage, power and cooling)."
)
WORTH_SPREADING = 0.5
"""Ours: where an added device adds less than half of what the first ones give, a job belongs on the fewest devices."""

ROUNDING = 1.0 + 1e-6
"""A printed `1.0` minutes, taken times sixty, may come out a little above a deadline of 60 s."""


class Belongs(str, Enum):
    """Where the jobs of a workload belong."""

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
class Choice:
    """One measured number of devices for a job, on a machine with `machine_devices`."""

    devices: int
    seconds: float
    """Mean time to target of one job."""
    slowest_seconds: float | None
    """Of the runs behind the mean."""
    jobs_at_once: int
    """Jobs of this size side by side; 1 with no device left over is the whole machine for one job after another."""
    idle_devices: int
    """Devices that do not fill another such job."""
    jobs_per_hour: float
    """Of the machine; assumes no interference where `jobs_at_once` is above 1."""
    device_hours: float
    """For one job, counting its own devices."""
    energy_joules: float | None
    """Mean energy to target of one job over its runs; None where power was not measured in all of them."""
    runs: int
    failed: int
    measurement: Measurement


@dataclass(frozen=True)
class Deadline:
    """The cheapest choice that meets a deadline."""

    seconds: float
    choice: Choice | None
    """Fewest device-hours, the faster one of equals; None: no measured count meets it."""


@dataclass(frozen=True)
class Advice:
    """For one workload in one family of measurements. Choices are in order of devices."""

    workload: str
    series: str
    settings: str
    """What tells it apart from other advice for the same workload and series; empty where there is none."""
    profile: str
    labels: tuple[str, ...]
    machine_devices: int
    extrapolated: bool
    """The machine has more devices than any measurement kept busy: its jobs per hour go beyond what was seen."""
    choices: tuple[Choice, ...]
    pair: ScalingPair | None
    """Fewest against most devices; None with one count."""
    belongs: Belongs
    deadline: Deadline | None
    notes: tuple[str, ...]

    @property
    def fastest(self) -> Choice:
        """For a single result; the fewer devices of equals."""
        return min(self.choices, key=lambda choice: (choice.seconds, choice.devices))

    @property
    def queue(self) -> Choice:
        """Most jobs per hour; of equals the more devices, because its first result comes sooner."""
        return max(self.choices, key=lambda choice: (choice.jobs_per_hour, choice.devices))

    @property
    def cheapest(self) -> Choice:
        """Fewest device-hours; the faster one of equals."""
        return min(self.choices, key=lambda choice: (choice.device_hours, choice.seconds))

    @property
    def least_energy(self) -> Choice | None:
        """Where power was measured; None if it was nowhere."""
        measured = [choice for choice in self.choices if choice.energy_joules is not None]
        return min(measured, key=lambda choice: choice.energy_joules or 0.0, default=None)


def seconds_of(text: str) -> float:
    """`2h`, `90m`, `1h30m`, `3600s` as seconds. Raises ValueError for anything else."""
    found = re.fullmatch(
        r"(?:(\d{1,9}(?:\.\d{1,9})?)h)?(?:(\d{1,9}(?:\.\d{1,9})?)m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?", text
    )
    parts = [float(part or 0.0) for part in found.groups()] if found else []
    total = sum(part * unit for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False))
    if total <= 0.0:
        raise ValueError(f"--deadline {text[:40]!r}: give hours, minutes or seconds above 0, such as 2h, 90m or 3600s")
    return total


def advise(
    found: Sequence[Measurement], devices: int | None = None, deadline_seconds: float | None = None
) -> list[Advice]:
    """Advice for each workload and family with a time to target, for a machine of `devices` (None: the most measured).

    Families never mix: profile, hardware, framework, precision, targets and clock are the same within one advice.
    Raises ValueError if there is no time to target, or none on so few devices.
    """
    timed = [item for item in found if (item.score.seconds or 0.0) > 0.0 and item.devices > 0]
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
        _advice(family, settings, devices, deadline_seconds)
        for family, settings in zip(fitting, _settings(fitting), strict=True)
    ]
    return sorted(advice, key=lambda one: (one.workload, one.series, one.profile, one.settings, repr(one.choices)))


def _settings(families: Sequence[Sequence[Measurement]]) -> list[str]:
    """For each family what tells it apart from those with the same workload and series."""
    keys = [(family[0].origin, family[0].workload, family[0].series) for family in families]
    found = [""] * len(families)
    for key in set(keys):
        places = [place for place, other in enumerate(keys) if other == key]
        for place, text in zip(places, family_labels([families[place][0] for place in places]), strict=True):
            found[place] = text
    return found


def _advice(
    family: Sequence[Measurement], settings: str, devices: int | None, deadline_seconds: float | None
) -> Advice:
    machine = devices or max(item.devices for item in family)
    best, notes = _fastest_of_each(family, machine)
    choices = tuple(_choice(item, machine) for item in best)
    pair = scaling_pair(best[0], best[-1]) if len(best) > 1 else None
    busiest = max(item.devices for item in family)
    if machine > busiest:
        notes.append(
            f"extrapolated: jobs/h on {devices_text(machine)}, when no more than {busiest} were busy in any measurement"
        )
    if machine not in [item.devices for item in best]:
        measured = ", ".join(str(item.devices) for item in best)
        notes.append(
            f"{devices_text(machine)} were not measured for one job; only measured counts are used ({measured})"
        )
    if pair is not None:
        notes += pair.flags
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
        labels=tuple(dict.fromkeys(label for item in best for label in item.labels)),
        machine_devices=machine,
        extrapolated=machine > busiest,
        choices=choices,
        pair=pair,
        belongs=_belongs(choices, pair),
        deadline=Deadline(deadline_seconds, _cheapest_in(choices, deadline_seconds)) if deadline_seconds else None,
        notes=tuple(dict.fromkeys(notes)),
    )


def _fastest_of_each(family: Sequence[Measurement], machine: int) -> tuple[list[Measurement], list[str]]:
    """The fastest measurement on each count up to `machine`, and where it is one of several."""
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


def _choice(item: Measurement, machine: int) -> Choice:
    seconds = item.score.seconds
    assert seconds is not None
    at_once = machine // item.devices
    energies = [run.energy_joules for run in item.runs if run.energy_joules is not None]
    return Choice(
        devices=item.devices,
        seconds=seconds,
        slowest_seconds=item.score.seconds_maximum,
        jobs_at_once=at_once,
        idle_devices=machine - at_once * item.devices,
        jobs_per_hour=at_once * 3600.0 / seconds,
        device_hours=item.devices * seconds / 3600.0,
        energy_joules=sum(energies) / len(energies) if energies and len(energies) == len(item.runs) else None,
        runs=item.score.runs_successful,
        failed=item.score.runs_failed,
        measurement=item,
    )


def _belongs(choices: Sequence[Choice], pair: ScalingPair | None) -> Belongs:
    if pair is None or pair.total is None:
        return Belongs.UNKNOWN
    most_jobs = max(choice.jobs_per_hour * (1.0 - 1e-9) for choice in choices)
    best = [choice.devices for choice in choices if choice.jobs_per_hour >= most_jobs]
    if choices[-1].devices in best:
        return Belongs.SPREAD
    if choices[0].devices not in best:
        return Belongs.BETWEEN
    for_each_added = (pair.total - 1.0) / (pair.devices_to / pair.devices_from - 1.0)
    return Belongs.SOONER if for_each_added >= WORTH_SPREADING else Belongs.FEWEST


def _cheapest_in(choices: Sequence[Choice], deadline_seconds: float) -> Choice | None:
    meeting = [choice for choice in choices if choice.seconds <= deadline_seconds * ROUNDING]
    return min(meeting, key=lambda choice: (choice.device_hours, choice.seconds), default=None)
