"""`run.json`: everything that is decided before a run starts, as one frozen dataclass that goes to disk and back."""

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

from suite.common.labels import Label, label_from_json, label_of_text
from suite.common.paths import mapped
from suite.common.run_folder import safe_name
from workloads import files
from workloads.api import Deviation, Facts, Json, Settings
from workloads.api.deviations import deviation_from_json, deviation_of_text

SCHEMA = 2


@dataclass(frozen=True)
class Host:
    """One machine of a run."""

    name: str
    """As `platform.node()` says there."""
    address: str
    """Where the other hosts reach it: a name or an IPv4 address, without a port."""
    first_replica: int
    """The global number of its first device."""
    devices: tuple[int, ...]
    """The local numbers of its devices, in their global order; on a GPU machine those inside CUDA_VISIBLE_DEVICES."""
    cores: tuple[int, ...]
    """CPU cores that its devices share (`device=cpu`), else empty."""
    interface: str = ""
    """The network interface that has the address; empty for a host that is alone."""

    @property
    def replicas(self) -> range:
        """The global numbers of its devices."""
        return range(self.first_replica, self.first_replica + len(self.devices))

    @property
    def is_here(self) -> bool:
        """True on that machine itself."""
        return self.name == platform.node()


@dataclass(frozen=True)
class RunSpec:
    """One run: settings, facts about the data, and what the controller knows of machine and code."""

    run_index: int
    runs_required: int
    """Runs that the rules ask for a result."""
    folder: str
    """The run's folder."""
    settings: Settings
    facts: Facts
    labels: tuple[Label, ...]
    """Conditions that every number of this run is shown with."""
    division: str
    deviations: tuple[Deviation, ...]
    """Reasons for division open; empty in a closed run."""
    cores: tuple[int, ...]
    """CPU cores that the run's devices share (`device=cpu`), else empty."""
    cache_cleared: bool
    watchdog_seconds: float
    setup_watchdog_seconds: float
    identity: Mapping[str, str]
    """submission_org, submission_status, submission_platform, system."""
    environment: Mapping[str, Json]
    versions: Mapping[str, str]
    git: Mapping[str, Json]
    hardware: Mapping[str, Json]
    hosts: tuple[Host, ...] = ()
    """Every machine, in the order of their devices; empty: this one with all devices."""
    study: str = ""
    """Name of the study that the run belongs to; empty: none."""
    study_cell: tuple[str, ...] = ()
    """Which of its cells: `key=value` each."""
    typed: tuple[str, ...] = ()
    """What repeats the job: the words of the command line that set something for it."""
    checkpoint: str = "off"
    """When to write one: `every:EPOCHS` or `every:MINUTESmin`."""
    checkpoint_final: bool = False
    """Whether the trained weights are kept."""
    continues: Mapping[str, Json] = field(default_factory=dict)
    """Of a run that goes on where an attempt was ended: `checkpoint`, the file beside run.json, `stopped_ms`, the last sign
    of life before it, milliseconds since 1970, and `resumptions`, how often the run was resumed. Empty: it begins."""
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that the workers inherit and by which a user tunes them, without secrets (suite/launch/recorded_env.py)."""
    open_network: bool = False
    """Whether `framework.allow_open_grpc` lets processes listen where strangers can reach them."""
    code_digest: str = ""
    """Digest of the code that the controller expects its workers to import (suite.common.source_code). In a worker: of the code
    that it imported. Empty in files of older versions."""
    schema: int = SCHEMA

    def write(self, path: Path) -> None:
        """Write as JSON, atomically; arrays of facts are copied beside it, so that workers need nothing of the data set."""
        value = asdict(self) | labels_and_deviations(self)
        for name, source in self.facts.arrays.items():
            copy = path.with_name(f"facts-{safe_name(name)}.npy")
            shutil.copyfile(source, copy)
            value["facts"]["arrays"][name] = copy.name
        write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def seen_by_workers(self) -> RunSpec:
        """The run with its paths as they are in its environment: in a container, folders may stand elsewhere."""
        path_map = self.environment.get("path_map") or {}
        options = {
            name: mapped(value, path_map) if isinstance(value, str) and value.startswith("/") else value
            for name, value in self.settings.options.items()
        }
        settings = replace(self.settings, data_dir=mapped(self.settings.data_dir, path_map), options=options)
        return replace(self, folder=mapped(self.folder, path_map), settings=settings)


def labels_and_deviations(run: RunSpec) -> dict[str, Json]:
    """Return labels and deviations, as sentences and as data, in the form of `run.json` and the `suite_run` line of a log."""
    return {
        "labels": [label.text for label in run.labels],
        "label_facts": [label.to_json() for label in run.labels],
        "deviations": [deviation.text for deviation in run.deviations],
        "deviation_facts": [deviation.to_json() for deviation in run.deviations],
    }


def labels_from_json(value: Mapping[str, Json]) -> tuple[Label, ...]:
    """Return the labels in an object that `labels_and_deviations` returned, or in that of a version without `label_facts`."""
    labels = [label_from_json(fact) for fact in value.get("label_facts") or ()]
    known = tuple(label for label in labels if label is not None)
    return known or tuple(label_of_text(str(text)) for text in value["labels"])


def deviations_from_json(value: Mapping[str, Json]) -> tuple[Deviation, ...]:
    """Return the deviations in the same object."""
    deviations = [deviation_from_json(fact) for fact in value.get("deviation_facts") or ()]
    known = tuple(deviation for deviation in deviations if deviation is not None)
    return known or tuple(deviation_of_text(str(text)) for text in value["deviations"])


def _build(kind: Any, value: Mapping[str, Json], path: Path) -> Any:
    names = {field.name for field in fields(kind)}
    missing, unknown = names - set(value), set(value) - names
    if missing or unknown:
        raise ValueError(f"{path}: {kind.__name__} misses {sorted(missing)} and does not know {sorted(unknown)}")
    return kind(**{name: tuple(item) if isinstance(item, list) else item for name, item in value.items()})


def read_run(path: Path) -> RunSpec:
    """The run written at `path`. Raises ValueError for a file of another schema, or that holds no run."""
    value = files.read_json(path)
    if not isinstance(value, dict):
        raise ValueError(f"{path} describes no run; move it away, or type another output=FOLDER")
    if value.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema {str(value.get('schema'))[:40]}, this version reads {SCHEMA}")
    try:
        return _run_of(value, path)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} describes no run ({type(error).__name__}: {error}); type another output=FOLDER"
        ) from None


def facts_from_json(value: Mapping[str, Any], path: Path) -> Facts:
    """Return the facts in the run.json at `path`. Their arrays lie next to it. Raises ValueError, TypeError, AttributeError."""
    arrays = {name: str(path.parent / file) for name, file in value.get("arrays", {}).items()}
    facts: Facts = _build(Facts, {**value, "arrays": arrays}, path)
    return facts


def _run_of(value: dict[str, Any], path: Path) -> RunSpec:
    new: dict[str, Any] = {"hosts": [], "study": "", "study_cell": [], "typed": []}  # later than the schema
    new |= {"label_facts": [], "deviation_facts": []}
    new |= {
        "checkpoint": "off",
        "checkpoint_final": False,
        "continues": {},
        "environment_variables": {},
        "open_network": False,
        "code_digest": "",
    }
    value = {**new, **value}
    settings = {"threads_per_device": "auto", "round": {}, **value["settings"]}  # one from before these were there
    settings.pop("clock", None)  # one from when it could be typed beside the round
    value["settings"] = _build(Settings, settings, path)
    value["facts"] = facts_from_json(value["facts"], path)
    value |= {"labels": labels_from_json(value), "deviations": deviations_from_json(value)}
    del value["label_facts"], value["deviation_facts"]
    value["hosts"] = [_build(Host, {"interface": "", **host}, path) for host in value["hosts"]]
    run: RunSpec = _build(RunSpec, value, path)
    return run


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old or the new content, never a part.

    On a full disk an existing file is overwritten in place instead, within the blocks that it has: how a run ended must be
    told there too.
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
