"""Cells of a study, and the file `study-NAME.json` that lists the cells.

If a cell cannot run, the file contains the reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from suite.common.run_folder import STUDY_FILES, safe_name
from suite.common.runspec import write_atomically
from suite.common.study_file import StudyCell
from suite.plan.job import Plan
from suite.plan.unsupported import UnsupportedError

SCHEMA = 1
"""Version of the format of `study-NAME.json`."""


class PlannedCell(NamedTuple):
    """A cell of a study after its job has been planned."""

    job: str
    cell: StudyCell
    reason: UnsupportedError | None
    """Reason why the cell cannot run on these machines, or None if the cell can run."""


def impossible(planned: Plan, cell: StudyCell | None) -> UnsupportedError | None:
    """Return the reason why a cell of a study cannot run on these machines.

    Returns None if the job is not a cell of a study, if the job can run, or if its settings are
    invalid.
    """
    first = planned.findings[0] if cell is not None and planned.findings else None
    return first if isinstance(first, UnsupportedError) else None


def write_study(output: Path, cells: Sequence[PlannedCell]) -> None:
    """Write `study-NAME.json` with the study's table and figure definitions and its cells.

    The cells are in the order of the study's table.
    """
    cell_objects = []
    for name, cell, error in cells:
        skipped = {} if error is None else {"shown": error.shown, "reason": str(error)}
        cell_objects.append({"job": name, "values": dict(cell.values), **skipped})
    study = cells[0].cell.study
    layout = {"table": dict(study.table), "figure": dict(study.figure), "cells": cell_objects}
    header = {"schema": SCHEMA, "study": study.name, "sentence": study.sentence, "size": study.size}
    text = (
        json.dumps({**header, "keys": list(study.keys), **layout}, indent=1, ensure_ascii=False)
        + "\n"
    )
    write_atomically(output / STUDY_FILES.replace("*", safe_name(study.name)), text)
