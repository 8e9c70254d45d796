"""`suite advise`: advice on the number of devices for a job.

The advice uses measured and predicted times to target.

Each value is labeled as measured or predicted. Predictions have bounds and come from the scaling
model of `suite scaling`. Advice is based only on measured runs, and is given only if there are
enough of them. The command assumes that jobs on different devices of a machine do not slow each
other down. The output states this assumption.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from suite.results.columns import Result, column, with_time
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.predict import scaling_model
from suite.results.predict.predictions import (
    MEASURED,
    PredictionRow,
    comparable_groups,
    predict_times,
)
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
from suite.results.views.section import (
    DEVICES_NOT_KNOWN,
    NOT_VERIFIED,
    Section,
    View,
    target_and_data_facts,
)
from suite.results.views.speedup_text import AS_FAST, times_text

ASSUMPTION = (
    "Assumption, not measured: jobs side by side on different devices do not slow each other down "
    "(they share memory, storage, power and cooling)."
)
MINIMUM_EVALUATIONS = 4
"""Minimum number of evaluations per run for which advice is given.

A time to target is accurate to one evaluation interval. With four evaluations, the interval is a
quarter of the run. This suite defines the threshold.
"""
LARGEST_PREDICTED_SHRINKAGE = 8
"""Limit for predictions below the smallest measured device count. A deadline is predicted for
device counts down to this count divided by 8.
"""
WORTH_SPREADING = 0.5
"""Minimum speedup that an added device must contribute, relative to the contribution of a device in
the smallest measured count. Below this value, the advice is to use the fewest devices. This suite
defines the threshold.
"""
ROUNDING_TOLERANCE = 1.0 + 1e-6
"""Relative tolerance for deadlines. A published time of `1.0` minutes, for example, may be slightly
longer than 60 s.
"""
_COUNTS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_SHOWN = (
    "devices", "kind", "train_seconds", "time_range", "jobs_at_once", "jobs_per_hour",
    "device_hours_per_job",
    "energy_joules_per_job", "cost_per_job", "runs_successful", "runs_failed",
)  # fmt: skip
PREDICTED = "predicted"
"""`kind` of a predicted choice. A measured choice has the kind `MEASURED`."""
_LEAST = (
    ("The fastest single job takes", "train_seconds", time_text, ""),
    ("The fewest device-hours are", "device_hours_per_job", rate_text, " per job"),
    ("The least energy of the GPUs is", "energy_joules_per_job", energy_text, " per job"),
    ("The lowest cost is", "cost_per_job", cost_text, " per job"),
)
"""Tuples (beginning of a sentence, column with the value, format of the value, unit)."""
SIDE_BY_SIDE = "side by side: assumed not to slow each other down"
"""Text in the column `note` for a choice with several concurrent jobs."""


@dataclass(kw_only=True)
class Choice:
    """A measured or predicted option: a device count for a job on a machine.

    The fields are the columns of the written files, in the same order.
    """

    workload: str = column("Workload", unknown="")
    framework: str = column("Framework", unknown="")
    system: str = column("System", unknown="")
    profile: str = column("Profile", unknown="")
    machine_devices: int = column("Devices of the machine", unknown=0)
    devices: int = column("Devices of each job", unknown=0)
    kind: str = column("`measured` or `predicted`", unknown=MEASURED)
    train_seconds: float = column("Time to target of a job", unknown=0.0)
    train_seconds_low: float | None = column("Lower bound of a prediction")
    train_seconds_high: float | None = column("Upper bound of a prediction")
    slowest_seconds: float | None = column("Time to target of the slowest run")
    jobs_at_once: int = column("Jobs side by side on the machine", unknown=0)
    idle_devices: int = column("Devices of the machine without a job", unknown=0)
    jobs_per_hour: float = column("Jobs per hour of the machine", unknown=0.0)
    device_hours_per_job: float = column("Devices × time to target", unknown=0.0)
    device_hours_per_job_low: float | None = column("Lower bound of a prediction")
    device_hours_per_job_high: float | None = column("Upper bound of a prediction")
    energy_joules_per_job: float | None = column("Energy of the GPUs for a job")
    cost_per_job: float | None = column("Device-hours × price")
    cost_per_job_low: float | None = column("Lower bound of a prediction")
    cost_per_job_high: float | None = column("Upper bound of a prediction")
    runs_successful: int | None = column("Runs that reached the target")
    runs_failed: int | None = column("Runs that failed")
    fastest_single_job: bool = column("The shortest time to target", unknown=False)
    most_jobs_per_hour: bool = column("The most jobs per hour", unknown=False)
    fewest_device_hours: bool = column("The fewest device-hours per job", unknown=False)
    meets_deadline: bool | None = column("The time to target meets the deadline")
    deadline_choice: bool | None = column("The fewest device-hours that meet the deadline")
    note: str = column("Assumption of the row", unknown="")

    def columns(self) -> dict[str, Any]:
        """Return the values of the choice by column name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


