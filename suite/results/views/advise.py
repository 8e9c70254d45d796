"""`suite advise`: advice on the number of devices of a job, from measured and predicted times to target.

Every figure is labeled as measured, or as predicted with bounds by the law of published results that `suite scaling` uses.
Advice is based on measured runs only, and is given only if they decide the question. Jobs on different devices of a machine are
assumed not to slow each other down. The output states this assumption.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from suite.results.columns import Result, with_time
from suite.results.data_table import DataTable
from suite.results.predict import scaling_model
from suite.results.predict.predictions import MEASURED, comparable_groups, predict_times
from suite.results.predict.step import gradients_of, traffic_text
from suite.results.price import Prices
from suite.results.ratios import Ratio, place, ratio, ratio_text
from suite.results.scores import failures, merged_labels, title
from suite.results.series import Series, all_series
from suite.results.settings_difference import distinct_labels, named_apart
from suite.results.text import (
    clean,
    cost_text,
    devices_text,
    energy_text,
    percent_text,
    range_text,
    rate_text,
    time_text,
)
from suite.results.views.repeat import next_commands
from suite.results.views.section import DEVICES_NOT_KNOWN, NOT_VERIFIED, Section, View, target_and_data_facts
from suite.results.views.speedup_text import AS_FAST, times_text

ASSUMPTION = (
    "Assumption, not measured: jobs side by side on different devices do not slow each other down "
    "(they share memory, storage, power and cooling)."
)
MINIMUM_EVALUATIONS = 4
"""Threshold of this suite. The accuracy of a time to target is an evaluation interval, a quarter of a run with four."""
LARGEST_PREDICTED_SHRINKAGE = 8
"""Predictions for a deadline go down to an eighth of the fewest measured devices."""
WORTH_SPREADING = 0.5
"""Threshold of this suite: if an added device adds less than half of a first device, a job belongs on the fewest devices."""
ROUNDING_TOLERANCE = 1.0 + 1e-6
"""Relative tolerance of deadlines: a published `1.0` minutes times sixty may be slightly above 60 s."""
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SHOWN = (
    "devices", "kind", "train_seconds", "time_range", "jobs_at_once", "jobs_per_hour", "device_hours_per_job",
    "energy_joules_per_job", "cost_per_job", "runs_successful", "runs_failed",
)  # fmt: skip
PREDICTED = "predicted"
"""`kind` of a predicted choice. Measured choices have `MEASURED`."""
_LEAST = (
    ("single job, fastest", "train_seconds", time_text),
    ("fewest device-hours", "device_hours_per_job", rate_text),
    ("least energy (GPUs)", "energy_joules_per_job", energy_text),
    ("lowest cost", "cost_per_job", cost_text),
)
Choice = dict[str, Any]
"""A device count for a job, measured or predicted, on a machine: a row of the data."""
Choices = Sequence[Choice]


def parse_deadline(text: str) -> float:
    """Return the seconds of a deadline such as `2h`, `90m`, `1h30m`, or `3600s`. Raises ValueError for invalid text."""
    match = re.fullmatch("".join(rf"(?:(\d{{1,9}}(?:\.\d{{1,9}})?){unit})?" for unit in "hms"), text)
    parts = match.groups() if match else ()
    total = sum(float(part or 0.0) * unit for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False))
    if total <= 0.0:
        raise ValueError(f"--deadline {text[:40]!r}: give hours, minutes or seconds above 0, such as 2h, 90m or 3600s")
    return total


def advise(
    results: Sequence[Result], devices: int | None = None, deadline: float | None = None, prices: Prices | None = None
) -> View:
    """Advise on each series of results with a time to target.

    Args:
        results: Measured or published results.
        devices: Devices of the machine; None: the most measured of each series.
        deadline: Seconds that one job may take.
        prices: Price of a device for an hour.

    Raises:
        ValueError: No result has a time to target, or none on so few devices.
    """
    every = all_series(_timed(results))
    fitting = [series for series in every if devices is None or series.fewest.device_count <= devices]
    if not fitting:
        few = min(series.fewest.device_count for series in every)
        raise ValueError(
            f"--devices {devices}: the fewest devices that were measured are {few}. Give {few} or more, "
            f"or predict it with suite scaling --devices {devices}"
        )
    sections, data = [], list[Choice]()
    groups = _groups(results)
    names = [title(series.results) for series in fitting]
    named = named_apart([series.fewest for series in fitting], names, shown=("devices", "nodes"))
    for name, series in sorted(zip(named, fitting, strict=True), key=lambda pair: pair[0]):
        machine = devices or series.most.device_count
        within = [row for row in series if row.device_count <= machine]
        best = [
            min(alike, key=lambda row: row.target_seconds)
            for _, alike in groupby(within, key=lambda row: row.device_count)
        ]
        labels = "; ".join((*merged_labels(best), *(["extrapolated"] if machine > series.most.device_count else [])))
        measured = _measured_choices(best, machine, deadline, prices)
        counts = _counts_to_predict(series, machine, deadline) if devices is not None or deadline is not None else []
        group = next((groups[row.key] for row in series if row.key in groups), [])
        rows, why_none = predict_times(group, counts, prices)
        predicted = _predicted_choices(rows, best[0], machine, deadline)
        advice = Advice(name, series, best, measured, predicted, counts, why_none, deadline)
        sections.append(_section(advice))
        choices = sorted((*measured, *predicted), key=lambda choice: choice["devices"])
        about = {"belongs": advice.placement, "decided": not advice.missing_evidence, "labels": labels}
        data += [{"series": name, **choice, **about} for choice in choices]
    above = [NOT_VERIFIED, *([ASSUMPTION] if any(choice["jobs_at_once"] > 1 for choice in data) else [])]
    if len({choice["profile"] for choice in data}) > 1:
        above.append("Several profiles were given; each has advice of its own, and they are never mixed.")
    price_notes = () if prices is None else prices.unused_notes(results)
    return View(
        "On how many devices to run a job", tuple(sections), DataTable.from_rows(data), tuple(above), price_notes
    )


class Advice:
    """Choices of a series on a machine, and the conclusions that the measured runs support."""

    def __init__(
        self,
        name: str,
        series: Series[Result],
        best: Sequence[Result],
        measured: Choices,
        predicted: Choices,
        wanted_counts: Sequence[int],
        why_none_predicted: str,
        deadline: float | None,
    ) -> None:
        """Draw the conclusions.

        Args:
            name: Name of the series.
            series: Results on all measured device counts.
            best: The fastest result on each device count that fits the machine.
            measured: Choices from measured results.
            predicted: Choices from predictions.
            wanted_counts: Device counts for which predictions were tried.
            why_none_predicted: Reason if there are no predictions.
            deadline: Seconds that a job may take.
        """
        self.name, self.series, self.best = name, series, best
        self.measured, self.predicted = measured, predicted
        self.wanted_counts, self.why_none_predicted, self.deadline = wanted_counts, why_none_predicted, deadline
        self.machine: int = measured[0]["machine_devices"]
        self.pair = Series(tuple(best)).speedup(best[-1], intervals=True) if len(best) > 1 else None
        self.placement = placement(measured, self.pair)
        self.missing_evidence = tuple(_missing_evidence(best, measured, self.pair))


def _groups(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return each result's group that `suite scaling` would predict from; empty if it could not from any."""
    with contextlib.suppress(ValueError):  # no result has both a batch and a time
        return {row.key: group for group in comparable_groups(results) for row in group}
    return {}


