"""`suite advise`: on how many devices to run a job, from measured times to target alone.

Only measured device counts are chosen from; for a machine with more devices than were measured a note adds what is predicted.
Jobs side by side are assumed not to slow each other down; the output says so wherever that assumption is used.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from suite.results.columns import Result, Timed, timed
from suite.results.identity import named_apart, own_words
from suite.results.predict.step import gradients_of, traffic_text
from suite.results.price import Prices
from suite.results.ratios import Ratio, place, ratio, ratio_text, times_text
from suite.results.scores import merged_labels, title
from suite.results.text import clean, cost_text, devices_text, energy_text, rate_text, time_text
from suite.results.views.overview import series
from suite.results.views.repeat import next_commands
from suite.results.views.scaling import prediction_note
from suite.results.views.section import NOT_VERIFIED, Section, View, aim_text, frame_of, without_empty

ASSUMPTION = (
    "Assumption, not measured: jobs side by side on different devices do not slow each other down "
    "(they share memory, storage, power and cooling)."
)
WORTH_SPREADING = 0.5
"""Our threshold: if an added device adds less than half of what the first ones give, a job belongs on the fewest devices."""
ROUNDING_TOLERANCE = 1.0 + 1e-6
"""Relative tolerance of deadlines: a published `1.0` minutes times sixty may be slightly above 60 s."""
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SHOWN = (
    "devices", "train_seconds", "jobs_at_once", "jobs_per_hour", "device_hours_per_job", "energy_joules_per_job",
    "cost_per_job", "runs_successful", "runs_failed",
)  # fmt: skip
_LEAST = (
    ("single job, fastest", "train_seconds", time_text),
    ("fewest device-hours", "device_hours_per_job", rate_text),
    ("least energy (GPUs)", "energy_joules_per_job", energy_text),
    ("lowest cost", "cost_per_job", cost_text),
)
Choice = dict[str, Any]
"""One measured number of devices for a job, on a machine: a row of the view's data."""
Choices = Sequence[Choice]


def parse_deadline(text: str) -> float:
    """Seconds of a deadline such as `2h`, `90m`, `1h30m` or `3600s`. Raises ValueError for anything else."""
    match = re.fullmatch("".join(rf"(?:(\d{{1,9}}(?:\.\d{{1,9}})?){unit})?" for unit in "hms"), text)
    parts = match.groups() if match else ()
    total = sum(float(part or 0.0) * unit for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False))
    if total <= 0.0:
        raise ValueError(f"--deadline {text[:40]!r}: give hours, minutes or seconds above 0, such as 2h, 90m or 3600s")
    return total


def advise(
    results: Sequence[Result], devices: int | None = None, deadline: float | None = None, prices: Prices | None = None
) -> View:
    """Advice for each series of results with a time to target, for a machine of `devices` (None: the most measured) and a
    deadline in seconds. Raises ValueError if there is no time to target, or none on so few devices."""
    all_series = series(_timed(results))
    fitting = [chain for chain in all_series if devices is None or chain[0].devices <= devices]
    if not fitting:
        few = min(chain[0].devices for chain in all_series)
        raise ValueError(f"--devices {devices}: the fewest devices that were measured are {few}; give {few} or more")
    sections, data = [], list[Choice]()
    names = map(title, fitting)
    told = named_apart([chain[0] for chain in fitting], list(names), ("devices", "nodes"))
    for name, chain in sorted(zip(told, fitting, strict=True), key=lambda pair: pair[0]):
        machine = devices or chain[-1].devices
        within = [row for row in chain if row.devices <= machine]
        best = [min(alike, key=lambda row: row.seconds) for _, alike in groupby(within, key=lambda row: row.devices)]
        pair = ratio(best[0], best[-1]) if len(best) > 1 else None
        labels = "; ".join((*merged_labels(best), *(["extrapolated"] if machine > chain[-1].devices else [])))
        choices = _choices(best, machine, labels, deadline, prices)
        sections.append(_section(name, chain, best, choices, pair, deadline))
        data += [{"series": name, **choice, "belongs": placement(choices, pair)} for choice in choices]
    above = [NOT_VERIFIED, *([ASSUMPTION] if any(choice["jobs_at_once"] > 1 for choice in data) else [])]
    if len({choice["profile"] for choice in data}) > 1:
        above.append("Several profiles were given; each has advice of its own, and they are never mixed.")
    price_notes = () if prices is None else prices.unused_notes(results)
    return View("On how many devices to run a job", tuple(sections), frame_of(data), tuple(above), price_notes)


