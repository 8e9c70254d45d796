"""Export runs to MLflow, in an SQLite file or on a server.

An MLflow run has parameters, metrics, tags, and artifacts.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeVar

# By default, MLflow sends usage data. The environment variable must be set before MLflow is
# imported.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
# With two retries, an export gives up after a minute if a server stops responding. With MLflow's
# default, it would take more than four minutes.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from suite.trackers.exported import ExportedRun, Scalar

_Entity = TypeVar("_Entity")
_IDENTITY = "suite.run"
"""Name of the tag by which later exports find a run in MLflow."""
_SQLITE = "sqlite:///"
_LONGEST_ERROR = 500
_AT_ONCE = 100
"""Maximum number of parameters in a request to MLflow. A request may contain ten times as many
metrics.
"""
_ENDS = {"success": "FINISHED", "interrupted": "KILLED"}
"""Maps each run status to an MLflow status. All statuses that are not listed become `FAILED`."""


class MLflow:
    """Exporter of runs to an MLflow store, with an MLflow experiment for each workload."""

    def __init__(self, output: str) -> None:
        """Open the MLflow store at the tracking URI `output`.

        Raises:
            ValueError: MLflow rejects the store, or a package for the store's database is missing.
        """
        self._output = output
        with self._one_line_errors():
            self._client = MlflowClient(tracking_uri=output)
        self._artifacts = None
        # By default, MLflow would store artifacts below the working directory.
        if output.startswith(_SQLITE):
            self._artifacts = Path(output.removeprefix(_SQLITE)).absolute().parent / "mlartifacts"
        self._written: dict[str, set[tuple[str, int, int]]] = {}

    def add(self, run: ExportedRun) -> int:
        """Write the new data of a run, and return the number of new scalars.

        Raises:
            ValueError: MLflow rejects the data, or the server does not respond.
        """
        with self._one_line_errors():
            return self._add(run)

    @contextlib.contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        """Convert errors of MLflow, its database, and its connection to ValueError.

        The message is a single line.
        """
        try:
            yield
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            raise ValueError(
                f"MLflow: {self._output} needs the Python package {package}, which is not installed"
                f" for {sys.executable}. Install it, or set --output sqlite:///FILE"
            ) from error
        except (MlflowException, SQLAlchemyError, OSError) as error:
            text = " ".join(str(getattr(error, "message", error)).split())
            raise ValueError(
                f"MLflow: {text[:_LONGEST_ERROR]} (--output {self._output})"
            ) from error

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
            for batch in _parts(params, _AT_ONCE):
                self._client.log_batch(run_id, params=batch)
        written = self._written.setdefault(
            run.identity, self._stored(run_id, run) if found else set()
        )
        new = [scalar for scalar in run.scalars if _key(scalar) not in written]
        metrics = [Metric(item.name, item.value, item.time_ms, item.at) for item in new]
        for batch in _parts(metrics, 10 * _AT_ONCE):
            self._client.log_batch(run_id, metrics=batch)
        written.update(_key(scalar) for scalar in new)
        if run.end_ms is not None:
            # Some tags, such as the status, are complete only at the end of the run.
            self._client.log_batch(run_id, tags=[RunTag(*tag) for tag in _tags(run).items()])
            for name, file in run.files.items():
                subfolder = str(PurePosixPath(name).parent)
                self._client.log_artifact(
                    run_id, str(file), None if subfolder == "." else subfolder
                )
            self._client.set_terminated(run_id, _ENDS.get(run.status, "FAILED"), run.end_ms)
        return len(new)

    def _experiment(self, run: ExportedRun) -> str:
        """Return the id of the MLflow experiment for the workload.

        If the experiment does not exist, the method creates it.
        """
        name = f"time-to-target {run.workload}"
        found = self._client.get_experiment_by_name(name)
        location = None if self._artifacts is None else (self._artifacts / run.workload).as_uri()
        return (
            found.experiment_id
            if found is not None
            else str(self._client.create_experiment(name, location))
        )

    def _stored(self, run_id: str, run: ExportedRun) -> set[tuple[str, int, int]]:
        """Return the points of the curves that an earlier export has already written."""
        names = dict.fromkeys(scalar.name for scalar in run.scalars)
        points = (
            point for name in names for point in self._client.get_metric_history(run_id, name)
        )
        return {(point.key, point.step, point.timestamp) for point in points}


def _tags(run: ExportedRun) -> dict[str, str]:
    """Return the MLflow tags of a run.

    The labels are included in the description, which MLflow shows at the top of the run's page, and
    in the name, which MLflow shows next to the curves.
    """
    named = {_IDENTITY: run.identity, "labels": run.labels_text}
    return {
        **run.tags,
        **named,
        "mlflow.note.content": run.labels_text,
        "mlflow.runName": run.title,
    }


def _key(scalar: Scalar) -> tuple[str, int, int]:
    return scalar.name, scalar.at, scalar.time_ms


def _parts(entries: list[_Entity], size: int) -> Iterator[list[_Entity]]:
    return (entries[at : at + size] for at in range(0, len(entries), size))
