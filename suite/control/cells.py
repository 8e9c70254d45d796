"""The cells of a study: those that cannot run say why, and the others run. `study-NAME.json` holds them all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from suite.common.run_folder import STUDY_FILES, safe_name
from suite.common.runspec import write_atomically
from suite.common.study import StudyCell
from suite.plan.jobs import Plan
from suite.plan.settings import Impossible

SCHEMA = 1


def impossible(planned: Plan, cell: StudyCell | None) -> Impossible | None:
    """Why a cell of a study does not run here; None for what is no cell, can run, or is a mistake."""
    first = planned.findings[0] if cell is not None and planned.findings else None
    return first if isinstance(first, Impossible) else None


def write_study(output: Path, cells: Sequence[tuple[str, StudyCell, Impossible | None]]) -> None:
    """`study-NAME.json`: the study's name, size, table and figure, and its cells in order (job, cell, why it does not run)."""
    written = []
    for name, cell, error in cells:
        left_out = {} if error is None else {"shown": error.shown, "reason": str(error)}
        written.append({"job": name, "values": dict(cell.values), **left_out})
    study = cells[0][1].study
    shown = {"table": dict(study.table), "figure": dict(study.figure), "cells": written}
    named = {"schema": SCHEMA, "study": study.name, "sentence": study.sentence, "size": study.size}
    text = json.dumps({**named, "keys": list(study.keys), **shown}, indent=1, ensure_ascii=False) + "\n"
    write_atomically(output / STUDY_FILES.replace("*", safe_name(study.name)), text)