def _counts_to_predict(series: Series[Result], machine: int, deadline: float | None) -> list[int]:
    """Return the counts on the machine that were not measured: all of it, and with a deadline the powers of two."""
    measured = {row.devices for row in series}
    counts = {machine}
    if deadline is not None:
        powers = (1 << power for power in range(machine.bit_length()))
        counts |= {count for count in powers if count * LARGEST_PREDICTED_SHRINKAGE >= series.fewest.device_count}
    return sorted(counts - measured)


def _timed(results: Sequence[Result]) -> list[Result]:
    reached = [row for row in results if row.seconds]
    known = with_time(reached)
    if not reached:
        why = "advice needs runs that reached a target, and there are none: only runs of fixed length, or none that succeeded"
        raise ValueError(f"{why}. Run to the target first: python run_suite.py -m workload=ncf profile=demo gpus=1,2")
    if not known:
        name = clean(f"{reached[0].submitter} {reached[0].system}".strip(), 80)
        raise ValueError(f"advice is about numbers of devices: {name}: {DEVICES_NOT_KNOWN}")
    return known


def _measured_choices(
    best: Sequence[Result], machine: int, deadline: float | None, prices: Prices | None
) -> list[Choice]:
    choices = [_choice(row, machine, prices) for row in best]
    _flag(choices, deadline)
    return choices


