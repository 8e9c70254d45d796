"""Combines the runs of an experiment into a result with a score.

All means and standard deviations of results are computed in this module.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.common.registry import invalid_choice
from suite.results.columns import (
    BUSY,
    COLUMNS,
    Columns,
    Result,
    Run,
    busy_label,
    condition_text,
    epochs_trained,
    frame,
)
from suite.results.combine import first, mean, non_null
from suite.results.entry import SCALING_FILE
from suite.results.experiment_key import (
    HYPERPARAMETERS,
    differences,
    experiment,
    label,
    value_text,
    varying,
)
from suite.results.names import workload_name
from suite.results.published_results import published_folders, published_rows
from suite.results.scoring_rules import ScoringRule, find_scoring_rule
from suite.results.table import read_runs
from suite.results.text import clean
from suite.results.time_parts import TimeParts, mean_parts

if TYPE_CHECKING:
    import pandas as pd

MIXED = "mixed"
"""Version of a result whose runs were made with several versions of the suite."""


def results_table(
    paths: str | Path | Sequence[str | Path] = (), *, published: bool = False
) -> pd.DataFrame:
    """Return a DataFrame with a row for each result below `paths`.

    The arguments are those of `suite.results.table`.

    Raises:
        ValueError: A path contains no log.
    """
    return frame(results(paths, published=published), Result)


def results(
    paths: str | Path | Sequence[str | Path] = (), *, published: bool = False
) -> list[Result]:
    """Return the results of the runs below `paths`.

    The arguments are those of `suite.results.table`.

    Raises:
        ValueError: A path contains no log.
    """
    return results_of(read_runs(paths, published=published))


def results_of(runs: Iterable[Run]) -> list[Result]:
    """Return a result for each experiment among `runs`.

    A result has the settings, the score, and the mean values of its runs.

    Unfinished runs, interrupted runs, runs with unknown settings, and copies are omitted. A run
    that failed before all settings were logged is counted in the only result that it is compatible
    with. The failed run is omitted if several results are compatible.
    """
    usable = (
        row
        for row in runs
        if row.workload and not (row.running or row.copy_of or row.status == "interrupted")
    )
    gathered: dict[Any, list[Run]] = {}
    experiments_of_entries: dict[str, Any] = {}
    for row in sorted(usable, key=lambda row: not row.succeeded):
        if row.published_line:  # the runs of a published entry have equal settings
            kind = experiments_of_entries.get(row.published_line)
            if kind is None:
                kind = experiments_of_entries[row.published_line] = experiment(row)
        else:
            kind = experiment(row)
        if kind not in gathered and not row.succeeded and not (row.hyperparameters and row.targets):
            successes = [
                (experiment, members[0])
                for experiment, members in gathered.items()
                if members[0].succeeded
            ]
            fitting = [
                experiment
                for experiment, success in successes
                if not differences(row, success, only_known=True)
            ]
            kind = fitting[0] if len(fitting) == 1 else kind
        gathered.setdefault(kind, []).append(row)
    return [_result(members, digest(kind)) for kind, members in gathered.items()]


_OF_THE_TARGET = (
    "seconds", "unscaled_seconds", "epochs", "seconds_per_epoch", "seconds_over_epochs",
    *(f"seconds_{name}" for name in TimeParts._fields),
)  # fmt: skip
"""Columns that are empty for a result without a target."""


def digest(experiment: object) -> str:
    """Return a short digest of a value from `suite.results.experiment_key.experiment`."""
    return hashlib.blake2b(repr(experiment).encode("utf-8", "replace"), digest_size=12).hexdigest()


def _result(members: Sequence[Run], key: str) -> Result:
    runs = sorted((row for row in members if row.succeeded), key=lambda row: row.start_ms or 0.0)
    shown = (runs or members)[0]
    combined = {
        name: column.combine(runs, name)
        for name, column in COLUMNS.items()
        if column.combine is not None
    }
    samples, seconds = combined["samples"], combined["train_seconds"]
    rule = scoring_rule(shown, len(members))
    scored = score(runs, len(members) - len(runs), rule, combined["scaling_factor"] or 1.0)
    mixed, notes = _mixed(runs)
    values = (
        {item.name: getattr(shown, item.name) for item in fields(Columns)}
        | combined
        | mixed
        | scored
    )
    values |= {} if shown.to_target else dict.fromkeys(_OF_THE_TARGET)
    values["score_notes"] += (*notes, *_entry_notes(members))
    values["mixed_notes"] = notes
    conditions = [row.condition for row in runs]
    values |= {"machine_condition": condition_text(conditions), "busy": busy_label(conditions)}
    return Result(
        **values,
        key=key,
        samples_per_second=(
            samples / seconds if samples and seconds else first(runs, "published_rate")
        ),
        run_seconds=mean(runs, "seconds"),
        all_reduces=tuple(non_null(runs, "all_reduce")),
        runs=tuple(runs),
        attempts=tuple(members),
    )


def _mixed(runs: Sequence[Run]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the columns that differ between the runs of a result, with notes.

    Each column has the value that the result shows.

    Runs of several versions of the suite form a result, and so do all logs in a folder of a
    submission. The runs of a published entry have equal settings.
    """
    if runs and runs[0].published_line:
        return {}, ()
    versions = dict.fromkeys(
        f"{run.suite_version} ({run.git_commit})" for run in runs if run.profile
    )
    columns: dict[str, Any] = {
        name: MIXED for name in _VERSION if len({getattr(run, name) for run in runs}) > 1
    }
    notes = (
        [f"runs of {len(versions)} versions of the suite: {clean(', '.join(versions))}"]
        if len(versions) > 1
        else []
    )
    if not (differing := varying(runs)):
        return columns, tuple(notes)
    unknown = vars(Result())
    columns |= {name: unknown[name] for name in differing if not name.startswith(HYPERPARAMETERS)}
    out = {name.partition(".")[2] for name in differing}
    columns[HYPERPARAMETERS] = {
        name: value for name, value in runs[0].hyperparameters.items() if name not in out
    }
    texts = [
        f"{label(name)} {' and '.join(value_text(name, value, runs[0], 30) for value in values)}"
        for name, values in differing.items()
    ]
    return columns, (*notes, clean(f"its runs differ in {', '.join(texts)}", 300))


