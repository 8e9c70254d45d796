"""Read runs of this suite, other logs, and published results into a DataFrame.

    from suite.results import table
    runs = table("logs/")                  # one row per run, including failed runs
    runs = table("logs/", published=True)  # with the runs of published rounds and an article

`suite.results.columns.Run` describes each column. `suite.results.scores.results_table` returns a
row for each result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.results.columns import Run, frame, run_of
from suite.results.logs.collect import collect
from suite.results.logs.copies import find_copies
from suite.results.published_results import published_folders, published_rows, with_system_details

if TYPE_CHECKING:
    import pandas as pd


def table(
    paths: str | Path | Sequence[str | Path] = (), *, published: bool = False
) -> pd.DataFrame:
    """Return a DataFrame with a row for each run below `paths`.

    The arguments are those of `read_runs`.

    Raises:
        ValueError: A path contains no log.
    """
    return frame(read_runs(paths, published=published))


def read_runs(
    paths: str | Path | Sequence[str | Path] = (), *, published: bool = False
) -> list[Run]:
    """Return the runs below `paths`, including failed and unfinished runs.

    If an entry contains a log and a copy of the log, the copy is not counted. The column `copy_of`
    of the copy contains the path of the counted log.

    Args:
        paths: Logs, or folders that are searched for logs.
        published: True to add the runs of the published rounds and the results of the DGX-1
            article.

    Raises:
        ValueError: A path contains no log.
    """
    places = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    runs = with_system_details(collect(places)) if places else []
    copies = find_copies(runs)
    listed = [
        replace(
            run_of(run),
            copy_of=str(copies.copy_of.get(run.path, "")),
            repeat_of=str(copies.repeat_of.get(run.path, "")),
            also_in=copies.also_in.get(run.path, ""),
        )
        for run in runs
    ]
    return [*listed, *(published_rows(published_folders()) if published else ())]


def shareable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a DataFrame that can be written to files.

    Mappings and lists are converted to JSON, and columns of mixed types are converted to text.
    """
    shown = frame.copy()
    for name in shown.columns:
        if shown[name].dtype == object:
            shown[name] = _of_one_type(shown[name].tolist())
    return shown


def _of_one_type(values: Sequence[Any]) -> list[Any]:
    """Convert the values of a column to a common type.

    Logged seeds may be strings, or integers that exceed the range of the file format's integer
    type.
    """
    storable = [_storable(value) for value in values]
    present = [value for value in storable if value is not None and value == value]
    mixed = len(set(map(type, present))) > 1 or any(
        type(value) is int and abs(value) >= 1 << 63 for value in present
    )
    return [
        str(value) if mixed and value is not None and value == value else value
        for value in storable
    ]


def _storable(value: Any) -> Any:
    """Convert mappings and lists to JSON, and strings to valid UTF-8.

    Strings in logs may contain unpaired surrogates.
    """
    if isinstance(value, (Mapping, tuple, list)):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
