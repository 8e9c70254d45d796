"""Fill the 33 fields of a system description from recorded files.

The hardware and the software are read from `topology.json` and `run.json` next to the logs. Fields
that cannot be filled stay empty, and are listed for the user. With several nodes, a field is filled
only if all nodes have the same value. `hw_notes` describes each node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from suite.launch.registered_frameworks import title_of
from suite.packaging.description import FIELDS
from suite.packaging.recorded_hosts import RecordedHost, hosts_note, networking, recorded_hosts
from suite.packaging.recorded_overrides import recorded_machine
from suite.packaging.untrusted import Recorded, as_list
from suite.results.logs.events import number
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.text import clean
from workloads.api import Json


def description_fields(records: Sequence[RunRecord]) -> dict[str, Json]:
    """Return the fields of the system description that are equal for all runs.

    Raises:
        ValueError: The runs used different machines.
    """
    fields = [_fields_of_run(record) for record in records]
    first = fields[0]
    for record, values in zip(records, fields, strict=True):
        for name in _EQUAL_IN_ALL_RUNS:
            if values[name] != first[name]:
                raise ValueError(
                    f"the runs of the system differ: {name} is {first[name]!r} in"
                    f" {clean(str(records[0].path), 200)} and {values[name]!r} in"
                    f" {clean(str(record.path), 200)}. Package them separately"
                )
    return _shared(fields)


def _shared(each: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the description with the fields that differ between the nodes emptied."""
    return {
        name: each[0][name] if all(fields[name] == each[0][name] for fields in each) else ""
        for name in FIELDS
    }


_EQUAL_IN_ALL_RUNS = (
    "host_processors_per_node", "host_processor_model_name", "host_processor_core_count",
    "host_memory_capacity", "accelerators_per_node", "accelerator_model_name",
    "accelerator_memory_capacity", "framework", "number_of_nodes",
)  # fmt: skip


def _fields_of_run(record: RunRecord) -> dict[str, Json]:
    """Return all 33 fields of the system description for a run.

    Fields that differ between the nodes are empty. A note describes each node.
    """
    nodes, versions = recorded_hosts(record), Recorded(recorded_machine(record)["versions"])
    fields = _shared([_fields_of_node(record.settings, versions, node) for node in nodes])
    if len(nodes) > 1:
        notes = (str(fields["hw_notes"]), hosts_note(nodes, record.settings.device))
        fields["hw_notes"] = "; ".join(note for note in notes if note)
    return fields


def _fields_of_node(
    settings: RunSettings, versions: Recorded, node: RecordedHost
) -> dict[str, Json]:
    """Return all 33 fields of the system description for a node.

    Numbers are formatted as strings. Core and thread counts are per processor, as in published
    system descriptions.
    """
    topology, hardware = node.topology, node.hardware
    cpu = topology.part("cpu")
    framework = clean(settings.framework, 60)
    fields: dict[str, Json] = dict.fromkeys(FIELDS, "")
    fields |= {
        "number_of_nodes": _count_text(settings.nodes),
        "host_processors_per_node": cpu.count_text("sockets"),
        "host_processor_model_name": cpu.text("model") or hardware.text("cpu_model"),
        "host_processor_core_count": _per_socket(cpu, "cores"),
        "host_processor_vcpu_count": _per_socket(cpu, "threads"),
        "host_processor_frequency": cpu.count_text("clock_max_mhz", "MHz"),
        "host_processor_caches": _caches(cpu),
        "host_memory_capacity": topology.gib("memory_bytes") or hardware.gib("memory_bytes"),
        "host_networking": networking(node) if (settings.nodes or 1) > 1 else "",
        "framework": f"{title_of(framework)} {clean(settings.framework_version, 60)}".strip(),
        "other_software_stack": _software_stack(topology, versions),
        "operating_system": hardware.text("os") or topology.text("kernel"),
        "hw_notes": _hardware_notes(settings, topology),
        "sw_notes": _software_notes(settings),
    }
    return fields | _accelerators(settings, topology, hardware)


def _used(settings: RunSettings) -> int | None:
    """Return the number of devices per node that the run used."""
    return settings.devices // (settings.nodes or 1) if settings.devices is not None else None


