"""Fields of the system description `systems/SYSTEM.json`, and checks of such a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.registry import suggestion
from suite.compliance.check_log import Verdict
from suite.compliance.complaints import Complaint
from suite.compliance.rulesets import package_rulesets
from suite.packaging.layout import RESULTS, SYSTEMS
from suite.results.logs.reader import read
from suite.results.logs.record import RunRecord
from suite.results.text import clean
from workloads import files
from workloads.api import Json

RULESET = "1.0.0"
"""First ruleset that requires all fields of a system description.

Ruleset 0.7.0 requires only the field `division`.
"""
FIELDS = (
    "submitter", "division", "status", "system_name", "number_of_nodes",
    "host_processors_per_node", "host_processor_model_name", "host_processor_core_count",
    "host_processor_vcpu_count", "host_processor_frequency", "host_processor_caches",
    "host_processor_interconnect", "host_memory_capacity", "host_storage_type",
    "host_storage_capacity", "host_networking", "host_networking_topology",
    "host_memory_configuration", "accelerators_per_node", "accelerator_model_name",
    "accelerator_host_interconnect", "accelerator_frequency", "accelerator_on-chip_memories",
    "accelerator_memory_configuration", "accelerator_memory_capacity",
    "accelerator_interconnect", "accelerator_interconnect_topology", "cooling", "hw_notes",
    "framework", "other_software_stack", "operating_system", "sw_notes",
)  # fmt: skip
"""All 33 fields of a system description, in the order of the published files.

Source: mlperf-logging 4.1.68, system_desc_checker.
"""
AVAILABILITY: Mapping[str, str] = {
    "onprem": "Available on-premise",
    "cloud": "Available cloud",
    "preview": "Preview",
    "research": "Research, Development, or Internal (RDI)",
}
"""Maps `submission_status` in logs to `status` in a system description, for rulesets from 4.0.0 on.

Source: mlperf-logging 4.1.68, system_desc_checker. Earlier rulesets accept any status.
"""
_BYTES_LIMIT = 1 << 20
_START_FROM = "start with a description that `suite package` wrote"


def fields_to_fill_in(fields: Mapping[str, Json]) -> list[str]:
    """Return the names of the empty fields that the user should fill in."""
    has_none = fields.get("accelerators_per_node") == "0"
    expected = (
        name
        for name in FIELDS
        if not name.endswith("_notes") and not (has_none and "accelerator" in name)
    )
    return [name for name in expected if not fields.get(name)]


def needs_availability(records: Sequence[RunRecord]) -> bool:
    """Return True if a ruleset of the runs prescribes the values of `status`."""
    return any(int(ruleset.partition(".")[0]) >= 4 for ruleset in package_rulesets(records))


def check_description(folder: Path, system: str, werror: bool = False) -> Verdict:
    """Check a system description in a submission tree.

    The function never raises an error for an invalid file.
    """
    path = folder / SYSTEMS / f"{system}.json"
    complaints = list(_complaints(folder, path))
    verdict = Verdict.of(
        path,
        f"system_desc_checker {RULESET}",
        f"all {len(FIELDS)} fields are present",
        complaints,
        werror,
    )
    if complaints or not (empty := fields_to_fill_in(files.read_json(path))):
        return verdict
    remark = f"these fields are empty, which is allowed: {', '.join(empty)}"
    return replace(verdict, text=f"{verdict.text}, {len(empty)} of them empty", remarks=(remark,))


def _complaints(folder: Path, path: Path) -> Iterator[Complaint]:
    name = clean(f"{SYSTEMS}/{path.name}", 200)
    if not path.is_file():
        names = sorted(file.stem for file in path.parent.glob("*.json"))
        existing = f" (existing files: {clean(', '.join(names[:5]))})" if names else ""
        problem = f"no such file{existing}"
        needed = f"a description named like {RESULTS}/{clean(path.stem)}"
        yield Complaint(
            name, 0, problem, needed, f"rename it{suggestion(path.stem, names)}, or {_START_FROM}"
        )
        return
    try:
        value = files.read_json(path, _BYTES_LIMIT)
        if not isinstance(value, dict):
            raise ValueError("JSON, but not an object")
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg}, column {error.colno}"
        yield Complaint(
            name,
            error.lineno,
            problem,
            "one JSON object",
            "fix this line: quotes, commas, no comments",
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
            do = f'add "{field}": "" (an empty string is allowed)'
            yield Complaint(field, 0, "not in the file", "all 33 fields", do)
        elif not isinstance(value[field], str) and field != "other_software_stack":
            shown = clean(json.dumps(value[field]), 60)
            yield Complaint(
                field,
                0,
                shown,
                "a string, even for a number",
                f'write it in quotes: "{field}": "…"',
            )


def _disagreements_with_logs(
    folder: Path, system: str, value: Mapping[str, Json]
) -> Iterator[Complaint]:
    """Yield a complaint if the system's name or division differs from the results."""
    if isinstance(value.get("system_name"), str) and value["system_name"] != system:
        described = clean(str(value["system_name"]), 100) or "empty"
        do = "use the same name for the file, the folder of results, and system_name"
        yield Complaint("system_name", 0, described, clean(system, 100), do, warning=True)
    results = folder / RESULTS / system
    if not results.is_dir():
        needed = f"a folder {RESULTS}/{clean(system)}"
        yield Complaint(
            "", 0, "no results of this system", needed, "remove the description", warning=True
        )
        return
    logs = sorted(path for path in results.glob("*/result_*.txt") if path.is_file())
    records = [read(path) for path in logs]
    if needs_availability(records) and value.get("status") not in AVAILABILITY.values():
        needed = f"one of {', '.join(AVAILABILITY.values())}"
        do = "write the availability of the system in the words of the ruleset"
        yield Complaint("status", 0, clean(str(value.get("status")), 60), needed, do)
    logged_divisions = {record.division for record in records} - {""}
    division = value.get("division")
    if isinstance(division, str) and logged_divisions and logged_divisions != {division}:
        needed = f"as in the logs: {clean(', '.join(sorted(logged_divisions)), 80)}"
        yield Complaint(
            "division", 0, clean(division, 40) or "empty", needed, "write the division of the logs"
        )