_VERSION = ("suite_version", "git_commit")


def _entry_notes(members: Sequence[Run]) -> Iterator[str]:
    """Yield notes on files that could not be used and on entries with the same logs."""
    problems = {problem for row in members for problem in row.entry_problems}
    yield from sorted(problems)
    if len({row.scaling_factor for row in members}) > 1:
        yield "the score is not scaled: its logs lie in folders with different scaling factors"
    repeats = sum(bool(row.repeat_of) for row in members)
    if repeats:
        yield (
            f"{repeats} of {len(members)} logs repeat logs of the folder; the official score counts"
            " them"
        )
    other_entries = Counter(row.also_in for row in members if row.also_in)
    for name, count in sorted(other_entries.items()):
        logs = f"all {count} logs" if count == len(members) else f"{count} of {len(members)} logs"
        yield clean(f"{logs} are also in {name}", 300)


def scoring_rule(row: Columns, attempts: int) -> ScoringRule | None:
    """Return the scoring rule of a result, or None for runs that no rule covers.

    No rule covers demo runs, synthetic data, runs of fixed length, and results with a single
    published value.

    Args:
        row: The result, or one of its runs.
        attempts: Number of runs, including failed runs. Every published result counts as complete.
    """
    if not row.to_target or row.profile in ("demo", "synthetic") or row.single_figure:
        return None
    rule = find_scoring_rule(row.workload, row.round if not row.profile else row.rules)
    required = attempts if row.published else row.runs_required
    if required is not None:
        return replace(rule or ScoringRule(required), runs_required=required)
    return rule


