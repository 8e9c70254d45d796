"""Adds devices, hardware and framework to runs of other programs, whose logs do not name them.

They come from the published results, or from the system description beside the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.registry import not_allowed
from suite.results.logs.collect import Run, collect, not_ended_text
from suite.results.logs.reader import LATER_ROUNDS
from suite.results.names import framework_name, workload_name
from suite.results.published.csv_files import find_published_results, load_published_results
from suite.results.score.groups import Row, rows
from suite.results.score.measurement import Measurement, measurements
from suite.results.text import clean
from workloads.api import Json

_DESCRIPTION_BYTES = 1 << 20
"""Longer files are not read as system descriptions."""
_MOST_DEVICES = 1_000_000


def rows_below(paths: Sequence[Path]) -> list[Row]:
    """Rows of the runs below `paths`. Raises ValueError for a path without logs, or if no run succeeded that trains."""
    runs = with_system_details(collect(paths))
    table, folders = rows(runs), " ".join(map(str, paths))
    if not measurements(table):
        if any(row.all_reduces for row in table):
            raise ValueError(f"{folders}: all-reduces alone, and nothing that trains; give the folder of such runs too")
        failed = sum(not run.succeeded and not run.running for run in runs)
        counts = [f"{failed} of {len(runs)} did not"] if failed else []
        counted = ", ".join([*counts, *([not_ended_text(runs)] if not_ended_text(runs) else [])])
        raise ValueError(f"{folders}: no run succeeded ({counted}); the reasons: suite report {paths[0]}")
    return table


def measurements_below(paths: Sequence[Path]) -> list[Measurement]:
    """Measurements of the runs below `paths`. Raises ValueError as `rows_below`."""
    return measurements(rows_below(paths))


def measurements_of(
    paths: Sequence[Path],
    published: Sequence[str],
    command: str,
    workload: str | None = None,
    table: Sequence[Row] | None = None,
) -> list[Measurement]:
    """Measurements of the runs below `paths` and of published results by name, of one workload or of all.

    `table`: the rows of `paths`, where they were read already.

    Raises ValueError (one line, for `suite COMMAND`) if nothing is given or found.
    """
    if not paths and not published:
        raise ValueError(f"give a folder with runs (suite {command} logs/) or --published dgx1-article")
    table = rows_below(paths) if paths and table is None else table
    items = measurements(table or [])
    for name in published:
        try:
            items += [result.measurement for result in find_published_results(name)]
        except ValueError as error:
            raise ValueError(str(error).replace("--to ", "--published ", 1)) from None
    if workload is None:
        return items
    chosen = [item for item in items if item.workload == workload_name(workload)]
    if not chosen:
        raise not_allowed("--workload", workload[:40], {item.workload for item in items})
    return chosen


def with_system_details(runs: Sequence[Run]) -> list[Run]:
    """The runs; those of other programs with devices, hardware and framework added where they are known.

    A log that is one of the published runs gets the details published with it; any other those of its system description.
    """
    folders = {run.path.parent for run in runs if _is_foreign(run)}
    known = _published_runs() if folders else {}
    described = {folder: _details_beside(folder) for folder in folders}
    return [
        _fill_in(run, _published_details(run, known) or described[run.path.parent]) if _is_foreign(run) else run
        for run in runs
    ]


def _is_foreign(run: Run) -> bool:
    return run.settings is not None and not run.settings.profile and run.settings.devices is None


def _fill_in(run: Run, values: Mapping[str, object]) -> Run:
    assert run.settings is not None
    unknown = {"rules": (LATER_ROUNDS, "")}
    kept = {
        name: value
        for name, value in values.items()
        if getattr(run.settings, name) in unknown.get(name, ()) or not getattr(run.settings, name)
    }
    return replace(run, settings=replace(run.settings, **kept))  # type: ignore[arg-type]


def _published_details(run: Run, known: Mapping[tuple[str, int, int], Measurement]) -> dict[str, object]:
    """What is published of this very run; empty if it is not among the published ones."""
    if run.reading is None or run.settings is None:
        return {}
    record = run.reading.record
    item = known.get(_identity(workload_name(run.settings.workload), record.start_ms, record.seconds))
    if item is None:
        return {}
    return {
        "devices": item.devices,
        "nodes": item.nodes,
        "device_name": item.hardware,
        "framework": item.framework,
        "batch_size_global": item.batch_size_global,
        "sample_unit": item.batch_unit,
        "rules": item.rules,
    }


def _details_beside(folder: Path) -> dict[str, object]:
    """What the system description above a folder says of the logs in it; empty without one."""
    system = folder.absolute().parent
    for path in (
        system / "system.json",
        system / "entry.json",
        system.parent.parent / "systems" / f"{system.name}.json",
    ):
        details = _details_from_json(path)
        if details:
            return details
    return {}


def _identity(workload: str, start_ms: float | None, seconds: float | None) -> tuple[str, int, int]:
    """Key that identifies a run: its workload, the second it started, and its length in hundredths of a second; of a log that
    was cut off the millisecond it started."""
    if not seconds:
        return workload, round(start_ms or 0.0), 0
    return workload, round((start_ms or 0.0) / 1e3), round(seconds * 100)


def _published_runs() -> dict[tuple[str, int, int], Measurement]:
    """Each published run, failed ones too; of logs submitted in two rounds the first."""
    found: dict[tuple[str, int, int], Measurement] = {}
    for item in load_published_results():
        for start_ms, seconds in item.attempts:
            for length in (seconds, None):
                found.setdefault(_identity(item.benchmark, start_ms, length), item.measurement)
    return found


def _details_from_json(path: Path) -> dict[str, object]:
    """Devices, hardware and framework from `system.json` (v0.6 on) or `entry.json` (v0.5); empty without such a file."""
    try:
        if not path.is_file() or path.stat().st_size > _DESCRIPTION_BYTES:
            return {}
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    nodes = value.get("nodes")
    listed = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    if listed:
        machines = sum(_count(node.get("num_nodes")) for node in listed)
        devices = sum(_count(node.get("num_nodes")) * _count(node.get("num_accelerators")) for node in listed)
        hardware = listed[0].get("accelerator")
    else:
        machines = _count(value.get("number_of_nodes"))
        devices = machines * _count(value.get("accelerators_per_node"))
        hardware = value.get("accelerator_model_name")
    if not 0 < devices <= _MOST_DEVICES:
        return {}
    framework = value.get("framework")
    return {
        "devices": devices,
        "nodes": machines,
        "device_name": clean(hardware) if isinstance(hardware, str) else "",
        "framework": framework_name(clean(framework)) if isinstance(framework, str) else "",
    }


def _count(value: Json) -> int:
    """A count, also if written as text; 0 for anything else."""
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
