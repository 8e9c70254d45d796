"""The runs and results that a page tells of, each once: what its filters go by, and what a pointer over a point shows."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite.common.labels import LabelKind, label_of_text
from suite.results.columns import BUSY, Result, Row
from suite.results.names import accelerator_name, framework_name
from suite.results.render.html.run_list import link
from suite.results.scores import labels
from suite.results.settings_difference import distinct_labels
from suite.results.targets import targets_told
from suite.results.text import clean, devices_text, figure_text, percent_text, time_text

FACETS = (
    *("workload", "framework", "accelerator", "devices", "system", "profile", "round", "division", "submitter"),
    "label",
)
"""What can be chosen on a page; a row may have several labels."""


class Told:
    """Numbers of rows, in the order in which they are asked for."""

    def __init__(
        self,
        results: Sequence[Result],
        home: Path,
        ours_fit: Callable[[Row], Mapping[str, Sequence[str]]] | None = None,
    ) -> None:
        """`home`: folder of the page; `ours_fit`: of a row of ours facet to values that it fits, as the rounds beside it."""
        self._ours_fit, self._home = ours_fit or (lambda row: {}), home
        self.rows: list[Row] = []
        self._numbers: dict[Hashable, int] = {}
        self._kinds: dict[Any, int] = {}
        ours = [row for row in results if row.profile]
        words = distinct_labels(
            ours, [(row.workload, row.profile, row.framework, row.devices, row.system) for row in ours]
        )
        told = zip(ours, words, strict=True)
        self._words = {one.key: text for row, text in told for one in (row, *row.attempts)}

    def number(self, row: Row) -> int:
        """The place of a row in `facts`."""
        number = self._numbers.setdefault(row.key, len(self.rows))
        self.rows += [row] if number == len(self.rows) else []
        return number

    def numbers(self, rows: Sequence[Row]) -> str:
        """Places of several rows, as the page's attributes have them."""
        return " ".join(str(self.number(row)) for row in rows)

    def files(self, row: Row) -> tuple[str, str] | None:
        """What leads from a row to its log, or to the folder of its runs: a text and a relative link."""
        paths = [Path(one.path) for one in (row.attempts if isinstance(row, Result) else (row,)) if one.path]
        if not paths:
            return None
        text = clean(paths[0].name, 60) if len(paths) == 1 else f"{len(paths):,} runs"
        return text, link(paths[0] if len(paths) == 1 else Path(os.path.commonpath(paths)), self._home)

    def facts(self, counted: Iterable[Row]) -> dict[str, Any]:
        """What filters go by, in the order of FACETS, and lines of (what, text), each once; of each row its places in them;
        how many of the `counted` rows, which need not stand on the page, are of each kind."""
        lines: defaultdict[tuple[str, str], int] = defaultdict(lambda: len(lines))
        rows = [[self._kind(row), *(lines[one] for one in self._lines(row) if one[1])] for row in self.rows]
        counts = [*Counter(map(self._kind, counted)).items()]
        return {"kinds": [*self._kinds], "lines": [*lines], "rows": rows, "counts": counts}

    def _kind(self, row: Row) -> int:
        return self._kinds.setdefault(self._facets(row), len(self._kinds))

    def choices(self) -> dict[str, list[str]]:
        """What can be chosen of each facet, where there is a choice: rows differ in it."""
        found = {}
        for name, column in zip(FACETS, zip(*map(self._facets, self.rows), strict=True), strict=False):
            values = {value for one in column for value in ((one,) if isinstance(one, str) else one)} - {""}
            if len(values) > 1 and len({*column}) > 1:
                found[name] = sorted(values, key=_by_number)
        return found

    def _facets(self, row: Row) -> tuple[str | tuple[str, ...], ...]:
        where = accelerator_name(row.device_name or row.device or "")
        texts = [row.workload, framework_name(row.framework, row.system, row.workload), where, str(row.devices or "")]
        texts += [row.system or row.device_name or "", row.profile, row.round, row.division, row.submitter]
        named = zip(FACETS, (clean(text, 60) for text in texts), strict=False)
        short = tuple(BUSY if label_of_text(text).kind is LabelKind.BUSY else clean(text, 60) for text in labels(row))
        ours_fit = self._ours_fit(row) if row.profile else {}
        return (*((text, *ours_fit[name]) if name in ours_fit else text for name, text in named), short)

    def _lines(self, row: Row) -> Iterator[tuple[str, str]]:
        yield "", clean(", ".join(filter(None, (row.workload, row.framework, _devices(row)))), 120)
        yield "settings", clean(self._words.get(row.key, ""), 200)
        yield "system", clean(" ".join(filter(None, (row.submitter, row.system))), 80)
        yield (
            "processor" if row.has_label(LabelKind.CPU) else "accelerator",
            clean(accelerator_name(row.device_name), 60),
        )
        yield "target", clean(targets_told(row.targets, row.workload), 80)
        yield "division", clean(row.division, 20)
        yield "time", "" if row.seconds is None else time_text(row.seconds)
        yield "epochs", "" if row.epochs is None else figure_text(row.epochs)
        own = row.samples / row.train_seconds if row.samples and row.train_seconds else None
        rate = row.samples_per_second if isinstance(row, Result) else own
        yield f"{clean(row.sample_unit or 'samples', 30)}/s", "" if rate is None else figure_text(rate)
        yield "waiting for data", "" if not row.data_wait_share else percent_text(row.data_wait_share)
        yield "labels", clean(", ".join(labels(row)), 200)
        runs = (row.runs if isinstance(row, Result) else ()) or (row,)
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        yield "log", clean(runs[0].run[-120:], 120) + more


def _devices(row: Row) -> str:
    return devices_text(row.devices, row.nodes) if row.devices else ""


def _by_number(text: str) -> tuple[float, str]:
    return (float(text) if text.isdigit() else -1.0), text