def _predicted_choices(
    rows: Sequence[Mapping[str, Any]], like: Result, machine: int, deadline: float | None
) -> list[Choice]:
    """Return choices from rows of `predict_times`. `like` is a measured result of the same series."""
    choices = []
    for row in rows:
        choice = _placed_choice(like, machine, int(row["devices"]), PREDICTED, row["seconds"])
        choice |= {"train_seconds_low": row["seconds_low"], "train_seconds_high": row["seconds_high"]}
        choice |= {f"device_hours_per_job{end}": row[f"device_hours{end}"] for end in ("_low", "_high")}
        choice |= {f"cost_per_job{end}": row[f"cost{end}"] for end in ("", "_low", "_high")}
        choices.append(choice)
    _flag(choices, deadline)
    return choices


def _flag(choices: list[Choice], deadline: float | None) -> None:
    """Mark the best choices, in place. All choices are measured, or all are predicted."""
    if not choices:
        return
    flagged = {
        "fastest_single_job": _least(choices, "train_seconds"),
        "most_jobs_per_hour": max(choices, key=lambda one: (one["jobs_per_hour"], one["devices"])),  # sooner, if equal
        "fewest_device_hours": _least(choices, "device_hours_per_job"),
    }
    meeting = [choice for choice in choices if deadline and _meets(choice, deadline)]
    surely = [choice for choice in meeting if deadline and _surely_meets(choice, deadline)]
    chosen = _least(surely or meeting, "device_hours_per_job")
    for choice in choices:
        choice |= {name: choice is best for name, best in flagged.items()}
        choice["meets_deadline"] = choice in meeting if deadline else None
        choice["deadline_choice"] = choice is chosen if deadline else None
        choice["note"] = "side by side: assumed not to slow each other down" if choice["jobs_at_once"] > 1 else ""


def _meets(choice: Choice, deadline: float) -> bool:
    return bool(choice["train_seconds"] <= deadline * ROUNDING_TOLERANCE)


def _surely_meets(choice: Choice, deadline: float) -> bool:
    """Check whether a choice meets the deadline at its upper bound too."""
    high = choice["train_seconds_high"]
    return bool((choice["train_seconds"] if high is None else high) <= deadline * ROUNDING_TOLERANCE)


def _placed_choice(like: Result, machine: int, devices: int, kind: str, seconds: float) -> Choice:
    """Return the choice for a device count and a time."""
    at_once = machine // devices
    choice: Choice = {name: getattr(like, name) for name in ("workload", "framework", "system", "profile")}
    choice |= {"machine_devices": machine, "devices": devices, "kind": kind, "train_seconds": seconds}
    choice |= {"train_seconds_low": None, "train_seconds_high": None, "slowest_seconds": None}
    choice |= {"jobs_at_once": at_once, "idle_devices": machine - at_once * devices}
    choice |= {"jobs_per_hour": at_once * 3600.0 / seconds, "device_hours_per_job": devices * seconds / 3600.0}
    choice |= {"device_hours_per_job_low": None, "device_hours_per_job_high": None, "energy_joules_per_job": None}
    choice |= dict.fromkeys(("cost_per_job", "cost_per_job_low", "cost_per_job_high"))
    return choice | {"runs_successful": None, "runs_failed": None}


def _choice(row: Result, machine: int, prices: Prices | None) -> Choice:
    powered = row.runs and all(run.energy_joules is not None for run in row.runs)
    return _placed_choice(row, machine, row.device_count, MEASURED, row.target_seconds) | {
        "slowest_seconds": row.seconds_maximum,
        "energy_joules_per_job": row.energy_joules if powered else None,
        "cost_per_job": None if prices is None else prices.cost(row),
        "runs_successful": None if row.single_figure else row.runs_successful,
        "runs_failed": row.runs_failed or None,
    }


def _least(choices: Choices, name: str) -> Choice | None:
    """Return the choice with the least value of a column, the faster one of equal choices; None if the column is empty."""
    known = [choice for choice in choices if choice[name] is not None]
    return min(known, key=lambda choice: (choice[name], choice["train_seconds"]), default=None)


