"""Advice as text, CSV and JSON. Words for each workload; labels and the assumption stand beside the numbers."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Iterator, Sequence

from suite.results.advise.advise import ASSUMPTION, ROUNDING, Advice, Belongs, Choice
from suite.results.names import WORKLOAD_TITLES
from suite.results.report.report import NOT_VERIFIED
from suite.results.report.tables import DASH, markdown_table, rate_text
from suite.results.score.measurement import Measurement
from suite.results.score.scaling import ratio_text
from suite.results.text import clean, csv_cell, devices_text, markdown_escape

_WIDTH = 118
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def duration(seconds: float) -> str:
    """`38.0 s`, `14.5 min`, `3.2 h`: in the largest unit of which there are two."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.3g} s"


def energy(joules: float | None) -> str:
    """`3.4 kWh`, `52.1 Wh`, `820 J`, or a dash."""
    if joules is None:
        return DASH
    for unit, size in (("kWh", 3.6e6), ("Wh", 3600.0)):
        if joules >= size:
            return f"{joules / size:,.1f} {unit}"
    return f"{joules:.3g} J"


def heading(advice: Advice) -> str:
    """Workload, what was measured, and every label."""
    name = WORKLOAD_TITLES.get(advice.workload, clean(advice.workload, 40))
    tags = [tag for tag in dict.fromkeys((advice.profile, *advice.labels)) if tag and tag != "published"]
    labels = f" ({clean(', '.join(tags), 120)})" if tags else ""
    settings = f", {advice.settings}" if advice.settings else ""
    machine = devices_text(advice.machine_devices) + (", extrapolated" if advice.extrapolated else "")
    return f"{name}: {clean(advice.series, 80)}{labels}{settings}; machine of {machine}"


def verdict(advice: Advice) -> str:
    """Where the jobs of this workload belong, in one or two sentences."""
    name, few, many = clean(advice.workload, 40), advice.choices[0], advice.choices[-1]
    if advice.pair is None or advice.pair.total is None:
        only = f"{name} was measured on {devices_text(few.devices)} only, so there is nothing to choose from."
        return f"{only} {next_run(few.measurement)}"
    gain = ratio_text(advice.pair.total)
    share = many.jobs_per_hour / few.jobs_per_hour
    compared = f"{queue_words(many)} do {share:.0%} of the jobs of {queue_words(few)}"
    if advice.belongs is Belongs.SPREAD:
        return (
            f"{name} gains even in throughput when spread: {gain}× on {many.devices / few.devices:.3g}× the devices; "
            f"{compared}."
        )
    if advice.belongs is Belongs.FEWEST:
        each = "one device" if few.devices == 1 else devices_text(few.devices)
        sooner = f"only {gain}× sooner" if advice.pair.total >= 1 else f"later, not sooner ({gain}×)"
        return f"{name} belongs on {each} each: {devices_text(many.devices)} finish one job {sooner}; {compared}."
    if advice.belongs is Belongs.SOONER:
        return (
            f"{name} is worth spreading only when a single result is wanted sooner ({gain}× sooner on "
            f"{devices_text(many.devices)}); for a queue {compared}."
        )
    return f"{name} gives the most jobs on {devices_text(advice.queue.devices)} each; {compared}."


def queue_words(choice: Choice) -> str:
    """`eight 1-device jobs side by side`, `8-device jobs one after another`."""
    if choice.jobs_at_once == 1:
        return f"{choice.devices}-device jobs one after another"
    count = _COUNTS[choice.jobs_at_once] if choice.jobs_at_once < len(_COUNTS) else f"{choice.jobs_at_once:,}"
    return f"{count} {choice.devices}-device jobs side by side"


def next_run(item: Measurement) -> str:
    """What to do where `item` is the only number of devices."""
    if item.origin != "ours":
        return "Give results of the same hardware on other counts (suite published list)."
    count = 2 * item.devices
    words = (
        f"python run_suite.py workload={item.workload} framework={item.framework} profile={item.profile} gpus={count}"
    )
    return f"Run next: {clean(words)}"


def certainty(advice: Advice) -> str:
    """What the runs say about how sure the speedup is; empty with one count."""
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