def _timed(results: Sequence[Result]) -> list[Timed]:
    reached = [row for row in results if row.seconds]
    known = timed(reached)
    if not reached:
        why = "advice needs runs that reached a target, and there are none: only runs of fixed length, or none that succeeded"
        raise ValueError(f"{why}; run to the target first: python run_suite.py -m workload=ncf profile=demo gpus=1,2")
    if not known:
        why = "advice is about numbers of devices, and the number of devices of a CPU system is not known"
        raise ValueError(f"{why}: {clean(f'{reached[0].submitter} {reached[0].system}'.strip(), 80)}")
    return known


def _choices(
    best: Sequence[Timed], machine: int, labels: str, deadline: float | None, prices: Prices | None
) -> list[Choice]:
    choices = [_choice(row, machine, prices) | {"labels": labels} for row in best]
    flagged = {
        "fastest_single_job": _least(choices, "train_seconds"),
        "most_jobs_per_hour": max(choices, key=lambda one: (one["jobs_per_hour"], one["devices"])),  # sooner, if equal
        "fewest_device_hours": _least(choices, "device_hours_per_job"),
    }
    meeting = [one for one in choices if deadline and one["train_seconds"] <= deadline * ROUNDING_TOLERANCE]
    chosen = _least(meeting, "device_hours_per_job")
    for choice in choices:
        choice |= {name: choice is one for name, one in flagged.items()}
        choice["meets_deadline"] = choice in meeting if deadline else None
        choice["deadline_choice"] = choice is chosen if deadline else None
        choice["note"] = "side by side: assumed not to slow each other down" if choice["jobs_at_once"] > 1 else ""
    return choices


def _choice(row: Timed, machine: int, prices: Prices | None) -> Choice:
    at_once, powered = machine // row.devices, row.runs and all(run.energy_joules is not None for run in row.runs)
    choice: Choice = {name: getattr(row, name) for name in ("workload", "framework", "system", "profile")}
    choice |= {"machine_devices": machine, "devices": row.devices}
    choice |= {"train_seconds": row.seconds, "slowest_seconds": row.seconds_maximum}
    choice |= {"jobs_at_once": at_once, "idle_devices": machine - at_once * row.devices}
    return choice | {
        "jobs_per_hour": at_once * 3600.0 / row.seconds,
        "device_hours_per_job": row.devices * row.seconds / 3600.0,
        "energy_joules_per_job": row.energy_joules if powered else None,
        "cost_per_job": None if prices is None else prices.cost(row),
        "runs_successful": None if row.single_figure else row.runs_successful,
        "runs_failed": row.runs_failed or None,
    }


def _least(choices: Choices, name: str) -> Choice | None:
    """The choice with the least of a column, of equals the sooner; None where nobody has it."""
    known = [choice for choice in choices if choice[name] is not None]
    return min(known, key=lambda choice: (choice[name], choice["train_seconds"]), default=None)


def placement(choices: Choices, pair: Ratio | None) -> str:
    """Where a queue's jobs belong (docs/scaling.md): `spread`, `sooner`, `fewest`, `between` or `unknown`."""
    if pair is None or pair.total is None:
        return "unknown"
    most = max(choice["jobs_per_hour"] * (1.0 - 1e-9) for choice in choices)
    if choices[-1]["jobs_per_hour"] >= most:
        return "spread"
    if choices[0]["jobs_per_hour"] < most:
        return "between"
    each_added = (pair.total - 1.0) / (choices[-1]["devices"] / choices[0]["devices"] - 1.0)
    return "sooner" if each_added >= WORTH_SPREADING else "fewest"


def _section(
    name: str,
    family: Sequence[Timed],
    best: Sequence[Timed],
    choices: Choices,
    pair: Ratio | None,
    deadline: float | None,
) -> Section:
    few, machine = choices[0], choices[0]["machine_devices"]
    notes = tuple(dict.fromkeys(_notes(family, best, pair, machine)))
    if pair is None and deadline is None and machine == few["devices"]:
        cost = "" if few["cost_per_job"] is None else f", cost {cost_text(few['cost_per_job'])}"
        took = f"{time_text(few['train_seconds'])}{cost} on {devices_text(machine)}, the only count measured: nothing"
        commands = next_commands(best[0])
        then = "Run next:" if commands else "Give results of the same hardware on other counts (suite published list)."
        return Section(name, (aim_text(best), f"{took} to choose from. {then}"), commands=commands, below=notes)
    name += f"; machine of {devices_text(machine)}" + (", extrapolated" if machine > family[-1].devices else "")
    table = without_empty(frame_of({name: choice[name] for name in _SHOWN} for choice in choices))
    return Section(
        name, (aim_text(best), _verdict(choices, pair)), table, below=(*_answers(choices, pair, deadline), *notes)
    )


