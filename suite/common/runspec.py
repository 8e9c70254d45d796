"""The specification of a run, stored in run.json.

It is a frozen dataclass with everything that is decided before the run starts.
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
    """Result of `platform.node()` on the machine."""
    address: str
    """Name or IPv4 address, without a port, at which the remaining machines of the run reach it."""
    first_replica: int
    """Global number of its first device."""
    devices: tuple[int, ...]
    """Local numbers of its devices, in their global order.

    With GPUs, these are numbers within CUDA_VISIBLE_DEVICES.
    """
    cores: tuple[int, ...]
    """CPU cores that its devices share (`device=cpu`). Empty for GPUs."""
    interface: str = ""
    """Network interface that has the address. Empty if the run has a single machine."""

    @property
    def replicas(self) -> range:
        """Global numbers of its devices."""
        return range(self.first_replica, self.first_replica + len(self.devices))

    @property
    def is_here(self) -> bool:
        """True if this process runs on the machine."""
        return self.name == platform.node()


@dataclass(frozen=True)
class RunSpec:
    """Specification of a run: settings, facts about the data, the machines, and the code."""

    run_index: int
    runs_required: int
    """Number of runs that the rules require for a result."""
    folder: str
    """The run's folder."""
    settings: Settings
    dataset_info: DatasetInfo
    labels: tuple[Label, ...]
    """Conditions that are shown with every number of this run."""
    division: str
    deviations: tuple[Deviation, ...]
    """Reasons for division open. Empty in division closed."""
    cores: tuple[int, ...]
    """CPU cores that the devices of the run share (`device=cpu`). Empty for GPUs."""
    cache_cleared: bool
    watchdog_seconds: float
    setup_watchdog_seconds: float
    identity: Mapping[str, str]
    """Texts that identify the submission and the system.

    The keys include `submission_org`, `submission_status`, `submission_platform`, and `system`.
    """
    environment: Mapping[str, Json]
    versions: Mapping[str, str]
    git: Mapping[str, Json]
    hardware: Mapping[str, Json]
    hosts: tuple[Host, ...] = ()
    """All machines, in the order of their devices. Empty: this machine with all devices."""
    study: str = ""
    """Name of the study that the run belongs to. Empty: it does not belong to a study."""
    study_cell: tuple[str, ...] = ()
    """Settings `key=value` that identify the cell of the study."""
    overrides: tuple[str, ...] = ()
    """Overrides of the command line that repeat the job."""
    checkpoint: str = "off"
    """When to write a checkpoint: `off`, `every:EPOCHS`, or `every:MINUTESmin`."""
    checkpoint_final: bool = False
    """Keep the trained weights after the run."""
    resume_from: Mapping[str, Json] = field(default_factory=dict)
    """How the run resumes an interrupted attempt. Empty: the run starts from step 0.

    `checkpoint` is the name of a file next to run.json. `stopped_ms` is the last time at which the
    interrupted attempt was alive, in milliseconds since 1970. `resumptions` is the number of times
    that the run was resumed.
    """
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the workers inherit and that tune them, without secrets
    (suite/launch/recorded_env.py).
    """
    open_network: bool = False
    """True if `framework.allow_open_grpc` permits processes to listen on interfaces that anyone in
    the network can reach.
    """
    code_digest: str = ""
    """Digest of the code that the controller expects its workers to import
    (suite.common.source_code).

    In a worker, this is the digest of the code that the worker imported. Empty in files of older
    versions.
    """
    schema: int = SCHEMA

    def write(self, path: Path) -> None:
        """Write the specification to a JSON file atomically.

        Arrays of the facts are copied to files next to it, so that workers do not need the data set
        to read them.
        """
        value = asdict(self) | labels_and_deviations(self)
        for name, source in self.dataset_info.arrays.items():
            copy = path.with_name(f"facts-{safe_name(name)}.npy")
            shutil.copyfile(source, copy)
            value["dataset_info"]["arrays"][name] = copy.name
        write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def seen_by_workers(self) -> RunSpec:
        """Return the run with the paths that its workers see, which may differ in a container."""
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
    """Return labels and deviations, as sentences and as data.

    `run.json` and the `suite_run` line of a log have this form.
    """
    return {
        "labels": [label.text for label in run.labels],
        "label_facts": [label.to_json() for label in run.labels],
        "deviations": [deviation.text for deviation in run.deviations],
        "deviation_facts": [deviation.to_json() for deviation in run.deviations],
    }


def labels_from_json(value: Mapping[str, Json]) -> tuple[Label, ...]:
    """Return the labels in an object from `labels_and_deviations`.

    The object of an older version, without `label_facts`, is accepted too.
    """
    labels = [label_from_json(fact) for fact in value.get("label_facts") or ()]
    valid = tuple(label for label in labels if label is not None)
    return valid or tuple(label_of_text(str(text)) for text in value["labels"])


def deviations_from_json(value: Mapping[str, Json]) -> tuple[Deviation, ...]:
    """Return the deviations in an object from `labels_and_deviations`.

    The object of an older version, without `deviation_facts`, is accepted too.
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
    """Return the run in a file.

    Args:
        path: The run.json of the run.

    Raises:
        ValueError: The file has a different schema, or does not describe a run.
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
    """Return the facts in the run.json at `path`.

    Their arrays lie next to it. Raises ValueError, TypeError, AttributeError.
    """
    arrays = {name: str(path.parent / file) for name, file in value.get("arrays", {}).items()}
    dataset_info: DatasetInfo = _build(DatasetInfo, {**value, "arrays": arrays}, path)
    return dataset_info


def _run_of(value: dict[str, Any], path: Path) -> RunSpec:
    # These keys are newer than the schema.
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
    # Older files lack these keys.
    settings = {
        "threads_per_device": "auto",
        "round": {},
        **value["settings"],
    }
    settings.pop("clock", None)  # older files have the clock in addition to the round
    value["settings"] = _build(Settings, settings, path)
    value["dataset_info"] = dataset_info_from_json(value["dataset_info"], path)
    value |= {"labels": labels_from_json(value), "deviations": deviations_from_json(value)}
    del value["label_facts"], value["deviation_facts"]
    value["hosts"] = [_build(Host, {"interface": "", **host}, path) for host in value["hosts"]]
    run: RunSpec = _build(RunSpec, value, path)
    return run


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old or the new content, but never a part of it.

    On a full disk, an existing file is overwritten in place, within its allocated blocks, because
    the end of a run must be recorded even then.

    Args:
        path: The file.
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
