"""`suite advise`: on how many devices to run a job, from measured times to target alone.

Only measured device counts are chosen from; for a machine with more devices than were measured a note adds what is predicted.
Jobs side by side are assumed not to slow each other down; the output says so wherever that assumption is used.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from suite.results.identity import Row, own_words
from suite.results.predict.step import gradients_of, traffic_text
from suite.results.price import Prices
from suite.results.repeat import run_next
from suite.results.scores import Ratio, families, merged_labels, place, ratio, ratio_text, times_text, titles
from suite.results.text import clean, cost_text, devices_text, energy_text, rate_text, time_text
from suite.results.views.scaling import prediction_note
from suite.results.views.section import NOT_VERIFIED, Section, View, frame_of, without_empty

ASSUMPTION = (
    "Assumption, not measured: jobs side by side on different devices do not slow each other down "
    "(they share memory, storage, power and cooling)."
)
WORTH_SPREADING = 0.5
"""Our threshold: if an added device adds less than half of what the first ones give, a job belongs on the fewest devices."""
ROUNDING_TOLERANCE = 1.0 + 1e-6
"""Relative tolerance of deadlines: a published `1.0` minutes times sixty may be slightly above 60 s."""
SPREAD, SOONER, FEWEST, BETWEEN, UNKNOWN = "spread", "sooner", "fewest", "between", "unknown"
"""Where a queue's jobs belong (docs/scaling.md)."""
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SHOWN = (
    *("devices", "train_seconds", "jobs_at_once", "jobs_per_hour", "device_hours_per_job", "energy_joules_per_job"),
    *("cost_per_job", "runs_successful", "runs_failed"),
)
Choice = dict[str, Any]
"""One measured number of devices for a job, on a machine: a row of the view's data."""


def parse_deadline(text: str) -> float:
    """Seconds of a deadline such as `2h`, `90m`, `1h30m` or `3600s`. Raises ValueError for anything else."""
    number = r"(\d{1,9}(?:\.\d{1,9})?)"
    match = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s)?", text)
    parts = match.groups() if match else ()
    total = sum(float(part or 0.0) * unit for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False))
    if total <= 0.0:
        raise ValueError(f"--deadline {text[:40]!r}: give hours, minutes or seconds above 0, such as 2h, 90m or 3600s")
    return total


def advise(
    results: Sequence[Row], devices: int | None = None, deadline: float | None = None, prices: Prices | None = None
) -> View:
    """Advice for each workload and family with a time to target, for a machine of `devices` (None: the most measured) and a
    deadline in seconds. Raises ValueError if there is no time to target, or none on so few devices."""
    found = families(_timed(results))
    fitting = [family for family in found if devices is None or family[0].devices <= devices]
    if not fitting:
        fewest = min(family[0].devices for family in found)
        raise ValueError(
            f"--devices {devices}: the fewest devices that were measured are {fewest}; give {fewest} or more"
        )
    sections, data = [], list[Choice]()
    for title, family in sorted(zip(titles(fitting, "gpus"), fitting, strict=True), key=lambda pair: pair[0]):
        best = _fastest(family, devices or family[-1].devices)
        pair = ratio(best[0], best[-1]) if len(best) > 1 else None
        choices = _choices(family, best, devices or family[-1].devices, deadline, prices)
        belongs = placement(choices, pair)
        sections.append(_section(title, family, best, choices, pair, belongs, deadline))
        data += [{"series": title, **choice, "belongs": belongs} for choice in choices]
    above = [NOT_VERIFIED, *([ASSUMPTION] if any(choice["jobs_at_once"] > 1 for choice in data) else [])]
    if len({choice["profile"] for choice in data}) > 1:
        above.append("Several profiles were given; each has advice of its own, and they are never mixed.")
    return View("On how many devices to run a job", tuple(sections), frame_of(data), tuple(above))


def _timed(results: Sequence[Row]) -> list[Row]:
    reached = [row for row in results if row.seconds]
    timed = [row for row in reached if row.devices]
    if reached and not timed:
        where = clean(f"{reached[0].submitter} {reached[0].system}".strip(), 80)
        raise ValueError(
            f"advice is about numbers of devices, and the number of devices of a CPU system is not known: {where}"
        )
    if not timed:
        raise ValueError(
            "advice needs runs that reached a target, and there are none: only runs of fixed length, or none that succeeded; "
            "run to the target first: python run_suite.py -m workload=ncf profile=demo gpus=1,2"
        )
    return timed


def _fastest(family: Sequence[Row], machine: int) -> list[Row]:
    """The fastest result on each number of devices up to `machine`, in order of devices."""
    best: dict[int, Row] = {}
    for row in family:
        if row.devices <= machine and row.seconds < getattr(best.get(row.devices), "seconds", math.inf):
            best[row.devices] = row
    return list(best.values())