Choices = Sequence[Choice]


def parse_deadline(text: str) -> float:
    """Convert a deadline such as `2h`, `90m`, `1h30m`, or `3600s` to seconds.

    Raises ValueError for an invalid deadline.
    """
    match = re.fullmatch(
        "".join(rf"(?:(\d{{1,9}}(?:\.\d{{1,9}})?){unit})?" for unit in "hms"), text
    )
    parts = match.groups() if match else ()
    total = sum(
        float(part or 0.0) * unit for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False)
    )
    if total <= 0.0:
        raise ValueError(
            f"--deadline {text[:40]!r}: give hours, minutes or seconds above 0, such as 2h, 90m or"
            " 3600s"
        )
    return total


def advise(
    results: Sequence[Result],
    devices: int | None = None,
    deadline: float | None = None,
    prices: Prices | None = None,
) -> View:
    """Return advice for each series of results with a time to target.

    Args:
        results: Measured or published results.
        devices: Number of devices of the machine. The default is the largest measured device count
            of each series.
        deadline: Maximum time of a job in seconds.
        prices: Price per device-hour.

    Raises:
        ValueError: No result has a time to target, or all results need more devices than the
            machine has.
    """
    measured_series = all_series(_timed(results))
    fitting = [
        series
        for series in measured_series
        if devices is None or series.fewest.device_count <= devices
    ]
    if not fitting:
        fewest = min(series.fewest.device_count for series in measured_series)
        raise ValueError(
            f"--devices {devices}: the fewest devices that were measured are {fewest}. Give"
            f" {fewest} or more, or predict the time with suite scaling --devices {devices}"
        )
    sections: list[Section] = []
    data: list[dict[str, Any]] = []
    groups = _groups(results)
    names = [title(series.results) for series in fitting]
    named = named_apart([series.fewest for series in fitting], names, shown=("devices", "nodes"))
    for name, series in sorted(zip(named, fitting, strict=True), key=lambda pair: pair[0]):
        machine = devices or series.most.device_count
        within = [result for result in series if result.device_count <= machine]
        by_devices = grouped(within, lambda result: result.device_count)
        best = [
            min(alike, key=lambda result: result.target_seconds) for alike in by_devices.values()
        ]
        labels = list(merged_labels(best))
        if machine > series.most.device_count:
            labels.append("extrapolated")
        measured = _measured_choices(best, machine, deadline, prices)
        counts = (
            _counts_to_predict(series, machine, deadline)
            if devices is not None or deadline is not None
            else []
        )
        group = next((groups[row.key] for row in series if row.key in groups), [])
        rows, why_none = predict_times(group, counts, prices)
        predicted = _predicted_choices(rows, best[0], machine, deadline)
        advice = Advice(name, series, best, measured, predicted, counts, why_none, deadline)
        sections.append(_section(advice))
        about = {
            "belongs": advice.placement,
            "decided": not advice.missing_evidence,
            "labels": "; ".join(labels),
        }
        data += [{"series": name, **choice.columns(), **about} for choice in advice.choices]
    above = [NOT_VERIFIED]
    if any(row["jobs_at_once"] > 1 for row in data):
        above.append(ASSUMPTION)
    if len({row["profile"] for row in data}) > 1:
        above.append("The results have several profiles. Each profile has separate advice.")
    price_notes = () if prices is None else prices.unused_notes(results)
    return View(
        "On how many devices to run a job",
        tuple(sections),
        DataTable.from_rows(data),
        tuple(above),
        price_notes,
    )