def score(
    runs: Sequence[Run],
    failed: int = 0,
    rule: ScoringRule | None = None,
    scaling_factor: float = 1.0,
) -> dict[str, Any]:
    """Return the values of SCORE_COLUMNS for the runs of one result.

    Args:
        runs: The successful runs in order of start time.
        failed: Number of failed runs.
        rule: Scoring rule of the benchmark. With None, the score is the mean without the fastest
            and slowest run.
        scaling_factor: Factor in `scaling.json` by which the score is multiplied.
    """
    counted, fast, slow, notes = counted_runs(runs, failed, rule)
    retained = sorted(counted, key=lambda run: run.seconds or 0.0)[fast : len(counted) - slow]
    seconds, epochs = non_null(runs, "seconds"), non_null(retained, "epochs")
    mean_seconds = mean(retained, "seconds")
    mean_epochs = mean(retained, "epochs") if len(epochs) == len(retained) else None
    if scaling_factor != 1.0 and mean_seconds is not None:
        mean_of_runs = f"mean of the runs {mean_seconds:,.2f} s"
        notes = (
            *notes,
            f"times are multiplied by {scaling_factor:.6g} ({SCALING_FILE}); {mean_of_runs}",
        )

    def scaled(value: float | None) -> float | None:
        return None if value is None else value * scaling_factor

    parts = mean_parts([run.record for run in retained])
    names = [f"seconds_{name}" for name in TimeParts._fields]
    return {
        **dict(zip(names, parts or (None,) * len(names), strict=True)),
        "runs_successful": len(runs),
        "runs_failed": failed,
        "runs_required": None if rule is None else rule.runs_required,
        "runs_retained": len(retained),
        "score_method": _score_method(runs, fast),
        "score_notes": notes,
        "seconds": scaled(mean_seconds),
        "unscaled_seconds": mean_seconds,
        "epochs": mean_epochs,
        "seconds_per_epoch": _seconds_per_epoch(retained, in_blocks=parts is not None),
        "seconds_over_epochs": _seconds_per_epoch(retained, in_blocks=False),
        "seconds_minimum": scaled(min(seconds, default=None)),
        "seconds_maximum": scaled(max(seconds, default=None)),
        "seconds_standard_deviation": (
            scaled(statistics.stdev(seconds)) if len(seconds) > 1 else None
        ),
    }


def _score_method(runs: Sequence[Run], dropped_fastest: int) -> str:
    if runs and runs[0].single_figure:
        return "single figure"
    return "olympic mean" if dropped_fastest else "plain mean"


def _seconds_per_epoch(runs: Sequence[Run], in_blocks: bool) -> float | None:
    """Return the mean time per epoch.

    All epochs that were trained in that time are counted, including epochs after the target.

    Args:
        runs: The runs whose mean is the score.
        in_blocks: Use the time of the blocks instead of the time from `run_start` to `run_stop`.
    """
    mean_seconds = mean(runs, "block_seconds" if in_blocks else "seconds")
    epochs = [trained for run in runs if (trained := epochs_trained(run)) is not None]
    if mean_seconds is None or not epochs or len(epochs) < len(runs):
        return None
    return mean_seconds / statistics.fmean(epochs) if any(epochs) else None