def _answers(advice: Advice) -> Iterator[str]:
    fast, queue, cheap = advice.fastest, advice.queue, advice.cheapest
    yield f"single job, fastest: {devices_text(fast.devices)}, {duration(fast.seconds)}"
    assumed = ", assumed not to slow each other down" if queue.jobs_at_once > 1 else ""
    idle = f", {devices_text(queue.idle_devices)} idle" if queue.idle_devices else ""
    yield f"queue, most jobs: {queue_words(queue)}, {rate_text(queue.jobs_per_hour)} jobs/h{idle}{assumed}"
    yield f"fewest device-hours: {devices_text(cheap.devices)}, {hours(cheap.device_hours)} a job"
    least = advice.least_energy
    missing = [choice.devices for choice in advice.choices if choice.energy_joules is None]
    if least is not None:
        rest = f" (not measured on {', '.join(map(str, missing))})" if missing else ""
        yield f"least energy (GPUs): {devices_text(least.devices)}, {energy(least.energy_joules)} a job{rest}"
    if advice.deadline is not None:
        yield _deadline(advice)


def _deadline(advice: Advice) -> str:
    assert advice.deadline is not None
    limit, chosen, fast = duration(advice.deadline.seconds), advice.deadline.choice, advice.fastest
    if chosen is None:
        return (
            f"deadline {limit}: no measured device count meets it; the fastest is {devices_text(fast.devices)} with "
            + duration(fast.seconds)
        )
    text = (
        f"deadline {limit}: {devices_text(chosen.devices)}, {duration(chosen.seconds)}, {hours(chosen.device_hours)}: "
    )
    text += "the fewest device-hours that meet it"
    if chosen.slowest_seconds is not None and chosen.slowest_seconds > advice.deadline.seconds * ROUNDING:
        text += f"; on average only: its slowest run took {duration(chosen.slowest_seconds)}"
    return text


def hours(device_hours: float) -> str:
    """Device-hours with three significant digits."""
    return f"{device_hours:,.0f} device-hours" if device_hours >= 1000 else f"{device_hours:.3g} device-hours"


def advice_text(found: Sequence[Advice]) -> str:
    """All advice for a terminal."""
    parts = ["\n".join((f"{NOT_VERIFIED}", *_wrapped(ASSUMPTION, "")))]
    if len({advice.profile for advice in found}) > 1:
        parts.append("Several profiles were given; each has advice of its own, and they are never mixed.")
    parts += [_section(advice) for advice in found]
    return "\n\n".join(parts) + "\n"


def _section(advice: Advice) -> str:
    header = ["devices", "one job", "jobs at once", "jobs/h", "device-hours/job", "energy/job", "runs"]
    body = [_cells(choice) for choice in advice.choices]
    lines = [
        *_wrapped(markdown_escape(heading(advice)), ""),
        "",
        markdown_table(header, body, [True] * 6 + [False]),
        "",
    ]
    lines += _wrapped(markdown_escape(verdict(advice)), "")
    points = [*_answers(advice), certainty(advice), *advice.notes]
    for text in points:
        lines += _wrapped(markdown_escape(clean(text, 400)), "- ") if text else []
    return "\n".join(lines)


def _cells(choice: Choice) -> list[str]:
    figures = [rate_text(choice.jobs_per_hour), f"{choice.device_hours:.3g}", energy(choice.energy_joules)]
    known = choice.measurement.runs
    runs = (str(choice.runs) if known else "figure") + (f", {choice.failed} failed" if choice.failed else "")
    return [str(choice.devices), duration(choice.seconds), str(choice.jobs_at_once), *figures, runs]


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


def _row(advice: Advice, choice: Choice) -> dict[str, object]:
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
        "runs_successful": choice.runs,
        "runs_failed": choice.failed,
        "fastest_single_job": choice is advice.fastest,
        "most_jobs_per_hour": choice is advice.queue,
        "fewest_device_hours": choice is advice.cheapest,
        "meets_deadline": None if deadline is None else choice.seconds <= deadline.seconds * ROUNDING,
        "deadline_choice": None if deadline is None else choice is deadline.choice,
        "belongs": advice.belongs.value,
        "note": side_by_side,
    }


def advice_csv(found: Sequence[Advice]) -> str:
    """One line for each measured count; units are in the column names."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_row(advice, choice) for advice in found for choice in advice.choices)
    return stream.getvalue()


def advice_json(found: Sequence[Advice]) -> str:
    """The same with words, as one JSON object."""
    items = [
        {
            "workload": advice.workload,
            "series": clean(advice.series),
            "settings": advice.settings,
            "profile": advice.profile,
            "labels": [clean(label) for label in advice.labels],
            "extrapolated": advice.extrapolated,
            "machine_devices": advice.machine_devices,
            "belongs": advice.belongs.value,
            "verdict": verdict(advice),
            "answers": list(_answers(advice)),
            "certainty": certainty(advice),
            "notes": list(advice.notes),
            "choices": [_row(advice, choice) for choice in advice.choices],
        }
        for advice in found
    ]
    document = {"not_verified": NOT_VERIFIED, "assumption": ASSUMPTION, "advice": items}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
