"""Advice as text, CSV and JSON, with labels and the assumption beside the numbers."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Iterator, Sequence

from suite.results.advise.advise import ASSUMPTION, ROUNDING_TOLERANCE, Advice, DeviceChoice, Placement
from suite.results.names import WORKLOAD_TITLES
from suite.results.report.markdown import markdown_table
from suite.results.report.report import NOT_VERIFIED
from suite.results.report.tables import DASH, rate_text
from suite.results.score.measurement import Measurement
from suite.results.score.price import cost_text
from suite.results.score.scaling import ratio_text
from suite.results.text import clean, csv_cell, devices_text, markdown_escape

_WIDTH = 118
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def duration_text(seconds: float) -> str:
    """Seconds in the largest unit with a value of at least two: `38.0 s`, `14.5 min`, `3.2 h`."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.3g} s"


def energy_text(joules: float | None) -> str:
    """Joules as `3.4 kWh`, `52.1 Wh` or `820 J`; a dash for None."""
    if joules is None:
        return DASH
    for unit, size in (("kWh", 3.6e6), ("Wh", 3600.0)):
        if joules >= size:
            return f"{joules / size:,.1f} {unit}"
    return f"{joules:.3g} J"


def heading_text(advice: Advice) -> str:
    """Heading of the advice for a workload: its title, series, labels, settings and machine."""
    name = WORKLOAD_TITLES.get(advice.workload, clean(advice.workload, 40))
    tags = [tag for tag in dict.fromkeys((advice.profile, *advice.labels)) if tag and tag != "published"]
    labels = f" ({clean(', '.join(tags), 120)})" if tags else ""
    settings = f", {advice.settings}" if advice.settings else ""
    machine = devices_text(advice.machine_devices) + (", extrapolated" if advice.extrapolated else "")
    return f"{name}: {clean(advice.series, 80)}{labels}{settings}; machine of {machine}"


def recommendation_text(advice: Advice) -> str:
    """On how many devices the jobs of this workload should run, in one or two sentences."""
    name, few, many = clean(advice.workload, 40), advice.choices[0], advice.choices[-1]
    if advice.pair is None or advice.pair.total is None:
        only = f"{name} was measured on {devices_text(few.devices)} only, so there is nothing to choose from."
        return f"{only} {next_run_text(few.measurement)}"
    gain = ratio_text(advice.pair.total)
    fraction = many.jobs_per_hour / few.jobs_per_hour
    compared = f"{queue_text(many)} do {fraction:.0%} of the jobs of {queue_text(few)}"
    if advice.belongs is Placement.SPREAD:
        return (
            f"{name} gains even in throughput when spread: {gain}× on {many.devices / few.devices:.3g}× the devices; "
            f"{compared}."
        )
    if advice.belongs is Placement.FEWEST:
        each = "one device" if few.devices == 1 else devices_text(few.devices)
        sooner = f"only {gain}× sooner" if advice.pair.total >= 1 else f"later, not sooner ({gain}×)"
        return f"{name} belongs on {each} each: {devices_text(many.devices)} finish one job {sooner}; {compared}."
    if advice.belongs is Placement.SOONER:
        return (
            f"{name} is worth spreading only when a single result is wanted sooner ({gain}× sooner on "
            f"{devices_text(many.devices)}); for a queue {compared}."
        )
    return f"{name} gives the most jobs on {devices_text(advice.most_jobs.devices)} each; {compared}."


def single_choice_text(advice: Advice) -> str:
    """A sentence for a workload that was measured on one number of devices: its time, its cost, and the notes."""
    name, only = heading_text(advice).split("; machine of ")[0], advice.choices[0]
    cost = "" if only.cost is None else f", cost {cost_text(only.cost)}"
    return (
        f"{name}: {duration_text(only.seconds)}{cost} on {devices_text(only.devices)}, the only count measured, so there is "
        f"nothing to choose from.{''.join(f' Note: {note}.' for note in advice.notes)}"
    )


def queue_text(choice: DeviceChoice) -> str:
    """How a queue runs: `eight 1-device jobs side by side`, `8-device jobs one after another`."""
    if choice.jobs_at_once == 1:
        return f"{choice.devices}-device jobs one after another"
    count = _COUNTS[choice.jobs_at_once] if choice.jobs_at_once < len(_COUNTS) else f"{choice.jobs_at_once:,}"
    return f"{count} {choice.devices}-device jobs side by side"


