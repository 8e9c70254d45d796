"""The machine that ran, read from `topology.json` and `run.json` beside its logs, as the 33 fields of a description.

Fields that they do not tell stay empty and are listed for the user. Both files are not trusted: sizes are bounded, and values
of an unexpected type count as unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.packaging.description import FIELDS
from suite.results.logs.events import number
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.text import clean
from workloads.api import Json

_BYTES_LIMIT = 4 << 20
_FRAMEWORKS = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "mxnet": "Apache MXNet"}
JsonObject = Mapping[str, Json]


def recorded_machine(record: RunRecord) -> JsonObject:
    """What was recorded beside a log (`topology`, `hardware`, `versions`, …); missing parts are empty objects."""
    run = _json_file_object(record.path.parent / "run.json")
    return {
        "topology": _json_file_object(record.path.parent / "topology.json"),
        "hardware": _dict(run.get("hardware")),
        "versions": _dict(run.get("versions")),
        "git": _dict(run.get("git")),
        "environment": clean(str(_dict(run.get("environment")).get("name") or ""), 80),
        "hyperparameter_sources": _dict(_dict(run.get("settings")).get("hyperparameter_sources")),
        "hyperparameters": _dict(_dict(run.get("settings")).get("hyperparameters")),
        "options": _dict(_dict(run.get("settings")).get("options")),
        "oversubscribe": _dict(run.get("settings")).get("oversubscribe") is True,
    }


def description_fields(records: Sequence[RunRecord]) -> dict[str, Json]:
    """The fields that are known and equal for all runs. Raises ValueError if the runs were on different machines."""
    fields = [_fields_of_run(record.settings, recorded_machine(record)) for record in records]
    first = fields[0]
    for record, other in zip(records, fields, strict=True):
        for name in _EQUAL_IN_ALL_RUNS:
            if other[name] != first[name]:
                raise ValueError(
                    f"the runs of one system differ: {name} is {first[name]!r} in {clean(str(records[0].path), 200)} and "
                    f"{other[name]!r} in {clean(str(record.path), 200)}; package them separately"
                )
    return {name: first[name] if all(other[name] == first[name] for other in fields) else "" for name in FIELDS}


_EQUAL_IN_ALL_RUNS = (
    *("host_processors_per_node", "host_processor_model_name", "host_processor_core_count", "host_memory_capacity"),
    *("accelerators_per_node", "accelerator_model_name", "accelerator_memory_capacity", "framework", "number_of_nodes"),
)


def _fields_of_run(settings: RunSettings, recorded: JsonObject) -> dict[str, Json]:
    """All 33 fields; counts are texts. Processor and thread counts are those of one processor, as in published files."""
    topology, hardware, versions = (_dict(recorded[name]) for name in ("topology", "hardware", "versions"))
    cpu = _dict(topology.get("cpu"))
    sockets = _count(cpu.get("sockets"))
    framework = clean(settings.framework, 60)
    fields: dict[str, Json] = dict.fromkeys(FIELDS, "")
    fields |= {
        "number_of_nodes": _text(settings.nodes),
        "host_processors_per_node": _text(sockets),
        "host_processor_model_name": _clean_text(cpu.get("model")) or _clean_text(hardware.get("cpu_model")),
        "host_processor_core_count": _per_socket(cpu.get("cores"), sockets),
        "host_processor_vcpu_count": _per_socket(cpu.get("threads"), sockets),
        "host_processor_frequency": _with_unit(cpu.get("clock_max_mhz"), "MHz"),
        "host_processor_caches": _caches(cpu.get("caches")),
        "host_memory_capacity": _gib(topology.get("memory_bytes") or hardware.get("memory_bytes")),
        "framework": f"{_FRAMEWORKS.get(framework, framework)} {clean(settings.framework_version, 60)}".strip(),
        "other_software_stack": _software_stack(topology, versions),
        "operating_system": _clean_text(hardware.get("os")) or _clean_text(topology.get("kernel")),
        "hw_notes": _hardware_notes(settings, topology),
        "sw_notes": _software_notes(settings),
    }
    return fields | _accelerators(settings, topology, hardware)


def _accelerators(settings: RunSettings, topology: JsonObject, hardware: JsonObject) -> dict[str, Json]:
    """The fields of the GPUs; `0` accelerators for a run on CPU cores, empty fields if the log does not name the device."""
    if settings.device == "cpu":
        return {"accelerators_per_node": "0"}
    used = settings.devices // (settings.nodes or 1) if settings.devices is not None else None
    gpus = [_dict(item) for item in _list(topology.get("gpus")) or _list(hardware.get("gpus"))][:used]
    if not gpus:
        return {"accelerators_per_node": _text(used)}
    links = [_list(row)[:used] for row in _list(topology.get("gpu_nvlink"))[:used]]
    paths = [_list(row)[:used] for row in _list(topology.get("gpu_pcie"))[:used]]
    return {
        "accelerators_per_node": _text(used),
        "accelerator_model_name": _common_text([_clean_text(gpu.get("name")) for gpu in gpus]),
        "accelerator_frequency": _common_text([_with_unit(gpu.get("clock_max_mhz"), "MHz") for gpu in gpus]),
        "accelerator_memory_capacity": _common_text([_gib(gpu.get("memory_bytes")) for gpu in gpus]),
        "accelerator_interconnect": _interconnect(links, gpus),
        "accelerator_interconnect_topology": _interconnect_topology(links, paths),
    }


def _interconnect(links: list[list[Json]], gpus: list[dict[str, Json]]) -> str:
    pairs = [link for row in links for link in row if link is not None]
    if not pairs or len(gpus) < 2:
        return ""
    count = _common_text([_text(_count(gpu.get("nvlinks_active"))) for gpu in gpus])
    if all(pairs):
        return f"NVLink, {count} links active per device" if count else "NVLink"
    return "NVLink between some, PCIe between others" if any(pairs) else "PCIe"


def _interconnect_topology(links: list[list[Json]], paths: list[list[Json]]) -> str:
    """The connection of each pair of devices: `0-1 NVLink, 0-2 SYS, …`."""
    links_text = []
    for row, ways in enumerate(paths):
        for column, way in enumerate(ways[row + 1 :], start=row + 1):
            linked = row < len(links) and column < len(links[row]) and links[row][column] is True
            links_text.append(f"{row}-{column} {'NVLink' if linked else _clean_text(way) or 'unknown'}")
    kinds = {word.partition(" ")[2] for word in links_text}
    return f"{kinds.pop()} between each two" if len(kinds) == 1 else ", ".join(links_text)


def _caches(value: Json) -> str:
    """The caches of the whole machine: `L1 data 48 KiB x 2, L3 unified 32 MiB x 1`."""
    caches = [_dict(item) for item in _list(value)][:20]
    return ", ".join(
        f"L{_text(_count(cache.get('level')))} {_clean_text(cache.get('kind'))} {_kib(cache.get('size_bytes'))} "
        f"x {_text(_count(cache.get('count')))}"
        for cache in caches
    )


def _software_stack(topology: JsonObject, versions: JsonObject) -> dict[str, Json]:
    """Versions of all recorded software except the framework."""
    software = {clean(str(name), 60): _clean_text(value) for name, value in list(versions.items())[:50]}
    software |= {
        name: _clean_text(topology.get(name))
        for name in ("driver_version", "cuda_driver_version", "kernel", "container")
    }
    return {name: value for name, value in software.items() if value}


def _hardware_notes(settings: RunSettings, topology: JsonObject) -> str:
    notes = []
    if settings.device == "cpu":
        notes.append(f"{settings.devices} device(s) of {settings.cores_per_device} CPU core(s)")
    if nodes := _list(topology.get("numa_nodes")):
        notes.append(f"{len(nodes)} NUMA node(s)")
    if (quota := number(topology.get("cpu_quota_cores"))) is not None:
        notes.append(f"CPU quota {quota:g} cores")
    if (limit := _gib(topology.get("memory_limit_bytes"))) != "":
        notes.append(f"memory limit {limit}")
    watts = [number(_dict(gpu).get("power_limit_watts")) for gpu in _list(topology.get("gpus"))[: settings.devices]]
    if settings.device != "cpu" and watts and len(set(watts)) == 1 and watts[0] is not None:
        notes.append(f"power limit {watts[0]:g} W per device")
    return ", ".join(notes)


def _software_notes(settings: RunSettings) -> str:
    if not settings.suite_version:
        return ""
    commit = f", commit {clean(settings.git_commit, 40)}" if settings.git_commit else ""
    return f"time-to-target {clean(settings.suite_version, 40)}{commit}"


def _json_file_object(path: Path) -> dict[str, Json]:
    """The object in a JSON file; empty if there is none, or the file is a link, too long or no JSON."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _BYTES_LIMIT:
            return {}
        return _dict(json.loads(path.read_text(encoding="utf-8", errors="replace")))
    except (OSError, ValueError, RecursionError):
        return {}


def _dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _clean_text(value: Json) -> str:
    return clean(value, 200) if isinstance(value, str) else ""


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _per_socket(value: Json, sockets: int | None) -> str:
    """A count per processor socket; empty if it does not divide evenly."""
    total = _count(value)
    return str(total // sockets) if total is not None and sockets and total % sockets == 0 else ""


def _with_unit(value: Json, unit: str) -> str:
    whole = _count(value)
    return "" if whole is None else f"{whole} {unit}"


def _gib(value: Json) -> str:
    whole = _count(value)
    return "" if not whole else f"{whole / (1 << 30):.4g} GiB"


def _kib(value: Json) -> str:
    whole = _count(value) or 0
    return f"{whole >> 20} MiB" if whole >= 1 << 20 and not whole % (1 << 20) else f"{whole >> 10} KiB"


def _common_text(texts: Sequence[str]) -> str:
    """The text that all devices share; empty if they differ."""
    return texts[0] if texts and len(set(texts)) == 1 else ""