class Advice:
    """Device counts for the jobs of a series on a machine, and the conclusions.

    The conclusions are based on measured runs.
    """

    def __init__(
        self,
        name: str,
        series: Series[Result],
        best: Sequence[Result],
        measured: Choices,
        predicted: Choices,
        counts_to_predict: Sequence[int],
        why_none_predicted: str,
        deadline: float | None,
    ) -> None:
        """Derive the conclusions from the choices.

        Args:
            name: Name of the series.
            series: Results on all measured device counts.
            best: The fastest result on each device count that the machine has.
            measured: Choices from measured results.
            predicted: Choices from predictions.
            counts_to_predict: Device counts for which a prediction was attempted.
            why_none_predicted: Reason why there are no predictions.
            deadline: Maximum time of a job in seconds.
        """
        self.name, self.series, self.best = name, series, best
        self.measured, self.predicted = measured, predicted
        self.counts_to_predict, self.why_none_predicted, self.deadline = (
            counts_to_predict,
            why_none_predicted,
            deadline,
        )
        self.choices = sorted((*measured, *predicted), key=lambda choice: choice.devices)
        self.machine = measured[0].machine_devices
        self.pair = Series(tuple(best)).speedup(best[-1], intervals=True) if len(best) > 1 else None
        self.placement = placement(measured, self.pair)
        self.missing_evidence = tuple(_missing_evidence(best, measured, self.pair))