def placement(choices: Choices, pair: Ratio | None) -> str:
    """Return the placement of a queue's jobs (docs/scaling.md): `spread`, `sooner`, `fewest`, `between`, or `unknown`."""
    if pair is None or pair.total is None:
        return "unknown"
    most = max(choice["jobs_per_hour"] * (1.0 - 1e-9) for choice in choices)
    if choices[-1]["jobs_per_hour"] >= most:
        return "spread"
    if choices[0]["jobs_per_hour"] < most:
        return "between"
    return "sooner" if _share_of_added_device(choices, pair.total) >= WORTH_SPREADING else "fewest"


def _missing_evidence(best: Sequence[Result], choices: Choices, pair: Ratio | None) -> Iterator[str]:
    """Yield the evidence that is missing to decide how many devices the jobs of a queue should get."""
    if pair is None or pair.total is None:
        yield "a second device count"
        return
    for row in best:
        where = f"on {devices_text(row.device_count)}"
        if row.busy is not None:
            yield f"runs {where} while the machine is not busy ({row.machine_condition})"
        if not failures(row)[1]:
            yield f"an official score {where} ({failures(row)[0]} failed)"
        evaluations = [run.evaluations for run in row.runs if run.evaluations is not None]
        if evaluations and min(evaluations) < MINIMUM_EVALUATIONS:
            count = min(evaluations)
            known = f"a run has {count} evaluation{'s' * (count != 1)}, and its time to target is known to one of them"
            yield f"more frequent evaluations {where} ({known})"
    if pair.interval is None:
        yield f"the run-to-run variation ({pair.no_interval})"
    elif not _is_decided(best, choices, pair):
        yield "more runs: the interval of the speedup allows several answers"


def _is_decided(best: Sequence[Result], choices: Choices, pair: Ratio) -> bool:
    """Check whether the placement is the same over the whole interval of each speedup that it depends on."""
    belongs = placement(choices, pair)
    by_devices = {row.devices: row for row in best}
    queue = by_devices[_flagged(choices, "most_jobs_per_hour")["devices"]]
    at_once = {choice["devices"]: choice["jobs_at_once"] for choice in choices}
    for row in dict.fromkeys((best[0], best[-1])):
        if row is queue:
            continue
        speedup = ratio(row, queue)
        share = at_once[queue.devices] / at_once[row.devices]
        if speedup.interval is None or speedup.interval.low * share < 1.0 < speedup.interval.high * share:
            return False
    if belongs in ("sooner", "fewest") and pair.interval is not None:
        added = [_share_of_added_device(choices, total) for total in (pair.interval.low, pair.interval.high)]
        return min(added) >= WORTH_SPREADING or max(added) < WORTH_SPREADING
    return True


def _share_of_added_device(choices: Choices, speedup: float) -> float:
    """Return the gain of each added device, as a share of the contribution of each of the fewest devices."""
    return float((speedup - 1.0) / (choices[-1]["devices"] / choices[0]["devices"] - 1.0))


def _section(advice: Advice) -> Section:
    few, best = advice.measured[0], advice.best
    notes = tuple(dict.fromkeys(_notes(advice)))
    facts = tuple(target_and_data_facts(best))
    is_only = len(advice.series) == 1 and advice.machine == few["devices"]
    if is_only and advice.deadline is None:
        cost = "" if few["cost_per_job"] is None else f", cost {cost_text(few['cost_per_job'])}"
        took = f"{time_text(few['train_seconds'])}{cost} on {devices_text(advice.machine)}, the only measured device count."
        commands = next_commands(best[0])
        remedy = (
            "Run next:" if commands else "Add results of the same hardware on further counts (suite published list)."
        )
        return Section(
            advice.name, (f"{took} Advice needs a second count. {remedy}",), commands=commands, below=notes, facts=facts
        )
    name = f"{advice.name}; machine of {devices_text(advice.machine)}"
    name += ", extrapolated" if advice.machine > advice.series.most.device_count else ""
    listed = sorted((*advice.measured, *advice.predicted), key=lambda choice: choice["devices"])
    shown = [column for column in _SHOWN if column != "kind" or advice.predicted]
    cells = [choice | {"time_range": _time_range(choice)} for choice in listed]
    table = DataTable.from_rows({column: choice[column] for column in shown} for choice in cells).without_empty()
    below = (*_answers(advice), *notes)
    keys = 2 if advice.predicted else 1
    return Section(name, (_verdict(advice),), table, below=below, keys=keys, facts=facts)


def _time_range(choice: Choice) -> str:
    """Return the bounds of a predicted time as text; empty if it was measured."""
    low, high = choice["train_seconds_low"], choice["train_seconds_high"]
    return "" if low is None or high is None else range_text(low, high, choice["train_seconds"])


