"""Numbers of the runs and results on a page, with their filter values and tooltips."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from suite.common.labels import LabelKind, label_of_text
from suite.launch.registered_frameworks import title_of
from suite.results.columns import BUSY, Columns, Result, Run
from suite.results.combine import grouped
from suite.results.experiment_key import facts, label, value_text
from suite.results.names import accelerator_name, framework_name, short_title
from suite.results.render.html.run_list import parts_lines, relative_link, subject_text
from suite.results.scores import labels
from suite.results.settings_difference import settings_difference
from suite.results.targets import target_text
from suite.results.text import clean, figure_text, percent_text, shortened, time_text
from suite.results.time_parts import TimeParts, time_parts
from suite.results.views.overview import device_text

LABEL = "label"
"""Filter by labels.

A row of the page may have several labels, whereas all other filters have a single value per row.
"""
_MAX_SETTING_FILTERS = 6
_MAX_VALUE = 60
"""Maximum number of characters of a filter value."""


@dataclass(frozen=True)
class FilterText:
    """Name and tooltip of a filter."""

    title: str
    help: str


FIXED_FILTERS: Mapping[str, FilterText] = {
    "workload": FilterText("workload", "The model and the task that it was trained for"),
    "framework": FilterText("framework", "The deep learning framework"),
    "accelerator": FilterText("hardware", "The kind of GPU or CPU"),
    "devices": FilterText("devices", "The number of devices that trained together"),
    "system": FilterText("system", "The machine or cluster"),
    "profile": FilterText(
        "profile",
        "reference: the MLPerf data set and target. demo: generated data and a small model. "
        "synthetic: generated data, throughput only",
    ),
    "round": FilterText(
        "round", "The MLPerf Training round of published results. ours: results of these logs"
    ),
    "division": FilterText(
        "division",
        "closed: the MLPerf rules fix model, data, and hyperparameters. open: they may differ",
    ),
    "submitter": FilterText("submitter", "The organization that submitted the published result"),
}
"""Filters that every page may have, in order. A page shows a filter if its values differ."""
_LABEL_FILTER = FilterText(
    "label", "Conditions that results are marked with, such as cpu or busy machine"
)
_SETTING_HELP = "A setting in which results differ that agree in all of the filters before it"


@dataclass(frozen=True)
class Choice:
    """Filter in the form that the template needs."""

    name: str
    """Name of the filter in the page's URL."""
    title: str
    help: str
    options: Sequence[tuple[str, str]]
    """Value and text of each option."""