def _choices(
    family: Sequence[Row], best: Sequence[Row], machine: int, deadline: float | None, prices: Prices | None
) -> list[Choice]:
    extrapolated = ("extrapolated",) if machine > family[-1].devices else ()
    labels = "; ".join((*merged_labels(best), *extrapolated))
    choices = [{**_choice(row, machine, prices), "labels": labels} for row in best]
    fast, cheap = _least(choices, "train_seconds", "devices"), _least(choices, "device_hours_per_job")
    queue = max(
        choices, key=lambda choice: (choice["jobs_per_hour"], choice["devices"])
    )  # its first result comes sooner
    limit = None if deadline is None else deadline * ROUNDING_TOLERANCE
    meeting = [choice for choice in choices if limit is not None and choice["train_seconds"] <= limit]
    chosen = _least(meeting, "device_hours_per_job")
    for choice in choices:
        choice |= {
            "fastest_single_job": choice is fast,
            "most_jobs_per_hour": choice is queue,
            "fewest_device_hours": choice is cheap,
            "meets_deadline": None if limit is None else choice["train_seconds"] <= limit,
            "deadline_choice": None if limit is None else choice is chosen,
            "note": "side by side: assumed not to slow each other down" if choice["jobs_at_once"] > 1 else "",
        }
    return choices


def _choice(row: Row, machine: int, prices: Prices | None) -> Choice:
    at_once = machine // row.devices
    powered = row.runs and all(run.energy_joules is not None for run in row.runs)
    return {
        **{name: getattr(row, name) for name in ("workload", "framework", "system", "profile")},
        "machine_devices": machine,
        "devices": row.devices,
        "train_seconds": row.seconds,
        "slowest_seconds": row.seconds_maximum,
        "jobs_at_once": at_once,
        "idle_devices": machine - at_once * row.devices,
        "jobs_per_hour": at_once * 3600.0 / row.seconds,
        "device_hours_per_job": row.devices * row.seconds / 3600.0,
        "energy_joules_per_job": row.energy_joules if powered else None,
        "cost_per_job": None if prices is None else prices.cost(row),
        "runs_successful": None if row.single_figure else row.runs_successful,
        "runs_failed": row.runs_failed or None,
    }


def _least(choices: Sequence[Choice], name: str, then: str = "train_seconds") -> Choice | None:
    """The choice with the least of a column, of equals of another; None where nobody has it."""
    known = [choice for choice in choices if choice[name] is not None]
    return min(known, key=lambda choice: (choice[name], choice[then]), default=None)


def _the(choices: Sequence[Choice], flag: str) -> Choice:
    return next(choice for choice in choices if choice[flag])


def placement(choices: Sequence[Choice], pair: Ratio | None) -> str:
    """`spread`, `sooner`, `fewest`, `between` or `unknown`."""
    if pair is None or pair.total is None:
        return UNKNOWN
    most = max(choice["jobs_per_hour"] * (1.0 - 1e-9) for choice in choices)
    best = [choice["devices"] for choice in choices if choice["jobs_per_hour"] >= most]
    if choices[-1]["devices"] in best:
        return SPREAD
    if choices[0]["devices"] not in best:
        return BETWEEN
    each_added = (pair.total - 1.0) / (choices[-1]["devices"] / choices[0]["devices"] - 1.0)
    return SOONER if each_added >= WORTH_SPREADING else FEWEST


# --- in words -----------------------------------------------------------------------------------------------------------


def _section(
    title: str,
    family: Sequence[Row],
    best: Sequence[Row],
    choices: Sequence[Choice],
    pair: Ratio | None,
    belongs: str,
    deadline: float | None,
) -> Section:
    few, machine = choices[0], choices[0]["machine_devices"]
    notes = tuple(dict.fromkeys(_notes(family, best, pair, machine)))
    if pair is None and deadline is None and machine == few["devices"]:
        cost = "" if few["cost_per_job"] is None else f", cost {cost_text(few['cost_per_job'])}"
        said = f"{time_text(few['train_seconds'])}{cost} on {devices_text(machine)}, the only count measured: nothing"
        next_text, commands = run_next(best[0])
        return Section(title, (f"{said} to choose from. {next_text}",), commands=commands, below=notes)
    title += f"; machine of {devices_text(machine)}" + (", extrapolated" if machine > family[-1].devices else "")
    table = without_empty(frame_of([{name: choice[name] for name in _SHOWN} for choice in choices]))
    points = (*_answers(choices, deadline), *_certainty(pair), *notes)
    return Section(title, (_verdict(choices, pair, belongs),), table, below=points)


def _verdict(choices: Sequence[Choice], pair: Ratio | None, belongs: str) -> str:
    """On how many devices the jobs should run."""
    few, many = choices[0], choices[-1]
    if pair is None or pair.total is None:
        return f"Measured on {devices_text(few['devices'])} only, so there is nothing to choose from."
    than = f"as on {few['devices']}" if times_text(pair.total) == "as fast" else f"than on {few['devices']}"
    gain = f"on {devices_text(many['devices'])} one job is {times_text(pair.total)} {than}"
    share = many["jobs_per_hour"] / few["jobs_per_hour"]
    said = {
        SPREAD: "Spread, for a queue too",
        SOONER: "Spread only when a single result is wanted sooner",
        FEWEST: f"Keep each job on {devices_text(few['devices'])}",
        BETWEEN: f"For a queue give each job {devices_text(_the(choices, 'most_jobs_per_hour')['devices'])}",
    }[belongs]
    return f"{said}: {gain}, and {_queue(many)} do {share:.0%} of the jobs of {_queue(few)}."