def _verdict(advice: Advice) -> str:
    """Return the advice; if the runs do not decide it, the measurements and the missing evidence."""
    few, many, pair = advice.measured[0], advice.measured[-1], advice.pair
    if pair is None or pair.total is None:
        measured = [row.devices for row in advice.series]
        if len(set(measured)) == 1:
            return f"Measured on {devices_text(few['devices'])} only, so there is no choice."
        counts = ", ".join(f"{count:,}" for count in dict.fromkeys(measured))
        fits = f"of these only {few['devices']:,} fit a machine of {devices_text(advice.machine)}"
        return f"Measured on {counts} devices; {fits}."
    gain, share = times_text(pair.total), many["jobs_per_hour"] / few["jobs_per_hour"]
    than = f"{gain} {'as' if gain == AS_FAST else 'than'} on {few['devices']}"
    jobs = f"{_queue(many)} do {100 * share:.0f} % of the jobs of {_queue(few)}"
    shows = f"on {devices_text(many['devices'])} one job is {than}, and {jobs}"
    if advice.missing_evidence:
        return f"No advice from these runs. They show: {shows}. Missing: {'; '.join(advice.missing_evidence)}."
    imperative = {
        "spread": "Spread, for a queue too",
        "sooner": "Spread only when a single result is wanted sooner",
        "fewest": f"Keep each job on {devices_text(few['devices'])}",
        "between": f"For a queue give each job {devices_text(_flagged(advice.measured, 'most_jobs_per_hour')['devices'])}",
    }[advice.placement]
    return f"{imperative}: {shows}."


def _flagged(choices: Choices, flag: str) -> Choice:
    return next(choice for choice in choices if choice[flag])


def _queue(choice: Choice) -> str:
    """Return the jobs of a queue as text: `eight 1-device jobs side by side`, `8-device jobs in sequence`."""
    at_once = choice["jobs_at_once"]
    if at_once == 1:
        return f"{choice['devices']}-device jobs in sequence"
    count = _COUNTS[at_once] if at_once < len(_COUNTS) else f"{at_once:,}"
    return f"{count} {choice['devices']}-device jobs side by side"


def _answers(advice: Advice) -> Iterator[str]:
    choices, predicted, pair = advice.measured, advice.predicted, advice.pair
    queue = _flagged(choices, "most_jobs_per_hour")
    idle = f", {devices_text(queue['idle_devices'])} idle" if queue["idle_devices"] else ""
    for words, name, text in _LEAST:
        if (least := _least(choices, name)) is not None:
            missing = ", ".join(str(choice["devices"]) for choice in choices if choice[name] is None)
            rest = " a job" * name.endswith("_per_job") + (f" (not measured on {missing})" if missing else "")
            line = f"{words}: {devices_text(least['devices'])}, {text(least[name])}{rest}"
            better = _least(predicted, name)
            if better is not None and better[name] < least[name] and text(better[name]) != text(least[name]):
                line += (
                    f"; predicted: {devices_text(better['devices'])}, {text(better[name])}{_bounds(better, name, text)}"
                )
            yield line
        if name == "train_seconds":
            yield f"queue, most jobs: {_queue(queue)}, {rate_text(queue['jobs_per_hour'])} jobs/h{idle}"
    if advice.deadline is not None:
        yield from _deadline_answers(advice, advice.deadline)
    if pair is not None and pair.interval is None:
        yield f"how sure: unknown ({pair.no_interval})"
    elif pair is not None and pair.interval is not None:
        linear = choices[-1]["devices"] / choices[0]["devices"]
        more = f"; that includes {linear:.3g}, so more runs are needed to decide which queue is faster"
        certainty = f"how sure: speedup {ratio_text(pair.total or 0.0)}, {pair.interval_words}"
        yield certainty + (more if pair.interval.low <= linear <= pair.interval.high else "")


def _bounds(choice: Choice, name: str, text: Callable[[float], str]) -> str:
    """Return bounds as text, ` (15.47 min to 19.12 min)`; empty without bounds."""
    low, high = choice.get(f"{name}_low"), choice.get(f"{name}_high")
    return "" if low is None or high is None else f" ({text(low)} to {text(high)})"