def next_run_text(item: Measurement) -> str:
    """What to run next if only one number of devices was measured."""
    if item.origin != "ours":
        return "Give results of the same hardware on other counts (suite published list)."
    count = 2 * item.devices
    command = (
        f"python run_suite.py workload={item.workload} framework={item.framework} profile={item.profile} gpus={count}"
    )
    return f"Run next: {clean(command)}"


def certainty_text(advice: Advice) -> str:
    """How certain the speedup is, from its confidence interval; empty with one device count."""
    pair = advice.pair
    if pair is None or pair.total is None:
        return ""
    interval, ratio = pair.interval, pair.devices_to / pair.devices_from
    if interval is None:
        return f"how sure: unknown ({pair.no_interval})"
    bounds = f"{interval.level:.0%} interval {ratio_text(interval.low)} to {ratio_text(interval.high)}"
    text = f"how sure: speedup {ratio_text(pair.total)}×, {bounds}"
    if interval.low <= ratio <= interval.high:
        return f"{text}; that includes {ratio:.3g}×, so more runs are needed to tell which queue is faster"
    return text


def _answer_lines(advice: Advice) -> Iterator[str]:
    fast, queue, cheap = advice.fastest, advice.most_jobs, advice.cheapest
    yield f"single job, fastest: {devices_text(fast.devices)}, {duration_text(fast.seconds)}"
    assumed = ", assumed not to slow each other down" if queue.jobs_at_once > 1 else ""
    idle = f", {devices_text(queue.idle_devices)} idle" if queue.idle_devices else ""
    yield f"queue, most jobs: {queue_text(queue)}, {rate_text(queue.jobs_per_hour)} jobs/h{idle}{assumed}"
    yield f"fewest device-hours: {devices_text(cheap.devices)}, {device_hours_text(cheap.device_hours)} a job"
    least = advice.least_energy
    missing = [choice.devices for choice in advice.choices if choice.energy_joules is None]
    if least is not None:
        rest = f" (not measured on {', '.join(map(str, missing))})" if missing else ""
        yield f"least energy (GPUs): {devices_text(least.devices)}, {energy_text(least.energy_joules)} a job{rest}"
    lowest = advice.lowest_cost
    if lowest is not None and lowest.cost is not None:
        yield f"lowest cost: {devices_text(lowest.devices)}, {cost_text(lowest.cost)} a job"
    if advice.deadline is not None:
        yield _deadline(advice)


def _deadline(advice: Advice) -> str:
    assert advice.deadline is not None
    limit, chosen, fast = duration_text(advice.deadline.seconds), advice.deadline.choice, advice.fastest
    if chosen is None:
        return (
            f"deadline {limit}: no measured device count meets it; the fastest is {devices_text(fast.devices)} with "
            + duration_text(fast.seconds)
        )
    figures = f"{duration_text(chosen.seconds)}, {device_hours_text(chosen.device_hours)}"
    text = f"deadline {limit}: {devices_text(chosen.devices)}, {figures}: the fewest device-hours that meet it"
    if chosen.slowest_seconds is not None and chosen.slowest_seconds > advice.deadline.seconds * ROUNDING_TOLERANCE:
        text += f"; on average only: its slowest run took {duration_text(chosen.slowest_seconds)}"
    return text


def device_hours_text(device_hours: float) -> str:
    """Device-hours with three significant digits."""
    return f"{device_hours:,.0f} device-hours" if device_hours >= 1000 else f"{device_hours:.3g} device-hours"


def advice_text(items: Sequence[Advice]) -> str:
    """All advice for a terminal."""
    assumption = [] if all(advice.nothing_to_choose for advice in items) else _wrapped(ASSUMPTION, "")
    parts = ["\n".join((f"{NOT_VERIFIED}", *assumption))]
    if len({advice.profile for advice in items}) > 1:
        parts.append("Several profiles were given; each has advice of its own, and they are never mixed.")
    parts += [_advice_section(advice) for advice in items]
    return "\n\n".join(parts) + "\n"