class PageRows:
    """Runs and results of a page, numbered in the order of their first use on the page."""

    def __init__(
        self,
        results: Sequence[Result],
        home: Path,
        matching_filters: Callable[[Columns], Mapping[str, Sequence[str]]] | None = None,
    ) -> None:
        """Initialize without rows.

        Args:
            results: Results of this suite on the page. Filters are added for the settings that
                differ between the results.
            home: Folder of the page. Links are relative to this folder.
            matching_filters: Function that returns further filter values for a result of this
                suite. Example: the rounds of the published results that the result is compared
                with.
        """
        self._home = home
        self._matching_filters = matching_filters
        self.rows: list[Columns] = []
        self._numbers: dict[str, int] = {}
        self._kinds: dict[tuple[str | tuple[str, ...], ...], int] = {}
        self._settings = _differing_settings([result for result in results if result.profile])

    @cached_property
    def filters(self) -> Mapping[str, FilterText]:
        """Return all filters in order, including filters with a single value. Labels are last."""
        of_settings = {name: FilterText(label(name), _SETTING_HELP) for name in self._settings}
        return {**FIXED_FILTERS, **of_settings, LABEL: _LABEL_FILTER}

    def number(self, row: Columns) -> int:
        """Return the number of a run or result, which is its index in the rows of `data`."""
        number = self._numbers.setdefault(row.key, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return number

    def numbers(self, rows: Sequence[Columns]) -> str:
        """Return the numbers of rows, separated by spaces, for an HTML attribute."""
        return " ".join(str(self.number(row)) for row in rows)

    def files(self, row: Columns) -> tuple[str, str] | None:
        """Return a link text and a relative link to the log or log folder of a row.

        The function returns None for a row without logs.
        """
        attempts: Sequence[Columns] = row.attempts if isinstance(row, Result) else (row,)
        paths = [Path(attempt.path) for attempt in attempts if attempt.path]
        if not paths:
            return None
        if len(paths) == 1:
            return clean(paths[0].name, 60), relative_link(paths[0], self._home)
        return f"{len(paths):,} runs", relative_link(Path(os.path.commonpath(paths)), self._home)

    def data(self, counted: Iterable[Columns]) -> dict[str, Any]:
        """Return the rows as data for the script of the page.

        Args:
            counted: Runs or results that are counted on the page. Some of them may not have a
                number.

        Returns:
            `kinds`: distinct combinations of filter values. `lines`: distinct tooltip lines.
                `rows`: for each row, the index of its kind and the indices of its lines. `counts`:
                number of counted rows of each kind.
        """
        lines: defaultdict[tuple[str, str], int] = defaultdict(lambda: len(lines))
        rows = []
        for row in self.rows:
            shown = [line for line in self._lines(row) if line[1]]
            rows.append([self._kind(row), *(lines[line] for line in shown)])
        counts = Counter(map(self._kind, counted))
        return {
            "kinds": [*self._kinds],
            "lines": [*lines],
            "rows": rows,
            "counts": [*counts.items()],
        }

    def _kind(self, row: Columns) -> int:
        return self._kinds.setdefault(self._filter_values(row), len(self._kinds))

    def choices(self) -> list[Choice]:
        """Return the filters that have different values on the page."""
        columns = zip(*map(self._filter_values, self.rows), strict=True)
        choices = []
        for (name, text), column in zip(self.filters.items(), columns, strict=False):
            values: set[str] = set()
            for value in column:
                values.update((value,) if isinstance(value, str) else value)
            values.discard("")
            if len(values) > 1 and len(set(column)) > 1:
                options = [(value, _option_text(name, value)) for value in values]
                options.sort(key=lambda option: _numbers_first(option[1]))
                choices.append(Choice(name, text.title, text.help, options))
        return choices

    def _filter_values(self, row: Columns) -> tuple[str | tuple[str, ...], ...]:
        """Return the values of all filters, in the order of the filters."""
        values: dict[str, str | tuple[str, ...]] = {**_fixed_values(row)}
        if row.profile and self._matching_filters is not None:
            for name, further in self._matching_filters(row).items():
                values[name] = (*_as_tuple(values[name]), *further)
        for name, texts in self._settings.items():
            values[name] = texts.get(row.key, "")
        values[LABEL] = tuple(
            BUSY if label_of_text(text).kind is LabelKind.BUSY else clean(text, _MAX_VALUE)
            for text in labels(row)
        )
        return tuple(values[name] for name in self.filters)

    def _lines(self, row: Columns) -> Iterator[tuple[str, str]]:
        """Yield the lines of a tooltip as pairs of name and text.

        The first line has no name, and the last line contains the log.
        """
        yield "", subject_text(row)
        for name, texts in self._settings.items():
            yield label(name), texts.get(row.key, "")
        yield "system", clean(" ".join(filter(None, (row.submitter, row.system))), 80)
        yield "hardware", device_text(accelerator_name(row.device_name))
        yield "target", clean(target_text(row.targets, row.workload, row.falling_metrics), 80)
        yield "division", clean(row.division, 20)
        if row.seconds is not None:
            reached = row.to_target and (isinstance(row, Result) or row.epochs is not None)
            yield "time to target" if reached else "time", time_text(row.seconds)
        parts = _parts(row)
        yield from parts_lines(parts)
        yield row.epoch_unit, "" if row.epochs is None else figure_text(row.epochs)
        rate = row.samples_per_second if isinstance(row, Result) else None
        if rate is None and row.samples and row.train_seconds:
            rate = row.samples / row.train_seconds
        yield (
            f"{clean(row.sample_unit or 'samples', 30)}/s",
            "" if rate is None else figure_text(rate),
        )
        if parts is None and row.data_wait_share:
            yield "waiting for data", f"{percent_text(row.data_wait_share)} of training"
        yield "labels", clean(", ".join(labels(row)), 200)
        runs = (row.runs if isinstance(row, Result) else ()) or (row,)
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        yield "log", clean(runs[0].run[-120:], 120) + more


def _differing_settings(results: Sequence[Result]) -> dict[str, dict[str, str]]:
    """Return the settings that distinguish results with equal values of the fixed filters.

    Returns:
        For each setting, its text by the key of each result and of each of its runs.
    """
    names: dict[str, None] = {}
    for members in grouped(results, lambda result: tuple(_fixed_values(result).values())).values():
        difference = settings_difference(members).without((*FIXED_FILTERS, "labels", "deviations"))
        names.update(dict.fromkeys(difference.without_derived().distinguishing().columns))
    found: dict[str, dict[str, str]] = {}
    settings = [facts(result) for result in results] if names else []
    for name in [*names][:_MAX_SETTING_FILTERS]:
        values = [of_result.get(name) for of_result in settings]
        whole = [
            "" if value is None else value_text(name, value, result, 1000)
            for value, result in zip(values, results, strict=True)
        ]
        texts = found[name] = {}
        for result, text in zip(results, shortened(whole, _MAX_VALUE), strict=True):
            texts.update(dict.fromkeys((result.key, *(run.key for run in result.attempts)), text))
    return found


def _fixed_values(row: Columns) -> dict[str, str]:
    """Return the values of FIXED_FILTERS."""
    values = {
        "workload": row.workload,
        "framework": framework_name(row.framework, row.system, row.workload),
        "accelerator": accelerator_name(row.device_name or row.device or ""),
        "devices": str(row.devices or ""),
        "system": row.system or row.device_name or "",
        "profile": row.profile,
        "round": row.round,
        "division": row.division,
        "submitter": row.submitter,
    }
    return {name: clean(text, _MAX_VALUE) for name, text in values.items()}


def _parts(row: Columns) -> TimeParts | None:
    """Return the components of the time of a run or result.

    The function returns None if the logs do not separate the components.
    """
    if isinstance(row, Result):
        return row.parts
    return time_parts(row.record) if isinstance(row, Run) and row.record is not None else None


def _option_text(filter_name: str, value: str) -> str:
    """Return the display text of a filter value, such as `NCF` for `ncf`."""
    if filter_name == "workload":
        return short_title(value)
    if filter_name == "framework":
        return title_of(value)
    return device_text(value) if filter_name in ("accelerator", "system") else value


def _as_tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _numbers_first(text: str) -> tuple[float, str]:
    """Return a sort key that puts numbers, sorted by size, before text."""
    try:
        return float(text.replace(",", "")), text
    except ValueError:
        return math.inf, text.lower()
