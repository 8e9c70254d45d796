"""The system description `systems/SYSTEM.json`: its fields, and checks of a given file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from suite.common.registry import suggestion
from suite.compliance.check_log import Verdict
from suite.compliance.complaints import Complaint
from suite.packaging.layout import RESULTS, SYSTEMS
from suite.results.logs.reader import read
from suite.results.text import clean
from workloads import files
from workloads.api import Json

RULESET = "1.0.0"
"""The first ruleset with rules for descriptions: that all fields are there. 0.7.0 asks for a
division.
"""
FIELDS = (
    "submitter", "division", "status", "system_name", "number_of_nodes", "host_processors_per_node",
    "host_processor_model_name", "host_processor_core_count", "host_processor_vcpu_count",
    "host_processor_frequency", "host_processor_caches", "host_processor_interconnect", "host_memory_capacity",
    "host_storage_type", "host_storage_capacity", "host_networking", "host_networking_topology",
    "host_memory_configuration", "accelerators_per_node", "accelerator_model_name", "accelerator_host_interconnect",
    "accelerator_frequency", "accelerator_on-chip_memories", "accelerator_memory_configuration",
    "accelerator_memory_capacity", "accelerator_interconnect", "accelerator_interconnect_topology", "cooling",
    "hw_notes", "framework", "other_software_stack", "operating_system", "sw_notes",
)  # fmt: skip
"""All 33, in the order of the published files (mlperf-logging 4.1.68, system_desc_checker)."""
_BYTES_LIMIT = 1 << 20
_START_FROM = "start from a description that `suite package` wrote"


def fields_to_fill_in(fields: Mapping[str, Json]) -> list[str]:
    """The empty fields, for the user to fill in."""
    none = fields.get("accelerators_per_node") == "0"
    wanted = (
        name
        for name in FIELDS
        if not name.endswith("_notes") and not (none and "accelerator" in name)
    )
    return [name for name in wanted if not fields.get(name)]


def check_description(folder: Path, system: str, werror: bool = False) -> Verdict:
    """Check the description of one system of a tree. No content of the file raises."""
    path = folder / SYSTEMS / f"{system}.json"
    complaints = list(_complaints(folder, path))
    verdict = Verdict.of(
        path,
        f"system_desc_checker {RULESET}",
        f"all {len(FIELDS)} fields are there",
        complaints,
        werror,
    )
    if complaints or not (empty := fields_to_fill_in(files.read_json(path))):
        return verdict
    remark = f"empty, which is allowed and tells nothing of the system: {', '.join(empty)}"
    return replace(verdict, text=f"{verdict.text}, {len(empty)} of them empty", remarks=(remark,))


def _complaints(folder: Path, path: Path) -> Iterator[Complaint]:
    name = clean(f"{SYSTEMS}/{path.name}", 200)
    if not path.is_file():
        others = sorted(other.stem for other in path.parent.glob("*.json"))
        problem = "no such file" + (f"; there are {clean(', '.join(others[:5]))}" if others else "")
        needed = f"a description named like {RESULTS}/{clean(path.stem)}"
        yield Complaint(
            name, 0, problem, needed, f"rename it{suggestion(path.stem, others)}, or {_START_FROM}"
        )
        return
    try:
        value = files.read_json(path, _BYTES_LIMIT)
        if not isinstance(value, dict):
            raise ValueError("JSON, but no object")
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg}, column {error.colno}"
        yield Complaint(
            name,
            error.lineno,
            problem,
            "one JSON object",
            "repair that line: quotes, commas, no comments",
        )
    except (OSError, ValueError) as error:
        problem = clean(getattr(error, "strerror", None) or str(error))
        yield Complaint(name, 0, problem, "one JSON object in UTF-8", _START_FROM)
    else:
        yield from _field_complaints(value)
        yield from _disagreements_with_logs(folder, path.stem, value)


def _field_complaints(value: Mapping[str, Json]) -> Iterator[Complaint]:
    for field in FIELDS:
        if field not in value:
            do = f'add "{field}": "" (an empty text is allowed)'
            yield Complaint(field, 0, "not in the file", "all 33 fields", do)
        elif not isinstance(value[field], str) and field != "other_software_stack":
            shown = clean(json.dumps(value[field]), 60)
            yield Complaint(
                field, 0, shown, "a text, numbers too", f'write it in quotes: "{field}": "…"'
            )


def _disagreements_with_logs(
    folder: Path, system: str, value: Mapping[str, Json]
) -> Iterator[Complaint]:
    """Complaints if the name or division differs from that of the results."""
    if isinstance(value.get("system_name"), str) and value["system_name"] != system:
        described = clean(str(value["system_name"]), 100) or "empty"
        do = "give file, folder of results and system_name one name"
        yield Complaint("system_name", 0, described, clean(system, 100), do, warning=True)
    place = folder / RESULTS / system
    if not place.is_dir():
        needed = f"a folder {RESULTS}/{clean(system)}"
        yield Complaint(
            "", 0, "no results of this system", needed, "remove the description", warning=True
        )
        return
    logs = sorted(path for path in place.glob("*/result_*.txt") if path.is_file())
    logged_divisions = {read(path).division for path in logs} - {""}
    division = value.get("division")
    if isinstance(division, str) and logged_divisions and logged_divisions != {division}:
        needed = f"as the logs say: {clean(', '.join(sorted(logged_divisions)), 80)}"
        yield Complaint(
            "division", 0, clean(division, 40) or "empty", needed, "write what the logs say"
        )