def _verdict(choices: Choices, pair: Ratio | None) -> str:
    """On how many devices the jobs should run."""
    few, many = choices[0], choices[-1]
    if pair is None or pair.total is None:
        return f"Measured on {devices_text(few['devices'])} only, so there is nothing to choose from."
    gain, share = times_text(pair.total), many["jobs_per_hour"] / few["jobs_per_hour"]
    said = {
        "spread": "Spread, for a queue too",
        "sooner": "Spread only when a single result is wanted sooner",
        "fewest": f"Keep each job on {devices_text(few['devices'])}",
        "between": f"For a queue give each job {devices_text(_flagged(choices, 'most_jobs_per_hour')['devices'])}",
    }[placement(choices, pair)]
    than = f"{gain} {'as' if gain == 'as fast' else 'than'} on {few['devices']}"
    jobs = f"{_queue(many)} do {100 * share:.0f} % of the jobs of {_queue(few)}"
    return f"{said}: on {devices_text(many['devices'])} one job is {than}, and {jobs}."


def _flagged(choices: Choices, flag: str) -> Choice:
    return next(choice for choice in choices if choice[flag])


def _queue(choice: Choice) -> str:
    """`eight 1-device jobs side by side`, `8-device jobs one after another`."""
    at_once = choice["jobs_at_once"]
    if at_once == 1:
        return f"{choice['devices']}-device jobs one after another"
    count = _COUNTS[at_once] if at_once < len(_COUNTS) else f"{at_once:,}"
    return f"{count} {choice['devices']}-device jobs side by side"


def _answers(choices: Choices, pair: Ratio | None, deadline: float | None) -> Iterator[str]:
    queue = _flagged(choices, "most_jobs_per_hour")
    idle = f", {devices_text(queue['idle_devices'])} idle" if queue["idle_devices"] else ""
    for words, name, text in _LEAST:
        if (least := _least(choices, name)) is not None:
            missing = ", ".join(str(choice["devices"]) for choice in choices if choice[name] is None)
            rest = " a job" * name.endswith("_per_job") + (f" (not measured on {missing})" if missing else "")
            yield f"{words}: {devices_text(least['devices'])}, {text(least[name])}{rest}"
        if name == "train_seconds":
            yield f"queue, most jobs: {_queue(queue)}, {rate_text(queue['jobs_per_hour'])} jobs/h{idle}"
    if deadline is not None:
        meets = any(choice["deadline_choice"] for choice in choices)
        chosen = _flagged(choices, "deadline_choice" if meets else "fastest_single_job")
        slowest = chosen["slowest_seconds"] or 0.0
        took = f"{devices_text(chosen['devices'])}, {time_text(chosen['train_seconds'])}"
        sentence = (
            "{}: the fewest device-hours that meet it"
            if meets
            else "no measured device count meets it; the fastest is {}"
        )
        if meets and slowest > deadline * ROUNDING_TOLERANCE:
            sentence += f"; on average only: its slowest run took {time_text(slowest)}"
        yield f"deadline {time_text(deadline)}: {sentence.format(took)}"
    if pair is not None and pair.interval is None:
        yield f"how sure: unknown ({pair.no_interval})"
    elif pair is not None and pair.interval is not None:
        linear = choices[-1]["devices"] / choices[0]["devices"]
        more = f"; that includes {linear:.3g}, so more runs are needed to tell which queue is faster"
        certainty = f"how sure: speedup {ratio_text(pair.total or 0.0)}, {pair.interval_words}"
        yield certainty + (more if pair.interval.low <= linear <= pair.interval.high else "")


def _notes(family: Sequence[Timed], best: Sequence[Timed], pair: Ratio | None, machine: int) -> Iterator[str]:
    if machine > (busiest := family[-1].devices):
        yield f"extrapolated: jobs/h on {devices_text(machine)}, when no more than {busiest} were busy in any measurement"
        yield from filter(None, [prediction_note(family, machine)])
    if machine not in (counts := [row.devices for row in best]):
        measured = ", ".join(map(str, counts))
        yield f"{devices_text(machine)} were not measured for one job; only measured counts are used ({measured})"
    for row in best:
        others = [row, *(other for other in family if other is not row and other.devices == row.devices)]
        if len(others) > 1:
            rate_words = own_words(others)[0] or "the usual one"
            yield f"on {devices_text(row.devices)} the fastest of {len(others)} settings is used: {rate_words}"
    if placed := [devices_text(*place(row)) for row in best if place(row)[1] > 1]:
        yield f"over several nodes (nodes × devices of each): {', '.join(placed)}"
    if pair is not None:
        yield from pair.flags
        with contextlib.suppress(ValueError):  # nobody says
            yield f"each step sums {traffic_text(gradients_of(family))} over the devices (docs/scaling.md)"
    yield from (note for row in best for note in row.score_notes if "versions" in note or "differ in" in note)
    for row in (row for row in best if row.runs_failed):
        count = f"{row.runs_failed} of {row.runs_failed + row.runs_successful} runs on {devices_text(row.devices)}"
        yield f"{count} failed; the time they took is not counted"