def counted_runs(
    runs: Sequence[Run], failed: int, rule: ScoringRule | None
) -> tuple[Sequence[Run], int, int, tuple[str, ...]]:
    """Return the runs that are scored, the numbers of dropped runs, and notes.

    The numbers are the dropped fastest runs and the dropped slowest runs.

    The scoring follows mlperf-logging's result_summarizer: failed runs, up to the number that the
    rule allows, count as the slowest of the dropped runs. If there are too few runs for the rule,
    one run is dropped at each end. With fewer than three runs, no run is dropped.
    """
    attempts, notes = len(runs) + failed, []
    is_complete = rule is not None and attempts >= rule.runs_required
    dropped = 1 if rule is None else rule.dropped_runs
    if rule is not None and attempts < rule.runs_required:
        notes.append(f"fewer runs than the rules require ({attempts} of {rule.runs_required})")
    if rule is not None and attempts > rule.runs_required:
        notes.append(
            f"more runs than the rules require ({attempts} for {rule.runs_required}): "
            "which of them count was not fixed before"
        )
    if (
        rule is not None
        and is_complete
        and rule.first_converged is not None
        and len(runs) >= rule.first_converged
    ):
        runs, failed = runs[: rule.first_converged], 0
        notes.append(f"first {rule.first_converged} successful runs")
    has_enough_runs = len(runs) > 2 * dropped - failed and (is_complete or len(runs) >= 3)
    if rule is not None and 0 < failed <= dropped and has_enough_runs:
        notes.append(
            "the failed run counts as the slowest"
            if failed == 1
            else f"the {failed} failed runs count as the slowest"
        )
        return runs, dropped, dropped - failed, tuple(notes)
    if is_complete and failed:
        notes.append(f"no official score: {failed} runs failed")
    if len(runs) <= 2 * dropped:
        dropped = 1 if len(runs) >= 3 else 0
    return runs, dropped, dropped, tuple(notes)


def failures(row: Result) -> tuple[str, bool]:
    """Return a text for the failed runs of a result, and whether the score is official.

    Example: `2 of 5 runs`. The text is empty without failed runs.

    A complete result has an official score if its scoring rule allows this number of failed runs.
    """
    failed, attempts = row.runs_failed, row.runs_failed + row.runs_successful
    if not failed:
        return "", True
    rule = scoring_rule(row, attempts)
    has_score = (
        rule is not None
        and attempts >= rule.runs_required
        and _counts_failures(rule, row.runs_successful, failed)
    )
    return f"{failed} of {attempts} runs", has_score


def _counts_failures(rule: ScoringRule, successful: int, failed: int) -> bool:
    """Check whether a complete result has an official score despite its failed runs."""
    if rule.first_converged is not None:
        return successful >= rule.first_converged or failed <= rule.dropped_runs
    return failed <= rule.allowed_failures


def labels(row: Columns) -> tuple[str, ...]:
    """Return the labels of a run or result, including the label of a busy machine."""
    return (*row.labels, *((row.machine_condition,) if row.busy is not None else ()))


