"""Write `topology.json`, which describes the hardware of the machine.

The hardware is read from /proc, /sys, and NVML. Properties that cannot be read are null.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite.common.runspec import write_atomically
from suite.machine import devices, sysfiles
from suite.machine.cgroups import container, limits
from suite.machine.sysfiles import cpu_model, number, online_cpus, text
from workloads.api import Json

SCHEMA = 1
ROOT = Path("/")
PCIE_PATHS = {0: "internal", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""Maps each nvmlGpuTopologyLevel_t to its name in `nvidia-smi topo -m`.

The levels after `internal` describe the path between two GPUs: through a single PCIe switch (PIX),
several switches (PXB), a host bridge (PHB), a NUMA node (NODE), or the system interconnect (SYS).
"""


def write(folder: Path) -> None:
    """Write `topology.json` to a run's folder.

    Write errors are ignored, because they must not end a run.
    """
    with contextlib.suppress(OSError):
        write_atomically(
            folder / "topology.json",
            json.dumps(_cached_topology(), indent=1, ensure_ascii=False) + "\n",
        )


@functools.cache
def _cached_topology() -> Json:
    """Return the topology, or an error message if the topology cannot be read.

    The topology is cached, because the hardware does not change while this process runs.
    """
    try:
        return topology()
    except Exception as error:
        # An unexpected response of the kernel or the driver must not end a run.
        return {"schema": SCHEMA, "error": f"{type(error).__name__}: {error}"}


def topology(root: Path = ROOT) -> dict[str, Json]:
    """Return the content of `topology.json`.

    Args:
        root: Folder that contains /proc and /sys.
    """
    return {
        "schema": SCHEMA,
        **_system(root),
        "cpu": _cpu(root),
        "memory_bytes": sysfiles.memory_bytes(root / "proc/meminfo").get("MemTotal"),
        "numa_nodes": _numa_nodes(root),
        "network": _network(root),
        **_gpus(root),
    }


def governors(root: Path = ROOT) -> set[str]:
    """Return the CPU frequency governors in use.

    The set is empty if the kernel does not report them, as in virtual machines.
    """
    paths = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return {name for path in paths if (name := text(path)) is not None}


def _system(root: Path) -> dict[str, Json]:
    allowed = limits(root)
    return {
        "kernel": text(root / "proc/sys/kernel/osrelease"),
        "container": container(root),
        "cgroup_version": allowed.version,
        "cpu_quota_cores": allowed.cpu_quota_cores,
        "memory_limit_bytes": allowed.memory_limit_bytes,
    }


def _network(root: Path) -> dict[str, Json]:
    """Return the network interfaces, and the ports of InfiniBand and RoCE adapters.

    The loopback interface is excluded. The driver of a virtual interface is None, and the speed may
    be None.
    """
    interfaces: list[Json] = []
    for folder in sorted((root / "sys/class/net").glob("*")):
        if folder.name == "lo" or not folder.is_dir():
            continue
        speed, driver = number(folder / "speed"), folder / "device/driver"
        interfaces.append(
            {
                "name": folder.name,
                "state": text(folder / "operstate"),
                "megabits_per_second": speed if speed is not None and speed > 0 else None,
                "driver": driver.resolve().name if driver.exists() else None,
            }
        )
    ports: list[Json] = [
        {
            "device": port.parent.parent.name,
            "port": port.name,
            **{name: text(port / name) for name in ("link_layer", "rate")},
        }
        for port in sorted((root / "sys/class/infiniband").glob("*/ports/*"))
    ]
    return {"interfaces": interfaces, "infiniband": ports}


def _cpu(root: Path) -> dict[str, Json]:
    """Return the properties of all online CPUs, including those this process may not use."""
    base = root / "sys/devices/system/cpu"
    folders = [folder for _, folder in sorted(online_cpus(root).items())]
    packages = {text(folder / "topology/physical_package_id") for folder in folders} - {None}
    cores = {
        text(folder / "topology/core_cpus_list") or text(folder / "topology/thread_siblings_list")
        for folder in folders
    } - {None}
    frequency_khz = number(base / "cpu0/cpufreq/cpuinfo_max_freq")
    return {
        "model": cpu_model(root),
        "sockets": len(packages) or None,
        "cores": len(cores) or None,
        "threads": len(folders) or None,
        "governor": ", ".join(sorted(governors(root))) or None,
        "clock_max_mhz": None if frequency_khz is None else frequency_khz // 1000,
        "caches": _caches(folders),
    }


