"""The specification of a run, which is stored in run.json.

The specification is a frozen dataclass with all values that are fixed before the run starts.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from suite.catalog.deviations import Deviation, deviation_from_json, deviation_of_text
from suite.catalog.former_names import current_run_file
from suite.common.labels import Label, label_from_json, label_of_text
from suite.common.paths import mapped
from suite.common.run_folder import safe_name
from workloads import files
from workloads.api import DatasetInfo, Json, Settings

SCHEMA = 2


@dataclass(frozen=True)
class Host:
    """A machine of a run."""

    name: str
    """Name of the machine, as returned by `platform.node()` on the machine."""
    address: str
    """Name or IPv4 address, without a port, at which the run's other machines reach this
    machine.
    """
    first_replica: int
    """Global number (replica number) of the machine's first device."""
    devices: tuple[int, ...]
    """Local numbers of the machine's devices, in the order of their global numbers.

    GPU numbers are relative to CUDA_VISIBLE_DEVICES.
    """
    cores: tuple[int, ...]
    """CPU cores that the machine's devices share with `device=cpu`. The tuple is empty for GPUs."""
    interface: str = ""
    """Network interface that has the machine's address. The string is empty if the run uses a
    single machine.
    """

    @property
    def replicas(self) -> range:
        """Return the global numbers of the machine's devices."""
        return range(self.first_replica, self.first_replica + len(self.devices))

    @property
    def is_here(self) -> bool:
        """Return True if this process runs on the machine."""
        return self.name == platform.node()


@dataclass(frozen=True)
class RunSpec:
    """Specification of a run: settings, data set counts, machines, and code version."""

    run_index: int
    runs_required: int
    """Number of runs that the MLPerf rules require for a result."""
    folder: str
    """The run's folder."""
    settings: Settings
    dataset_info: DatasetInfo
    labels: tuple[Label, ...]
    """Conditions that are shown next to every number of this run."""
    division: str
    deviations: tuple[Deviation, ...]
    """Reasons why the run is in the open division. The tuple is empty for the closed division."""
    cores: tuple[int, ...]
    """CPU cores that the devices of the run share with `device=cpu`. The tuple is empty for
    GPUs.
    """
    cache_cleared: bool
    watchdog_seconds: float
    setup_watchdog_seconds: float
    identity: Mapping[str, str]
    """Strings that identify the submission and the system.

    The keys include `submission_org`, `submission_status`, `submission_platform`, and `system`.
    """
    environment: Mapping[str, Json]
    versions: Mapping[str, str]
    git: Mapping[str, Json]
    hardware: Mapping[str, Json]
    hosts: tuple[Host, ...] = ()
    """All machines, in the order of their devices. An empty tuple means that all devices are on
    this machine.
    """
    study: str = ""
    """Name of the study to which the run belongs. The string is empty if the run does not belong
    to a study.
    """
    study_cell: tuple[str, ...] = ()
    """Settings `key=value` that identify the run's cell in the study."""
    overrides: tuple[str, ...] = ()
    """Command-line overrides with which the job can be repeated."""
    checkpoint: str = "off"
    """Checkpoint interval: `off`, `every:EPOCHS`, or `every:MINUTESmin`."""
    checkpoint_final: bool = False
    """True if the trained weights are kept after the run."""
    resume_from: Mapping[str, Json] = field(default_factory=dict)
    """Checkpoint from which the run resumes an interrupted attempt. The mapping is empty if the run
    starts from step 0.

    `checkpoint` is the name of a file next to run.json. `stopped_ms` is the last time at which the
    interrupted attempt was alive, in milliseconds since 1970. `resumptions` is the number of times
    that the run was resumed.
    """
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    """Inherited environment variables that affect the performance or results of workers, without
    secrets (suite/launch/recorded_env.py).
    """
    open_network: bool = False
    """True if `framework.allow_open_grpc` allows processes to listen on network interfaces that
    other users of the network can reach.
    """
    code_digest: str = ""
    """Digest of the code that the controller expects its workers to import
    (suite.common.source_code).

    In a worker process, the attribute is the digest of the code that the worker imported. The
    string is empty in files of older versions.
    """
    schema: int = SCHEMA

    def write(self, path: Path) -> None:
        """Write the specification to a JSON file atomically.

        Arrays in the data set facts are written to separate files in the same folder. Workers can
        thus read the arrays without the data set.
        """
        value = asdict(self) | labels_and_deviations(self)
        for name, source in self.dataset_info.arrays.items():
            copy = path.with_name(f"facts-{safe_name(name)}.npy")
            shutil.copyfile(source, copy)
            value["dataset_info"]["arrays"][name] = copy.name
        write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def seen_by_workers(self) -> RunSpec:
        """Return the specification with the paths that workers see.

        The workers' paths differ from the controller's paths if the workers run in a container.
        """
        path_map = self.environment.get("path_map") or {}
        options = {
            name: (
                mapped(value, path_map)
                if isinstance(value, str) and value.startswith("/")
                else value
            )
            for name, value in self.settings.options.items()
        }
        settings = replace(
            self.settings, data_dir=mapped(self.settings.data_dir, path_map), options=options
        )
        return replace(self, folder=mapped(self.folder, path_map), settings=settings)