def _advice_section(advice: Advice) -> str:
    if advice.nothing_to_choose:
        texts = (single_choice_text(advice), next_run_text(advice.choices[0].measurement))
        return "\n".join(line for text in texts for line in _wrapped(markdown_escape(text), ""))
    header = ["devices", "one job", "jobs at once", "jobs/h", "device-hours/job", "energy/job", "runs"]
    right = [True] * 6 + [False]
    body = [_cells(choice) for choice in advice.choices]
    if any(choice.cost is not None for choice in advice.choices):
        header, right = [*header, "cost/job"], [*right, True]
        costs = (DASH if choice.cost is None else cost_text(choice.cost) for choice in advice.choices)
        body = [[*cells, cost] for cells, cost in zip(body, costs, strict=True)]
    lines = [*_wrapped(markdown_escape(heading_text(advice)), ""), "", markdown_table(header, body, right), ""]
    lines += _wrapped(markdown_escape(recommendation_text(advice)), "")
    points = [*_answer_lines(advice), certainty_text(advice), *advice.notes]
    for text in points:
        lines += _wrapped(markdown_escape(clean(text, 400)), "- ") if text else []
    return "\n".join(lines)


def _cells(choice: DeviceChoice) -> list[str]:
    figures = [rate_text(choice.jobs_per_hour), f"{choice.device_hours:.3g}", energy_text(choice.energy_joules)]
    known = choice.measurement.runs
    runs = (str(choice.runs) if known else "figure") + (f", {choice.failed} failed" if choice.failed else "")
    return [str(choice.devices), duration_text(choice.seconds), str(choice.jobs_at_once), *figures, runs]


def _wrapped(text: str, bullet: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False
    )


_COLUMNS = (
    *(
        "workload",
        "series",
        "settings",
        "profile",
        "labels",
        "machine_devices",
        "devices",
        "train_seconds",
        "jobs_at_once",
    ),
    *(
        "idle_devices",
        "jobs_per_hour",
        "device_hours_per_job",
        "energy_joules_per_job",
        "cost_per_job",
        "runs_successful",
        "runs_failed",
    ),
    *(
        "fastest_single_job",
        "most_jobs_per_hour",
        "fewest_device_hours",
        "meets_deadline",
        "deadline_choice",
        "belongs",
        "note",
    ),
)


def _row(advice: Advice, choice: DeviceChoice) -> dict[str, object]:
    deadline = advice.deadline
    side_by_side = "side by side: assumed not to slow each other down" if choice.jobs_at_once > 1 else ""
    return {
        "workload": csv_cell(advice.workload),
        "series": csv_cell(advice.series),
        "settings": csv_cell(advice.settings),
        "profile": csv_cell(advice.profile),
        "labels": csv_cell("; ".join((*advice.labels, *(("extrapolated",) if advice.extrapolated else ())))),
        "machine_devices": advice.machine_devices,
        "devices": choice.devices,
        "train_seconds": choice.seconds,
        "jobs_at_once": choice.jobs_at_once,
        "idle_devices": choice.idle_devices,
        "jobs_per_hour": choice.jobs_per_hour,
        "device_hours_per_job": choice.device_hours,
        "energy_joules_per_job": choice.energy_joules,
        "cost_per_job": choice.cost,
        "runs_successful": choice.runs,
        "runs_failed": choice.failed,
        "fastest_single_job": choice is advice.fastest,
        "most_jobs_per_hour": choice is advice.most_jobs,
        "fewest_device_hours": choice is advice.cheapest,
        "meets_deadline": None if deadline is None else choice.seconds <= deadline.seconds * ROUNDING_TOLERANCE,
        "deadline_choice": None if deadline is None else choice is deadline.choice,
        "belongs": advice.belongs.value,
        "note": side_by_side,
    }


def advice_csv(items: Sequence[Advice]) -> str:
    """One line for each measured count; units are in the column names."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_row(advice, choice) for advice in items for choice in advice.choices)
    return stream.getvalue()


def advice_json(items: Sequence[Advice]) -> str:
    """The advice with its sentences, as one JSON object."""
    advice_items = [
        {
            "workload": advice.workload,
            "series": clean(advice.series),
            "settings": advice.settings,
            "profile": advice.profile,
            "labels": [clean(label) for label in advice.labels],
            "extrapolated": advice.extrapolated,
            "machine_devices": advice.machine_devices,
            "belongs": advice.belongs.value,
            "verdict": recommendation_text(advice),
            "answers": list(_answer_lines(advice)),
            "certainty": certainty_text(advice),
            "notes": list(advice.notes),
            "choices": [_row(advice, choice) for choice in advice.choices],
        }
        for advice in items
    ]
    document = {"not_verified": NOT_VERIFIED, "assumption": ASSUMPTION, "advice": advice_items}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