def merged_labels(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the distinct labels of several results.

    Different labels of busy machines are merged into `busy machine`.
    """
    results = list(results)
    busy = {row.machine_condition for row in results if row.busy is not None}
    every = dict.fromkeys(label for row in results for label in labels(row))
    return tuple(
        dict.fromkeys(BUSY if len(busy) > 1 and label in busy else label for label in every)
    )


def shared_labels(results: Iterable[Result]) -> list[str]:
    """Return the labels that all results have."""
    every = [set(labels(row)) for row in results]
    return sorted(set.intersection(*every)) if every else []


def title(group: Sequence[Result]) -> str:
    """Return the title of a group of results, with its labels.

    Example: `ncf in pytorch on local (demo, cpu)`.
    """
    first = group[0]
    systems = {row.system or row.device_name for row in group}
    where = (
        next(iter(systems)) if len(systems) == 1 else f"several systems with {first.device_name}"
    )
    whose = f" by {first.submitter} ({first.round})" if first.submitter else ""
    tags = [
        tag
        for tag in dict.fromkeys((first.profile, *merged_labels(group)))
        if tag not in ("", "reference")
    ]
    framework = f" in {first.framework}" if first.framework else ""
    name = f"{first.workload}{whose}{framework}{f' on {where}' if where else ''}"
    return clean(name, 120) + (f" ({clean(', '.join(tags), 120)})" if tags else "")


def figure(row: Result) -> float | None:
    """Return the main value of a result.

    The main value is the time to target in seconds, or the samples per second of a run of fixed
    length.
    """
    value = row.seconds if row.to_target else row.samples_per_second
    return value or None


def published_results(places: tuple[Path, ...] | None = None) -> list[Result]:
    """Return all published results and the results of the article.

    Published results are scored with the rules of their round.
    """
    return list(_published(places if places is not None else published_folders()))


@functools.cache
def _published(places: tuple[Path, ...]) -> list[Result]:
    return results_of(published_rows(places))


def find_published(name: str, option: str = "--to") -> list[Result]:
    """Return the published results of `ROUND/SUBMITTER/SYSTEM`, ignoring case.

    ROUND and ROUND/SUBMITTER select all systems of a round or submitter.

    The beginning of a system name is sufficient. For example, `v0.5/NVIDIA/dgx1` selects every
    `dgx1_…` system with one node, but not `dgx1_n24_…` or `dgx1_multi_…`. If no system matches, the
    function raises ValueError with the nearest names.
    """
    listed = published_results()
    parts = [part for part in name.strip().strip("/").lower().split("/") if part]
    chosen = [row for row in listed if _matches_name(row.run, parts)]
    if chosen and parts:
        return chosen
    rounds = {row.round for row in listed}
    names = {name.lower(): name for name in sorted({row.run for row in listed} | rounds)}
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.4)
    offered = [name for lower, name in names.items() if lower in near] or sorted(rounds)
    raise ValueError(
        f"{option} {name}: no such published result. Nearest: {', '.join(offered[:3])} (all of"
        " them: suite published list)"
    )


def _matches_name(published_name: str, parts: Sequence[str]) -> bool:
    names = published_name.lower().split("/", 2)
    if len(parts) < 3:
        return list(parts) == names[: len(parts)]
    # Multi-node variants of the system, such as `_n24_ngc19.05` and `_multi_ngc18.11`.
    clusters = r"[_\- ](?:multi|n\d+)(?:_.*)?"
    form = rf"{re.escape(parts[2])}(?!{clusters}$)(?:[_\- ].*)?"
    return (
        list(parts[:2]) == names[:2]
        and len(parts) == 3
        and re.fullmatch(form, names[2]) is not None
    )


def measured(
    paths: Sequence[str | Path],
    published: Sequence[str] = (),
    workload: str | None = None,
    command: str = "report",
) -> list[Result]:
    """Return the results below `paths`, and the published results with these names.

    The results are the input of `suite COMMAND`.

    The function raises ValueError with a single-line message if there is no input, no run below
    `paths` succeeded, or no result has the workload.
    """
    if not paths and not published:
        raise ValueError(
            f"give a folder with runs (suite {command} logs/) or --published dgx1-article"
        )
    listed = _succeeded(paths) if paths else []
    for name in published:
        listed += find_published(name, "--published")
    chosen = [row for row in listed if workload is None or row.workload == workload_name(workload)]
    if not chosen:
        raise invalid_choice("--workload", (workload or "")[:40], {row.workload for row in listed})
    return chosen


def _succeeded(paths: Sequence[str | Path]) -> list[Result]:
    runs = read_runs(paths)
    succeeded, folders = [row for row in results_of(runs) if row.runs], " ".join(map(str, paths))
    if any(not row.all_reduces for row in succeeded):
        return succeeded
    if succeeded:
        raise ValueError(
            f"{folders}: all runs measure all-reduces and do not train. Give the folder of training"
            " runs too"
        )
    going = sum(run.running for run in runs)
    counts = [f"{len(runs) - going} of {len(runs)} did not"] if len(runs) > going else []
    counts += (
        [f"{going} of {len(runs)} {'has' if going == 1 else 'have'} not ended"] if going else []
    )
    raise ValueError(
        f"{folders}: no run succeeded ({', '.join(counts)}); the reasons: suite report {paths[0]}"
    )