def _queue(choice: Choice) -> str:
    """`eight 1-device jobs side by side`, `8-device jobs one after another`."""
    at_once = choice["jobs_at_once"]
    if at_once == 1:
        return f"{choice['devices']}-device jobs one after another"
    count = _COUNTS[at_once] if at_once < len(_COUNTS) else f"{at_once:,}"
    return f"{count} {choice['devices']}-device jobs side by side"


def _answers(choices: Sequence[Choice], deadline: float | None) -> Iterator[str]:
    fast, queue = _the(choices, "fastest_single_job"), _the(choices, "most_jobs_per_hour")
    cheap = _the(choices, "fewest_device_hours")
    yield f"single job, fastest: {devices_text(fast['devices'])}, {time_text(fast['train_seconds'])}"
    idle = f", {devices_text(queue['idle_devices'])} idle" if queue["idle_devices"] else ""
    yield f"queue, most jobs: {_queue(queue)}, {rate_text(queue['jobs_per_hour'])} jobs/h{idle}"
    yield f"fewest device-hours: {devices_text(cheap['devices'])}, {rate_text(cheap['device_hours_per_job'])} a job"
    if (least := _least(choices, "energy_joules_per_job")) is not None:
        missing = [str(choice["devices"]) for choice in choices if choice["energy_joules_per_job"] is None]
        rest = f" (not measured on {', '.join(missing)})" if missing else ""
        energy = energy_text(least["energy_joules_per_job"])
        yield f"least energy (GPUs): {devices_text(least['devices'])}, {energy} a job{rest}"
    if (lowest := _least(choices, "cost_per_job")) is not None:
        yield f"lowest cost: {devices_text(lowest['devices'])}, {cost_text(lowest['cost_per_job'])} a job"
    if deadline is not None:
        yield f"deadline {time_text(deadline)}: {_deadline(choices, fast, deadline)}"


def _deadline(choices: Sequence[Choice], fast: Choice, deadline: float) -> str:
    chosen = next((choice for choice in choices if choice["deadline_choice"]), None)
    said = f"{devices_text((chosen or fast)['devices'])}, {time_text((chosen or fast)['train_seconds'])}"
    if chosen is None:
        return f"no measured device count meets it; the fastest is {said}"
    slowest = chosen["slowest_seconds"]
    late = slowest is not None and slowest > deadline * ROUNDING_TOLERANCE
    rest = f"; on average only: its slowest run took {time_text(slowest)}" if late else ""
    return f"{said}: the fewest device-hours that meet it{rest}"


def _certainty(pair: Ratio | None) -> Iterator[str]:
    if pair is None or pair.total is None:
        return
    interval, linear = pair.interval, pair.after.devices / pair.before.devices
    if interval is None:
        yield f"how sure: unknown ({pair.no_interval})"
        return
    bounds = f"95 % interval {ratio_text(interval.low)} to {ratio_text(interval.high)}"
    more = f"; that includes {linear:.3g}, so more runs are needed to tell which queue is faster"
    open_question = interval.low <= linear <= interval.high
    yield f"how sure: speedup {ratio_text(pair.total)}, {bounds}{more if open_question else ''}"


def _notes(family: Sequence[Row], best: Sequence[Row], pair: Ratio | None, machine: int) -> Iterator[str]:
    busiest, counts = family[-1].devices, [row.devices for row in best]
    if machine > busiest:
        yield f"extrapolated: jobs/h on {devices_text(machine)}, when no more than {busiest} were busy in any measurement"
        yield from filter(None, [prediction_note(family, machine)])
    if machine not in counts:
        measured = ", ".join(map(str, counts))
        yield f"{devices_text(machine)} were not measured for one job; only measured counts are used ({measured})"
    for row in best:
        others = [row, *(other for other in family if other is not row and other.devices == row.devices)]
        if len(others) > 1:
            where = f"on {devices_text(row.devices)} the fastest of {len(others)} settings is used"
            yield f"{where}: {own_words(others)[0]}"
    placed = [devices_text(*place(row)) for row in best if place(row)[1] > 1]
    if placed:
        yield f"over several nodes (nodes × devices of each): {', '.join(placed)}"
    if pair is not None:
        yield from pair.flags
        with contextlib.suppress(ValueError):  # nobody says
            yield f"each step sums {traffic_text(gradients_of(family))} over the devices (docs/scaling.md)"
    for row in best:
        if row.runs_failed:
            count = f"{row.runs_failed} of {row.runs_failed + row.runs_successful} runs"
            yield f"{count} on {devices_text(row.devices)} failed; the time they took is not counted"
