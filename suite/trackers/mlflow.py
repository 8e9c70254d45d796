"""MLflow: runs with parameters, metrics, tags and artifacts, in an SQLite file or on a server."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeVar

os.environ["MLFLOW_DISABLE_TELEMETRY"] = (
    "true"  # read by the import: MLflow would tell its makers of its use
)
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
# A server that stops answering: a minute in place of MLflow's four and more.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from suite.trackers.exported import ExportedRun

_Entity = TypeVar("_Entity")
_IDENTITY = "suite.run"
"""Tag by which a run is found again."""
_SQLITE = "sqlite:///"
_LONGEST_ERROR = 500
_AT_ONCE = 100
"""Parameters that a request may hold; of metrics ten times as many."""
_ENDS = {"success": "FINISHED", "interrupted": "KILLED"}
"""Status of a run to MLflow's; all others are `FAILED`."""


class MLflow:
    """Runs at a tracking URI, in an experiment for each workload."""

    def __init__(self, output: str) -> None:
        """Open the store.

        Raises ValueError if MLflow refuses it, or the package for its kind of database is missing.
        """
        self._output = output
        with self._one_line_errors():
            self._client = MlflowClient(tracking_uri=output)
        self._artifacts = None
        if output.startswith(
            _SQLITE
        ):  # else they would lie below the folder in which the command is typed
            self._artifacts = Path(output.removeprefix(_SQLITE)).absolute().parent / "mlartifacts"
        self._known: dict[str, set[tuple[str, int, int]]] = {}

    def add(self, run: ExportedRun) -> int:
        """Add what is new; how many scalars were.

        Raises ValueError for what MLflow refuses or a server without an answer.
        """
        with self._one_line_errors():
            return self._add(run)

    @contextlib.contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        """Raise ValueError with one line for what MLflow, its database and its connection raise."""
        try:
            yield
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            raise ValueError(
                f"MLflow: {self._output} needs the Python package {package}, which is not installed"
                f" for {sys.executable}; install it, or set --output sqlite:///FILE"
            ) from error
        except (MlflowException, SQLAlchemyError, OSError) as error:
            text = " ".join(str(getattr(error, "message", error)).split())
            raise ValueError(f"MLflow: {text[:_LONGEST_ERROR]}; --output {self._output}") from error

    def _add(self, run: ExportedRun) -> int:
        experiment = self._experiment(run)
        found = self._client.search_runs(
            [experiment], f"tags.`{_IDENTITY}` = '{run.identity}'", max_results=1
        )
        if found and found[0].info.status != "RUNNING":
            return 0
        at = found[0] if found else self._client.create_run(experiment, run.start_ms, _tags(run))
        run_id = at.info.run_id
        if not at.data.params:
            params = [Param(name, str(value)) for name, value in run.hyperparameters.items()]
            for some in _parts(params, _AT_ONCE):
                self._client.log_batch(run_id, params=some)
        known = self._known.setdefault(run.identity, self._stored(run_id, run) if found else set())
        new = [one for one in run.scalars if (one.name, one.at, one.time_ms) not in known]
        metrics = [Metric(one.name, one.value, one.time_ms, one.at) for one in new]
        for some in _parts(metrics, 10 * _AT_ONCE):
            self._client.log_batch(run_id, metrics=some)
        known.update((one.name, one.at, one.time_ms) for one in new)
        if run.end_ms is not None:
            self._client.log_batch(
                run_id, tags=[RunTag(*tag) for tag in _tags(run).items()]
            )  # what only the end tells
            for name, file in run.files.items():
                place = str(PurePosixPath(name).parent)
                self._client.log_artifact(run_id, str(file), None if place == "." else place)
            self._client.set_terminated(run_id, _ENDS.get(run.status, "FAILED"), run.end_ms)
        return len(new)

    def _experiment(self, run: ExportedRun) -> str:
        """The identity of the workload's experiment, which is made where there is none."""
        name = f"time-to-target {run.workload}"
        found = self._client.get_experiment_by_name(name)
        where = None if self._artifacts is None else (self._artifacts / run.workload).as_uri()
        return (
            found.experiment_id
            if found is not None
            else str(self._client.create_experiment(name, where))
        )

    def _stored(self, run_id: str, run: ExportedRun) -> set[tuple[str, int, int]]:
        """The points that an earlier export has brought."""
        names = dict.fromkeys(one.name for one in run.scalars)
        points = (
            point for name in names for point in self._client.get_metric_history(run_id, name)
        )
        return {(point.key, point.step, point.timestamp) for point in points}


def _tags(run: ExportedRun) -> dict[str, str]:
    """The labels also as the run's description, which its page begins with, and in its name, which
    stands by its curves.
    """
    own = {_IDENTITY: run.identity, "labels": run.labels_text}
    return {**run.tags, **own, "mlflow.note.content": run.labels_text, "mlflow.runName": run.title}


def _parts(entries: list[_Entity], size: int) -> Iterator[list[_Entity]]:
    return (entries[at : at + size] for at in range(0, len(entries), size))
