"""Parses the system descriptions of submissions.

The files are `systems/SYSTEM.json` (since v0.7), `system.json` (v0.6), and `entry.json` (v0.5).

The files are written by submitters and therefore untrusted. Every value is optional, sizes are
limited, and values of a wrong type are unknown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.results.text import clean
from workloads import files
from workloads.api import Json

DESCRIPTION_FILES = ("system.json", "entry.json")
"""Names of a description file in the folder of the system, for v0.6 and v0.5."""
_MAX_BYTES = 1 << 20
_MAX_DEVICES = 1_000_000
_NO_ACCELERATOR = ("n/a", "na", "none", "-")
"""Accelerator names that mean no accelerator, in descriptions of CPU systems."""
_DIVISIONS = ("closed", "open")


@dataclass(frozen=True)
class SystemDescription:
    """Submitter, division, framework, and hardware of a system.

    Empty strings and None are unknown values.
    """

    submitter: str = ""
    division: str = ""
    framework: str = ""
    """The submitter's text, such as `NGC MXNet 23.04, NGC HugeCTR 23.04`."""
    availability: str = ""
    """The submitter's text, such as `Available on-premise`."""
    accelerator: str = ""
    devices: int | None = None
    """Number of accelerators in all nodes."""
    nodes: int | None = None


def read_json_object(path: Path) -> Mapping[str, Json]:
    """Return the object in a small JSON file.

    The function raises ValueError with a single-line message if the file is unusable.
    """
    try:
        value = files.read_json(path, _MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = clean(str(error).removeprefix(f"{path}: "), 120)
        raise ValueError(f"{path}: expected a JSON object ({reason})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, got a {type(value).__name__}")
    return value


def find_description(submitter_folder: Path | None, system_folder: Path) -> Path | None:
    """Return the path of the file that describes a system, or None.

    Args:
        submitter_folder: Folder that contains `systems/` and `results/`, or None if the folder
            layout is unknown.
        system_folder: Folder of the system's results.
    """
    candidates = [system_folder / name for name in DESCRIPTION_FILES]
    if submitter_folder is not None:
        candidates.insert(0, submitter_folder / "systems" / f"{system_folder.name}.json")
    return next((path for path in candidates if os.path.isfile(path)), None)


def read_description(path: Path) -> SystemDescription:
    """Return the description in a file.

    The function raises ValueError with a single-line message if the file is not a JSON object.
    """
    return parse_description(read_json_object(path))


def parse_description(value: Mapping[str, Json]) -> SystemDescription:
    """Return the description in a JSON object. Values of a wrong type are unknown."""
    node_list = value.get("nodes")
    nodes = (
        [node for node in node_list if isinstance(node, dict)]
        if isinstance(node_list, list)
        else []
    )
    if nodes:  # Number of nodes in entry.json of v0.5.
        counts = [
            (_count(node.get("num_nodes")), _count(node.get("num_accelerators"))) for node in nodes
        ]
        accelerator = _string(nodes[0], "accelerator")
    else:
        counts = [
            (_count(value.get("number_of_nodes")), _count(value.get("accelerators_per_node")))
        ]
        accelerator = _string(value, "accelerator_model_name")
    device_count = sum(node_count * accelerators for node_count, accelerators in counts)
    node_count = sum(node_count for node_count, _ in counts)
    division = _string(value, "division").lower()
    return SystemDescription(
        submitter=_string(value, "submitter"),
        division=division if division in _DIVISIONS else "",
        framework=_string(value, "framework"),
        availability=_string(value, "status"),
        accelerator="" if accelerator.lower() in _NO_ACCELERATOR else accelerator,
        devices=device_count if 0 < device_count <= _MAX_DEVICES else None,
        nodes=node_count if 0 < node_count <= _MAX_DEVICES else None,
    )


def _string(value: Mapping[str, Json], key: str) -> str:
    string = value.get(key)
    return clean(string) if isinstance(string, str) else ""


def _count(value: Json) -> int:
    """Return a positive integer, which may be a string such as `8` or `1.0`, or 0."""
    digits = str(value).strip().removesuffix(".0")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 8 else 0
