"""The cells of a study: those that cannot run say why, and the others run. `study-NAME.json` holds them all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from suite.common.run_folder import safe_name, study_file
from suite.common.runspec import write_atomically
from suite.common.study import Study
from suite.config.compose import Composed
from suite.plan.settings import Impossible

Made = TypeVar("Made")

SCHEMA = 1


class Cells:
    """What planning finds out about each cell. Outside of studies nothing is caught and nothing written."""

    def __init__(self) -> None:
        self._study: Study | None = None
        self._values: dict[str, Mapping[str, str]] = {}
        self._impossible: dict[str, Impossible] = {}

    def attempt(self, composed: Composed, name: str, make: Callable[[], Made]) -> Made | None:
        """What `make` gives; None for a cell that cannot run here. Raises ValueError for mistakes, and outside of studies."""
        if composed.cell is None:
            return make()
        self._study = composed.cell.study
        self._values[name] = composed.cell.values
        try:
            return make()
        except Impossible as error:
            self._impossible[name] = error
            return None

    @property
    def reason(self) -> ValueError:
        """Why the first of the impossible cells is one."""
        return next(iter(self._impossible.values()))

    @property
    def lines(self) -> list[str]:
        """Each cell that does not run, with its reason."""
        return [f"{name}: {error.shown}: {error}" for name, error in self._impossible.items()]

    def write(self, output: Path) -> None:
        """`study-NAME.json`: the study's name, size, table and figure, and its cells in order."""
        if self._study is None:
            return
        cells = []
        for name, values in self._values.items():
            error = self._impossible.get(name)
            left_out = {} if error is None else {"shown": error.shown, "reason": str(error)}
            cells.append({"job": name, "values": dict(values), **left_out})
        study = self._study
        value = {
            **{"schema": SCHEMA, "study": study.name, "sentence": study.sentence, "size": study.size},
            **{"keys": list(study.keys), "table": dict(study.table), "figure": dict(study.figure), "cells": cells},
        }
        write_atomically(
            output / study_file(safe_name(study.name)), json.dumps(value, indent=1, ensure_ascii=False) + "\n"
        )