def _deadline_answers(advice: Advice, deadline: float) -> Iterator[str]:
    """Yield the cheapest measured count that meets the deadline, then the cheapest predicted one if it adds something."""
    meets = any(choice["deadline_choice"] for choice in advice.measured)
    chosen = _flagged(advice.measured, "deadline_choice" if meets else "fastest_single_job")
    took = f"{devices_text(chosen['devices'])}, {time_text(chosen['train_seconds'])}"
    hours = rate_text(chosen["device_hours_per_job"])
    measured = f"deadline {time_text(deadline)}, measured"
    if not meets:
        yield f"{measured}: no measured device count meets it; the fastest is {took}"
    else:
        slowest = chosen["slowest_seconds"] or 0.0
        line = f"{measured}: {took}: the fewest device-hours that meet it ({hours} a job)"
        if slowest > deadline * ROUNDING_TOLERANCE:
            line += f"; on average only: its slowest run took {time_text(slowest)}"
        yield line
    if not advice.predicted:
        return
    meeting = [choice for choice in advice.predicted if choice["deadline_choice"]]
    predicted = f"deadline {time_text(deadline)}, {PREDICTED}"
    if not meeting:
        counts = ", ".join(f"{choice['devices']:,}" for choice in advice.predicted)
        yield f"{predicted}: no further count meets it ({counts} devices)"
        return
    (choice,) = meeting
    took = f"{devices_text(choice['devices'])}, {time_text(choice['train_seconds'])}"
    took += _bounds(choice, "train_seconds", time_text)
    hours_text = f"{rate_text(choice['device_hours_per_job'])} device-hours a job"
    hours_text += _bounds(choice, "device_hours_per_job", rate_text)
    surely = "over the whole 90 % interval" if _surely_meets(choice, deadline) else "not over the whole 90 % interval"
    compared = ""
    if meets:
        is_less = choice["device_hours_per_job"] < chosen["device_hours_per_job"]
        compared = f", {'fewer' if is_less else 'not fewer'} than the measured {hours}"
    yield f"{predicted}: {took}, {surely}; {hours_text}{compared}; it was not measured"


def _notes(advice: Advice) -> Iterator[str]:
    family, best, pair, machine = advice.series.results, advice.best, advice.pair, advice.machine
    if machine > (busiest := family[-1].device_count):
        yield f"extrapolated: jobs/h on {devices_text(machine)}, when no more than {busiest} were busy in any measurement"
    counts = [row.devices for row in best]
    predicted = [choice["devices"] for choice in advice.predicted]
    if machine not in counts and machine not in predicted:
        measured = ", ".join(map(str, counts))
        yield f"{devices_text(machine)} were not measured for one job; only measured counts are used ({measured})"
    if predicted:
        interval = f"by the law of published rows, {percent_text(scaling_model.LEVEL)} interval"
        yield f"predicted, not measured: {_listed(predicted)} devices, {interval} (suite scaling; docs/scaling.md)"
    elif advice.wanted_counts and advice.why_none_predicted:
        yield f"no prediction for {_listed(advice.wanted_counts)} devices: {advice.why_none_predicted}"
    if larger := [row.device_count for row in family if row.device_count > machine]:
        yield f"measured too, and larger than the machine: {_listed(list(dict.fromkeys(larger)))} devices"
    for row in best:
        others = [row, *(other for other in family if other is not row and other.devices == row.devices)]
        if len(others) > 1:
            fastest = distinct_labels(others)[0]
            yield f"on {devices_text(row.device_count)} the fastest of {len(others)} settings is used: {fastest}"
    if placed := [devices_text(*place(row)) for row in best if place(row)[1] > 1]:
        yield f"over several nodes (nodes × devices of each): {', '.join(placed)}"
    if pair is not None:
        yield from pair.flags
        with contextlib.suppress(ValueError):  # the size of the gradients is not known
            yield f"each step sums {traffic_text(gradients_of(family))} over the devices (docs/scaling.md)"
    yield from (note for row in best for note in row.mixed_notes)
    for row in (row for row in best if row.runs_failed):
        count = f"{row.runs_failed} of {row.runs_failed + row.runs_successful} runs on {devices_text(row.device_count)}"
        yield f"{count} failed; the time they took is not counted"


def _listed(counts: Sequence[int]) -> str:
    """Return counts as text, `4, 16 and 32`; more than eight counts as the first and the last."""
    texts = [f"{count:,}" for count in counts]
    if len(texts) > 8:
        return f"{texts[0]} to {texts[-1]}"
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