def _accelerators(settings: RunSettings, topology: Recorded, hardware: Recorded) -> dict[str, Json]:
    """Return the fields of the system description that describe the GPUs.

    A run on CPU cores has `0` accelerators. The fields are empty if the log does not name the
    device.
    """
    if settings.device == "cpu":
        return {"accelerators_per_node": "0"}
    used = _used(settings)
    gpus = (topology.parts("gpus") or hardware.parts("gpus"))[:used]
    if not gpus:
        return {"accelerators_per_node": _count_text(used)}
    links, paths = (
        [as_list(row)[:used] for row in topology.listed(f"gpu_{kind}")[:used]]
        for kind in ("nvlink", "pcie")
    )
    return {
        "accelerators_per_node": _count_text(used),
        "accelerator_model_name": _common_text(gpu.text("name") for gpu in gpus),
        "accelerator_frequency": _common_text(
            gpu.count_text("clock_max_mhz", "MHz") for gpu in gpus
        ),
        "accelerator_memory_capacity": _common_text(gpu.gib("memory_bytes") for gpu in gpus),
        "accelerator_interconnect": _interconnect(links, gpus),
        "accelerator_interconnect_topology": _interconnect_topology(links, paths),
    }


def _interconnect(links: list[list[Json]], gpus: list[Recorded]) -> str:
    pairs = [link for row in links for link in row if link is not None]
    if not pairs or len(gpus) < 2:
        return ""
    count = _common_text(gpu.count_text("nvlinks_active") for gpu in gpus)
    if all(pairs):
        return f"NVLink, {count} links active per device" if count else "NVLink"
    return "NVLink between some, PCIe between others" if any(pairs) else "PCIe"


def _interconnect_topology(links: list[list[Json]], paths: list[list[Json]]) -> str:
    """Format the links between the GPUs, as in `0-1 NVLink, 0-2 SYS, …`."""
    links_text = []
    for row, ways in enumerate(paths):
        for column, way in enumerate(ways[row + 1 :], start=row + 1):
            linked = row < len(links) and column < len(links[row]) and links[row][column] is True
            kind = clean(way) if isinstance(way, str) else ""
            links_text.append(f"{row}-{column} {'NVLink' if linked else kind or 'unknown'}")
    kinds = {word.partition(" ")[2] for word in links_text}
    return f"{kinds.pop()} between each two" if len(kinds) == 1 else ", ".join(links_text)


def _caches(cpu: Recorded) -> str:
    """Format the caches of the machine, as in `L1 data 48 KiB x 2, L3 unified 32 MiB x 1`."""
    return ", ".join(
        f"L{cache.count_text('level')} {cache.text('kind')} {_kib(cache.count('size_bytes') or 0)} "
        f"x {cache.count_text('count')}"
        for cache in cpu.parts("caches", 20)
    )


def _software_stack(topology: Recorded, versions: Recorded) -> dict[str, Json]:
    """Return the versions of all recorded software except the framework."""
    software = {clean(str(name), 60): versions.text(name) for name in list(versions.values)[:50]}
    software |= {
        name: topology.text(name)
        for name in ("driver_version", "cuda_driver_version", "kernel", "container")
    }
    return {name: value for name, value in software.items() if value}


def _hardware_notes(settings: RunSettings, topology: Recorded) -> str:
    notes = []
    over = f" on {settings.nodes} nodes" if (settings.nodes or 1) > 1 else ""
    if settings.device == "cpu":
        notes.append(
            f"{settings.devices} device(s){over} of {settings.cores_per_device} CPU core(s)"
        )
    if nodes := topology.listed("numa_nodes"):
        notes.append(f"{len(nodes)} NUMA node(s)")
    if (quota := number(topology.values.get("cpu_quota_cores"))) is not None:
        notes.append(f"CPU quota {quota:g} cores")
    if limit := topology.gib("memory_limit_bytes"):
        notes.append(f"memory limit {limit}")
    watts = {
        number(gpu.values.get("power_limit_watts"))
        for gpu in topology.parts("gpus")[: _used(settings)]
    }
    if settings.device != "cpu" and len(watts) == 1 and (limit_watts := watts.pop()) is not None:
        notes.append(f"power limit {limit_watts:g} W per device")
    return ", ".join(notes)


def _software_notes(settings: RunSettings) -> str:
    if not settings.suite_version:
        return ""
    commit = f", commit {clean(settings.git_commit, 40)}" if settings.git_commit else ""
    return f"time-to-target {clean(settings.suite_version, 40)}{commit}"


def _count_text(count: int | None) -> str:
    return "" if count is None else str(count)


def _per_socket(cpu: Recorded, name: str) -> str:
    """Return a CPU count divided by the number of sockets.

    The string is empty if the count cannot be divided evenly.
    """
    total, sockets = cpu.count(name), cpu.count("sockets")
    return str(total // sockets) if total is not None and sockets and total % sockets == 0 else ""


def _kib(size_bytes: int) -> str:
    whole_mib = size_bytes >= 1 << 20 and not size_bytes % (1 << 20)
    return f"{size_bytes >> 20} MiB" if whole_mib else f"{size_bytes >> 10} KiB"


def _common_text(texts: Iterable[str]) -> str:
    """Return the common description of all devices, or "" if the descriptions differ."""
    found = set(texts)
    return found.pop() if len(found) == 1 else ""