def _groups(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Map the key of each result to the group of results that predictions would use.

    The groups are those of `suite scaling`. The mapping is empty if no result can be used for a
    prediction.
    """
    # The error means that no result has both a batch size and a time.
    with contextlib.suppress(ValueError):
        return {row.key: group for group in comparable_groups(results) for row in group}
    return {}


def _counts_to_predict(series: Series[Result], machine: int, deadline: float | None) -> list[int]:
    """Return unmeasured device counts for which times are predicted.

    The device counts are the whole machine and, if there is a deadline, the powers of two.
    """
    measured = {row.devices for row in series}
    counts = {machine}
    if deadline is not None:
        powers = (1 << power for power in range(machine.bit_length()))
        counts |= {
            count
            for count in powers
            if count * LARGEST_PREDICTED_SHRINKAGE >= series.fewest.device_count
        }
    return sorted(counts - measured)


def _timed(results: Sequence[Result]) -> list[Result]:
    """Return the results with a time to target and a number of devices.

    Raises:
        ValueError: No result has both a time to target and a number of devices.
    """
    reached = [result for result in results if result.seconds]
    if not reached:
        raise ValueError(
            "advice needs runs that reached a target. The given runs have a fixed length, or did"
            " not succeed. Run to the target first: python run_suite.py -m workload=ncf"
            " profile=demo gpus=1,2"
        )
    usable = with_time(reached)
    if not usable:
        name = clean(f"{reached[0].submitter} {reached[0].system}".strip(), 80)
        raise ValueError(f"advice is about numbers of devices: {name}: {DEVICES_NOT_KNOWN}")
    return usable


def _measured_choices(
    best: Sequence[Result], machine: int, deadline: float | None, prices: Prices | None
) -> list[Choice]:
    choices = [_measured_choice(result, machine, prices) for result in best]
    _flag(choices, deadline)
    return choices


def _predicted_choices(
    rows: Sequence[PredictionRow], like: Result, machine: int, deadline: float | None
) -> list[Choice]:
    """Convert predicted rows of `predict_times` to choices.

    `like` is a measured result of the same series.
    """
    choices = []
    for row in rows:
        assert row.seconds is not None
        choice = _placed_choice(like, machine, row.devices, PREDICTED, row.seconds)
        choice.train_seconds_low, choice.train_seconds_high = row.seconds_low, row.seconds_high
        choice.device_hours_per_job_low = row.device_hours_low
        choice.device_hours_per_job_high = row.device_hours_high
        choice.cost_per_job = row.cost
        choice.cost_per_job_low, choice.cost_per_job_high = row.cost_low, row.cost_high
        choices.append(choice)
    _flag(choices, deadline)
    return choices


def _flag(choices: list[Choice], deadline: float | None) -> None:
    """Mark the best choices in place.

    Either all choices must be measured, or all choices must be predicted.
    """
    if not choices:
        return
    fastest = _least(choices, "train_seconds")
    queue = max(
        choices, key=lambda choice: (choice.jobs_per_hour, choice.devices)
    )  # If the number of jobs per hour is equal, each job finishes sooner on more devices.
    fewest_hours = _least(choices, "device_hours_per_job")
    for choice in choices:
        choice.fastest_single_job = choice is fastest
        choice.most_jobs_per_hour = choice is queue
        choice.fewest_device_hours = choice is fewest_hours
        choice.note = SIDE_BY_SIDE if choice.jobs_at_once > 1 else ""
    if not deadline:
        return
    meeting = [choice for choice in choices if _meets(choice, deadline)]
    surely = [choice for choice in meeting if _surely_meets(choice, deadline)]
    chosen = _least(surely or meeting, "device_hours_per_job")
    for choice in choices:
        choice.meets_deadline = _meets(choice, deadline)
        choice.deadline_choice = choice is chosen


def _meets(choice: Choice, deadline: float) -> bool:
    return bool(choice.train_seconds <= deadline * ROUNDING_TOLERANCE)


def _surely_meets(choice: Choice, deadline: float) -> bool:
    """Check whether even the upper bound of a choice's predicted time meets the deadline."""
    high = choice.train_seconds_high
    return bool((choice.train_seconds if high is None else high) <= deadline * ROUNDING_TOLERANCE)


def _placed_choice(like: Result, machine: int, devices: int, kind: str, seconds: float) -> Choice:
    """Return the choice for a device count on which a job takes `seconds`.

    `like` is a result of the same series.
    """
    jobs_at_once = machine // devices
    return Choice(
        workload=like.workload,
        framework=like.framework,
        system=like.system,
        profile=like.profile,
        machine_devices=machine,
        devices=devices,
        kind=kind,
        train_seconds=seconds,
        jobs_at_once=jobs_at_once,
        idle_devices=machine - jobs_at_once * devices,
        jobs_per_hour=jobs_at_once * 3600.0 / seconds,
        device_hours_per_job=devices * seconds / 3600.0,
    )


def _measured_choice(result: Result, machine: int, prices: Prices | None) -> Choice:
    choice = _placed_choice(result, machine, result.device_count, MEASURED, result.target_seconds)
    choice.slowest_seconds = result.seconds_maximum
    if result.runs and all(run.energy_joules is not None for run in result.runs):
        choice.energy_joules_per_job = result.energy_joules
    if prices is not None:
        choice.cost_per_job = prices.cost(result)
    if not result.single_figure:
        choice.runs_successful = result.runs_successful
    choice.runs_failed = result.runs_failed or None
    return choice


def _least(choices: Choices, name: str) -> Choice | None:
    """Return the choice with the smallest value in a column.

    Among choices with equal values, the faster choice is returned. Returns None if the column is
    empty.
    """
    with_value = [choice for choice in choices if getattr(choice, name) is not None]
    return min(
        with_value, key=lambda choice: (getattr(choice, name), choice.train_seconds), default=None
    )


def placement(choices: Choices, pair: Ratio | None) -> str:
    """Return the advised placement of queued jobs (docs/how-to/predict_time_and_cost.md).

    The placement is `spread`, `sooner`, `fewest`, `between`, or `unknown`.
    """
    if pair is None or pair.total is None:
        return "unknown"
    most = max(choice.jobs_per_hour * (1.0 - 1e-9) for choice in choices)
    if choices[-1].jobs_per_hour >= most:
        return "spread"
    if choices[0].jobs_per_hour < most:
        return "between"
    return "sooner" if _share_of_added_device(choices, pair.total) >= WORTH_SPREADING else "fewest"


def _missing_evidence(
    best: Sequence[Result], choices: Choices, pair: Ratio | None
) -> Iterator[str]:
    """Yield a description of each measurement that is missing for advice."""
    if pair is None or pair.total is None:
        yield "a second device count"
        return
    for row in best:
        on_devices = f"on {devices_text(row.device_count)}"
        if row.busy is not None:
            yield f"runs {on_devices} while the machine is not busy ({row.machine_condition})"
        if not failures(row)[1]:
            yield f"an official score {on_devices} ({failures(row)[0]} failed)"
        evaluations = [run.evaluations for run in row.runs if run.evaluations is not None]
        if evaluations and min(evaluations) < MINIMUM_EVALUATIONS:
            count = min(evaluations)
            noun = "evaluation" if count == 1 else "evaluations"
            yield (
                f"more frequent evaluations {on_devices} (a run has {count} {noun}, which limits"
                " the accuracy of its time)"
            )
    if pair.interval is None:
        yield f"the run-to-run variation ({pair.no_interval})"
    elif not _is_decided(best, choices, pair):
        yield "more runs: the interval of the speedup allows several answers"


def _is_decided(best: Sequence[Result], choices: Choices, pair: Ratio) -> bool:
    """Check whether all values in the speedup intervals lead to the same placement.

    Only speedups that influence the placement are checked.
    """
    belongs = placement(choices, pair)
    by_devices = {row.device_count: row for row in best}
    queue = by_devices[_flagged(choices, "most_jobs_per_hour").devices]
    at_once = {choice.devices: choice.jobs_at_once for choice in choices}
    for row in dict.fromkeys((best[0], best[-1])):
        if row is queue:
            continue
        speedup = ratio(row, queue)
        share = at_once[queue.device_count] / at_once[row.device_count]
        if (
            speedup.interval is None
            or speedup.interval.low * share < 1.0 < speedup.interval.high * share
        ):
            return False
    if belongs in ("sooner", "fewest") and pair.interval is not None:
        added = [
            _share_of_added_device(choices, total)
            for total in (pair.interval.low, pair.interval.high)
        ]
        return min(added) >= WORTH_SPREADING or max(added) < WORTH_SPREADING
    return True


def _share_of_added_device(choices: Choices, speedup: float) -> float:
    """Return the speedup that each added device contributes.

    The contribution is relative to the contribution of a device in the smallest device count.
    """
    return float((speedup - 1.0) / (choices[-1].devices / choices[0].devices - 1.0))


def _section(advice: Advice) -> Section:
    few, best = advice.measured[0], advice.best
    notes = tuple(dict.fromkeys(_notes(advice)))
    facts = tuple(target_and_data_facts(best))
    is_only = len(advice.series) == 1 and advice.machine == few.devices
    if is_only and advice.deadline is None:
        cost = "" if few.cost_per_job is None else f", cost {cost_text(few.cost_per_job)}"
        took = (
            f"{time_text(few.train_seconds)}{cost} on {devices_text(advice.machine)}, the only"
            " measured device count."
        )
        commands = next_commands(best[0])
        remedy = "Add results of the same hardware on further counts (suite published list)."
        if commands:
            remedy = "Run next:"
        return Section(
            advice.name,
            (f"{took} Advice needs a second count. {remedy}",),
            commands=commands,
            below=notes,
            facts=facts,
        )
    name = f"{advice.name}; machine of {devices_text(advice.machine)}"
    name += ", extrapolated" if advice.machine > advice.series.most.device_count else ""
    rows = ({**choice.columns(), "time_range": _time_range(choice)} for choice in advice.choices)
    table = DataTable.from_rows(rows).only(_SHOWN).without_empty()
    if not advice.predicted:
        table = table.without("kind")
    below = (*_answers(advice), *notes)
    keys = 2 if advice.predicted else 1
    return Section(name, (_verdict(advice),), table, below=below, keys=keys, facts=facts)


def _time_range(choice: Choice) -> str:
    """Format the bounds of a predicted time.

    The string is empty for a measured time.
    """
    low, high = choice.train_seconds_low, choice.train_seconds_high
    return "" if low is None or high is None else range_text(low, high, choice.train_seconds)


def _verdict(advice: Advice) -> str:
    """Return the advice. Without advice, return the measurements and the missing evidence."""
    few, many, pair = advice.measured[0], advice.measured[-1], advice.pair
    if pair is None or pair.total is None:
        counts = sorted({result.device_count for result in advice.series})
        if len(counts) == 1:
            return (
                f"All results are on {devices_text(few.devices)}, so there is no choice between"
                " device counts."
            )
        return (
            f"The results are on {_listed(counts)} devices. Of these counts, only {few.devices:,}"
            f" fits a machine of {devices_text(advice.machine)}."
        )
    gain, share = times_text(pair.total), many.jobs_per_hour / few.jobs_per_hour
    than = f"{gain} {'as' if gain == AS_FAST else 'than'} on {few.devices}"
    jobs = f"{_queue(many)} do {100 * share:.0f} % of the jobs of {_queue(few)}"
    evidence = f"on {devices_text(many.devices)} one job is {than}, and {jobs}"
    if advice.missing_evidence:
        missing = "; ".join(advice.missing_evidence)
        return f"No advice from these runs. They show: {evidence}. Missing: {missing}."
    imperative = {
        "spread": f"Run each job on {devices_text(many.devices)}, also in a queue",
        "sooner": f"Run a job on {devices_text(many.devices)} only if its result is needed sooner",
        "fewest": f"Keep each job on {devices_text(few.devices)}",
        "between": (
            "In a queue, run each job on"
            f" {devices_text(_flagged(advice.measured, 'most_jobs_per_hour').devices)}"
        ),
    }[advice.placement]
    return f"{imperative}: {evidence}."


def _flagged(choices: Choices, flag: str) -> Choice:
    return next(choice for choice in choices if getattr(choice, flag))


def _queue(choice: Choice) -> str:
    """Describe how many queued jobs run at the same time.

    Examples: `eight 1-device jobs side by side`, `8-device jobs in sequence`.
    """
    at_once = choice.jobs_at_once
    if at_once == 1:
        return f"{choice.devices}-device jobs in sequence"
    count = _COUNTS[at_once] if at_once < len(_COUNTS) else f"{at_once:,}"
    return f"{count} {choice.devices}-device jobs side by side"


def _answers(advice: Advice) -> Iterator[str]:
    """Yield a sentence for each question that the advice answers.

    The questions are which device count gives the fastest job, the most jobs per hour, and the
    fewest device-hours, and which device counts meet the deadline.
    """
    choices, pair = advice.measured, advice.pair
    queue = _flagged(choices, "most_jobs_per_hour")
    idle = f", with {devices_text(queue.idle_devices)} idle" if queue.idle_devices else ""
    for beginning, name, text, unit in _LEAST:
        if (least := _least(choices, name)) is not None:
            yield _least_sentence(advice, least, beginning, name, text, unit)
        if name == "train_seconds":
            yield (
                f"The most jobs per hour are {rate_text(queue.jobs_per_hour)}, with"
                f" {_queue(queue)}{idle}."
            )
    if advice.deadline is not None:
        yield from _deadline_answers(advice, advice.deadline)
    if pair is not None and pair.interval is not None:
        linear = choices[-1].devices / choices[0].devices
        yield f"The speedup is {ratio_text(pair.total or 0.0)}, {pair.interval_words}."
        if pair.interval.low <= linear <= pair.interval.high:
            yield (
                f"The interval includes {linear:.3g}, so more runs are needed to decide which queue"
                " is faster."
            )


def _least_sentence(
    advice: Advice,
    least: Choice,
    beginning: str,
    name: str,
    text: Callable[[float], str],
    unit: str,
) -> str:
    """Return a sentence with the smallest measured value of a column.

    If a predicted value is even smaller, the sentence includes it.
    """
    missing = [choice.devices for choice in advice.measured if getattr(choice, name) is None]
    value = getattr(least, name)
    sentence = f"{beginning} {text(value)}{unit}, on {devices_text(least.devices)}"
    if missing:
        sentence += f" (not measured on {_listed(missing)})"
    better = _least(advice.predicted, name)
    if better is not None:
        predicted = getattr(better, name)
        if predicted < value and text(predicted) != text(value):
            bounds = _bounds(better, name, text)
            sentence += (
                f". The prediction for {devices_text(better.devices)} is {text(predicted)}{bounds}"
            )
    return f"{sentence}."


def _bounds(choice: Choice, name: str, text: Callable[[float], str]) -> str:
    """Format the bounds of a prediction, such as ` (15.47 min to 19.12 min)`.

    The string is empty if the choice has no bounds.
    """
    low, high = getattr(choice, f"{name}_low", None), getattr(choice, f"{name}_high", None)
    return "" if low is None or high is None else f" ({text(low)} to {text(high)})"


def _deadline_answers(advice: Advice, deadline: float) -> Iterator[str]:
    """Yield the cheapest device counts that meet the deadline.

    The function yields a sentence on the cheapest measured device count, and a sentence on the
    cheapest predicted device count. The second sentence is omitted if it adds no information.
    """
    meets = any(choice.deadline_choice for choice in advice.measured)
    chosen = _flagged(advice.measured, "deadline_choice" if meets else "fastest_single_job")
    took = f"{devices_text(chosen.devices)}, {time_text(chosen.train_seconds)}"
    measured_hours = rate_text(chosen.device_hours_per_job)
    if not meets:
        yield (
            f"No measured device count meets the deadline of {time_text(deadline)}. The fastest is"
            f" {took}."
        )
    else:
        yield (
            "The measured device count with the fewest device-hours that meets the deadline of"
            f" {time_text(deadline)}: {took}, {measured_hours} device-hours per job."
        )
        slowest = chosen.slowest_seconds or 0.0
        if slowest > deadline * ROUNDING_TOLERANCE:
            yield (
                f"It meets the deadline on average only: its slowest run took {time_text(slowest)}."
            )
    if not advice.predicted:
        return
    meeting = [choice for choice in advice.predicted if choice.deadline_choice]
    if not meeting:
        yield (
            "No predicted device count meets the deadline"
            f" ({_listed([row.devices for row in advice.predicted])})."
        )
        return
    (choice,) = meeting
    time = f"{time_text(choice.train_seconds)}{_bounds(choice, 'train_seconds', time_text)}"
    bounds = _bounds(choice, "device_hours_per_job", rate_text)
    hours = f"{rate_text(choice.device_hours_per_job)}{bounds}"
    over = (
        "over the whole 90 % interval"
        if _surely_meets(choice, deadline)
        else "not over the whole 90 % interval"
    )
    compared = ""
    if meets:
        is_less = choice.device_hours_per_job < chosen.device_hours_per_job
        compared = f", {'fewer' if is_less else 'not fewer'} than the measured {measured_hours}"
    yield (
        f"The predicted device count with the fewest device-hours that meets the deadline, {over}: "
        f"{devices_text(choice.devices)}, {time}, {hours} device-hours per job{compared}."
    )


def _notes(advice: Advice) -> Iterator[str]:
    """Yield the caveats of the advice."""
    results, best, machine = advice.series.results, advice.best, advice.machine
    busiest = results[-1].device_count
    if machine > busiest:
        yield (
            f"Jobs per hour on {devices_text(machine)} are extrapolated: "
            f"no measurement kept more than {devices_text(busiest)} busy."
        )
    counts = [result.device_count for result in best]
    predicted = [choice.devices for choice in advice.predicted]
    if machine not in counts and machine not in predicted:
        yield (
            f"No job was measured on {devices_text(machine)}, so only measured counts are used"
            f" ({_listed(counts)})."
        )
    if predicted:
        yield (
            f"Figures for {_listed(predicted)} devices are predictions of the scaling model with"
            f" {percent_text(scaling_model.LEVEL)} intervals, not measurements (suite scaling,"
            " docs/how-to/predict_time_and_cost.md)."
        )
    elif advice.counts_to_predict and advice.why_none_predicted:
        yield (
            f"There is no prediction for {_listed(advice.counts_to_predict)} devices:"
            f" {advice.why_none_predicted}."
        )
    larger = [result.device_count for result in results if result.device_count > machine]
    if larger:
        yield (
            f"Results on {_listed(list(dict.fromkeys(larger)))} devices exist too, but do not fit"
            " the machine."
        )
    for result in best:
        slower = [
            candidate
            for candidate in results
            if candidate is not result and candidate.devices == result.devices
        ]
        if slower:
            fastest = distinct_labels([result, *slower])[0]
            yield (
                f"On {devices_text(result.device_count)} the fastest of {1 + len(slower)} settings"
                f" is used: {fastest}."
            )
    nodes = [devices_text(*place(result)) for result in best if place(result)[1] > 1]
    if nodes:
        yield f"Results over several nodes (nodes × devices per node): {', '.join(nodes)}."
    if advice.pair is not None:
        yield from advice.pair.flags
        # The error means that the size of the gradients is unknown.
        with contextlib.suppress(ValueError):
            yield (
                f"Each step sums {traffic_text(gradients_of(results))} over the devices"
                " (docs/how-to/predict_time_and_cost.md)."
            )
    for result in best:
        yield from result.mixed_notes
    for result in best:
        if result.runs_failed:
            count = result.runs_failed + result.runs_successful
            yield (
                f"{result.runs_failed} of {count} runs on {devices_text(result.device_count)}"
                " failed. The time of failed runs is not counted."
            )


def _listed(counts: Sequence[int]) -> str:
    """Format numbers as a list, such as `4, 16 and 32`.

    Lists of more than eight numbers are abbreviated to the first and the last number.
    """
    texts = [f"{count:,}" for count in counts]
    if len(texts) > 8:
        return f"{texts[0]} to {texts[-1]}"
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