def labels_and_deviations(run: RunSpec) -> dict[str, Json]:
    """Return the run's labels and deviations as JSON, as sentences and as structured data.

    The returned JSON object is part of `run.json` and of the `suite_run` line of a log.
    """
    return {
        "labels": [label.text for label in run.labels],
        "label_facts": [label.to_json() for label in run.labels],
        "deviations": [deviation.text for deviation in run.deviations],
        "deviation_facts": [deviation.to_json() for deviation in run.deviations],
    }


def labels_from_json(value: Mapping[str, Json]) -> tuple[Label, ...]:
    """Return the labels in a JSON object from `labels_and_deviations`.

    Objects of older versions, which have no `label_facts`, are also accepted.
    """
    labels = [label_from_json(fact) for fact in value.get("label_facts") or ()]
    valid = tuple(label for label in labels if label is not None)
    return valid or tuple(label_of_text(str(text)) for text in value["labels"])


def deviations_from_json(value: Mapping[str, Json]) -> tuple[Deviation, ...]:
    """Return the deviations in a JSON object from `labels_and_deviations`.

    Objects of older versions, which have no `deviation_facts`, are also accepted.
    """
    deviations = [deviation_from_json(fact) for fact in value.get("deviation_facts") or ()]
    valid = tuple(deviation for deviation in deviations if deviation is not None)
    return valid or tuple(deviation_of_text(str(text)) for text in value["deviations"])


def _build(kind: Any, value: Mapping[str, Json], path: Path) -> Any:
    names = {field.name for field in fields(kind)}
    missing, unknown = names - set(value), set(value) - names
    if missing or unknown:
        raise ValueError(
            f"{path}: {kind.__name__}: missing keys: {sorted(missing)}, unknown keys:"
            f" {sorted(unknown)}"
        )
    return kind(
        **{name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}
    )


def read_run(path: Path) -> RunSpec:
    """Read the specification of a run from its run.json.

    Args:
        path: Path of the run.json.

    Raises:
        ValueError: The file has a different schema version, or does not describe a run.
        OSError: The file cannot be read.
    """
    value = files.read_json(path)
    if not isinstance(value, dict):
        raise ValueError(
            f"{path} does not describe a run. Move the file away, or set a different output=FOLDER"
        )
    if value.get("schema") != SCHEMA:
        raise ValueError(
            f"{path}: expected schema {SCHEMA}, got schema {str(value.get('schema'))[:40]}"
        )
    try:
        return _run_of(value, path)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} does not describe a run ({type(error).__name__}: {error}). Set a different"
            " output=FOLDER"
        ) from None


def dataset_info_from_json(value: Mapping[str, Any], path: Path) -> DatasetInfo:
    """Return the data set facts in the run.json at `path`.

    Arrays are read from files next to run.json. Raises ValueError, TypeError, or AttributeError if
    `value` is invalid.
    """
    arrays = {name: str(path.parent / file) for name, file in value.get("arrays", {}).items()}
    dataset_info: DatasetInfo = _build(DatasetInfo, {**value, "arrays": arrays}, path)
    return dataset_info


def _run_of(value: dict[str, Any], path: Path) -> RunSpec:
    # Files of older versions lack these keys, because the keys were added without a new schema
    # version.
    new: dict[str, Any] = {
        "hosts": [],
        "study": "",
        "study_cell": [],
        "overrides": [],
    }
    new |= {"label_facts": [], "deviation_facts": []}
    new |= {
        "checkpoint": "off",
        "checkpoint_final": False,
        "resume_from": {},
        "environment_variables": {},
        "open_network": False,
        "code_digest": "",
    }
    value = {**new, **current_run_file(value)}
    # Files of older versions lack these settings.
    settings = {
        "threads_per_device": "auto",
        "round": {},
        **value["settings"],
    }
    settings.pop("clock", None)  # files of older versions contain both `clock` and the round
    value["settings"] = _build(Settings, settings, path)
    value["dataset_info"] = dataset_info_from_json(value["dataset_info"], path)
    value |= {"labels": labels_from_json(value), "deviations": deviations_from_json(value)}
    del value["label_facts"], value["deviation_facts"]
    value["hosts"] = [_build(Host, {"interface": "", **host}, path) for host in value["hosts"]]
    run: RunSpec = _build(RunSpec, value, path)
    return run


def write_atomically(path: Path, text: str) -> None:
    """Write a text file atomically: readers see either the old or the new content.

    If the disk is full, an existing file is overwritten in place, in its already allocated blocks.
    The status of a run can thus be recorded even on a full disk.

    Args:
        path: Path of the text file.
        text: The new content.

    Raises:
        OSError: The file cannot be written. The error names `path`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not path.exists():
            error.filename = os.fspath(path)
            raise
        with open(path, "r+b") as stream:
            stream.write(text.encode())
            stream.truncate()