def _caches(folders: list[Path]) -> list[Json]:
    """Return the level, kind, size in bytes, and count of the CPU caches.

    Caches with the same level, kind, and size share a list item.
    """
    seen: set[tuple[str, str | None]] = set()
    counts: dict[tuple[int | None, str, int | None], int] = {}
    for folder in folders:
        for path in folder.glob("cache/index[0-9]*"):
            key = path.name, text(path / "shared_cpu_list")
            if key in seen:
                continue
            seen.add(key)
            kind = (
                number(path / "level"),
                (text(path / "type") or "").lower(),
                _size(text(path / "size")),
            )
            counts[kind] = counts.get(kind, 0) + 1
    rows = sorted(counts.items(), key=lambda item: (item[0][0] or 0, item[0][1], item[0][2] or 0))
    return [
        {"level": level, "kind": kind, "size_bytes": size, "count": count}
        for (level, kind, size), count in rows
    ]


def _numa_nodes(root: Path) -> list[Json]:
    nodes = {
        int(path.name[4:]): path for path in (root / "sys/devices/system/node").glob("node[0-9]*")
    }
    return [
        {
            "node": node,
            "cpus": text(path / "cpulist"),
            "memory_bytes": sysfiles.memory_bytes(path / "meminfo").get("MemTotal"),
        }
        for node, path in sorted(nodes.items())
    ]


def _gpus(root: Path) -> dict[str, Json]:
    """Return the visible GPUs, and the connections between each pair of GPUs.

    The GPUs have the same order as the devices of a run.
    """
    with devices.nvml() as nvml:
        if nvml is None:
            names = ("driver_version", "cuda_driver_version", "gpus", "gpu_pcie", "gpu_nvlink")
            return {**dict.fromkeys(names), "gpus": []}
        handles = _ask(devices.visible_handles, nvml) or []
        return {
            "driver_version": _ask(nvml.nvmlSystemGetDriverVersion),
            "cuda_driver_version": devices.cuda_driver_version(nvml),
            "gpus": [_gpu(nvml, handle, index, root) for index, handle in enumerate(handles)],
            "gpu_pcie": _matrix(handles, functools.partial(_pcie, nvml)),
            "gpu_nvlink": _matrix(handles, functools.partial(_nvlink, nvml)),
        }


def _gpu(nvml: Any, handle: Any, index: int, root: Path) -> dict[str, Json]:
    pci = _ask(lambda: nvml.nvmlDeviceGetPciInfo(handle).busId)
    power = _ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    capability = _ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return {
        "device": index,
        "uuid": _ask(nvml.nvmlDeviceGetUUID, handle),
        "name": _ask(nvml.nvmlDeviceGetName, handle),
        "capability": None if capability is None else "{}.{}".format(*capability),
        "pci_bus_id": pci,
        "numa_node": _gpu_numa_node(pci, root),
        "memory_bytes": _ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
        "clock_max_mhz": _ask(
            lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
        ),
        "memory_clock_max_mhz": _ask(
            lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM))
        ),
        "power_limit_watts": None if power is None else power / 1000,
        "nvlinks_active": _active_nvlinks(nvml, handle),
    }


def _gpu_numa_node(pci_bus_id: str | None, root: Path) -> int | None:
    """Return the NUMA node of a GPU, or None if the NUMA node is unknown.

    NVML writes the PCI domain with eight digits, but /sys uses four digits. /sys contains -1 if the
    NUMA node is unknown.
    """
    if pci_bus_id is None:
        return None
    node = number(root / "sys/bus/pci/devices" / pci_bus_id.lower()[-12:] / "numa_node")
    return node if node is not None and node >= 0 else None


def _active_nvlinks(nvml: Any, handle: Any) -> int:
    """Return the number of active NVLinks between a GPU and other GPUs or an NVSwitch.

    Returns 0 for a GPU without NVLink.
    """
    count = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        state = _ask(nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:  # the link index is beyond the last NVLink of the GPU
            break
        count += bool(state)
    return count


def _matrix(handles: list[Any], between: Callable[[Any, Any], Json]) -> list[list[Json]]:
    """Return the matrix of `between` for all pairs of GPUs, with None on the diagonal."""
    return [
        [None if row == column else between(a, b) for column, b in enumerate(handles)]
        for row, a in enumerate(handles)
    ]


def _pcie(nvml: Any, a: Any, b: Any) -> str | None:
    """Return the PCIe path between two devices, as named in `nvidia-smi topo -m`."""
    level = _ask(nvml.nvmlDeviceGetTopologyCommonAncestor, a, b)
    return None if level is None else PCIE_PATHS.get(level, str(level))


def _nvlink(nvml: Any, a: Any, b: Any) -> bool | None:
    """Check whether NVLink connects two devices, directly or through an NVSwitch."""
    state = _ask(nvml.nvmlDeviceGetP2PStatus, a, b, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return None if state is None else bool(state == nvml.NVML_P2P_STATUS_OK)


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call an NVML function and return its result. Return None if the call fails.

    NVML raises an error for unsupported queries. Old versions of the NVML bindings lack some
    functions.
    """
    try:
        return function(*arguments)
    except Exception:  # the class NVMLError can be named only if pynvml is installed
        return None


def _size(size: str | None) -> int | None:
    """Convert a size such as `48K` to bytes."""
    match = re.fullmatch(r"(\d+)([KMG]?)", size or "")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]] if match else None
