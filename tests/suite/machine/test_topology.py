"""The topology of a machine, from synthetic /proc and /sys trees, a fake NVML, and this machine."""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from suite.machine import topology
from suite.machine.cgroups import container, limits, oom_kills
from tests.suite.machine.tree import tree


@pytest.fixture
def machine(tmp_path):
    """Return the root of a machine with two sockets of two cores, and a NUMA node per socket."""
    files = {
        "proc/sys/kernel/osrelease": "6.8.0",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Synthetic 9000",
        "proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB",
        "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3700000",
        "sys/devices/system/node/node0/cpulist": "0-1,4-5",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       8388608 kB",
        "sys/devices/system/node/node1/cpulist": "2-3,6-7",
        "sys/bus/pci/devices/0000:31:00.0/numa_node": "1",
        "sys/bus/pci/devices/0000:30:00.0/numa_node": "-1",
    }
    for cpu in range(8):
        base, core = f"sys/devices/system/cpu/cpu{cpu}", cpu % 4
        files[f"{base}/topology/physical_package_id"] = core // 2
        files[f"{base}/topology/core_cpus_list"] = f"{core},{core + 4}"
        files[f"{base}/cpufreq/scaling_governor"] = "powersave" if cpu else "performance"
        caches = [
            (1, "Data", "48K", f"{core},{core + 4}"),
            (3, "Unified", "32M", f"socket {core // 2}"),
        ]
        for index, (level, kind, size, shared) in enumerate(caches):
            cache = f"{base}/cache/index{index}"
            files |= {f"{cache}/level": level, f"{cache}/type": kind, f"{cache}/size": size}
            files[f"{cache}/shared_cpu_list"] = shared
    return tree(tmp_path, files)


def test_cpu_caches_and_numa_nodes(machine):
    facts = topology.topology(machine)
    assert (facts["kernel"], facts["memory_bytes"]) == ("6.8.0", 16 << 30)
    cpu = facts["cpu"]
    assert (cpu["model"], cpu["sockets"], cpu["cores"], cpu["threads"]) == (
        "Synthetic 9000",
        2,
        4,
        8,
    )
    assert (cpu["governor"], cpu["clock_max_mhz"]) == ("performance, powersave", 3700)
    caches = [
        tuple(map(cache.get, ("level", "kind", "size_bytes", "count"))) for cache in cpu["caches"]
    ]
    assert caches == [(1, "data", 48 << 10, 4), (3, "unified", 32 << 20, 2)]
    nodes = [tuple(map(node.get, ("node", "cpus", "memory_bytes"))) for node in facts["numa_nodes"]]
    assert nodes == [(0, "0-1,4-5", 8 << 30), (1, "2-3,6-7", None)]


def test_missing_facts_are_null(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    facts = topology.topology(tmp_path)
    assert facts == {
        "schema": 1, "kernel": None, "memory_bytes": None, "numa_nodes": [],
        "container": facts["container"], "cgroup_version": None, "cpu_quota_cores": None,
        "memory_limit_bytes": None,
        "cpu": {"model": None, "sockets": None, "cores": None, "threads": None, "governor": None,
                "clock_max_mhz": None, "caches": []},
        "network": {"interfaces": [], "infiniband": []},
        "driver_version": None, "cuda_driver_version": None, "gpus": [], "gpu_pcie": None,
        "gpu_nvlink": None,
    }  # fmt: skip


def test_gpus_and_their_connections(machine, nvml):
    nvml()
    facts = topology.topology(machine)
    assert (facts["driver_version"], facts["cuda_driver_version"]) == ("580.65", "13.0")
    assert facts["gpus"][1] == {
        "device": 1, "uuid": "GPU-1", "name": "Fake GPU", "capability": "9.0",
        "pci_bus_id": "00000000:31:00.0", "numa_node": 1, "memory_bytes": 80 << 30,
        "clock_max_mhz": 1980, "memory_clock_max_mhz": 2619, "power_limit_watts": 700.0,
        "nvlinks_active": 18,
    }  # fmt: skip
    assert facts["gpus"][0]["numa_node"] is None
    assert facts["gpu_pcie"] == [[None, "SYS"], ["SYS", None]]
    assert facts["gpu_nvlink"] == [[None, True], [True, None]]


def test_facts_that_a_driver_does_not_report_are_null(machine, nvml):
    names = (
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetP2PStatus",
        "nvmlSystemGetCudaDriverVersion",
    )
    nvml(broken=(*names, "nvmlDeviceGetNvLinkState"))
    facts = topology.topology(machine)
    gpu = facts["gpus"][0]
    assert (
        gpu["uuid"] is gpu["pci_bus_id"] is gpu["numa_node"] is facts["cuda_driver_version"] is None
    )
    assert gpu["nvlinks_active"] == 0
    assert facts["gpu_nvlink"] == [[None, None], [None, None]]


V2 = {
    "sys/fs/cgroup/cgroup.controllers": "cpu memory",
    "proc/self/cgroup": "0::/batch/job",
    "sys/fs/cgroup/batch/cpu.max": "max 100000",
    "sys/fs/cgroup/batch/memory.max": str(4 << 30),
    "sys/fs/cgroup/batch/memory.current": str(3 << 30),
    "sys/fs/cgroup/batch/memory.stat": f"anon 1\ninactive_file {1 << 30}",
    "sys/fs/cgroup/batch/job/cpu.max": "150000 100000",
    "sys/fs/cgroup/batch/job/memory.max": "max",
}
V1 = {
    "proc/self/cgroup": "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": str(2 << 30),
    "sys/fs/cgroup/memory/memory.usage_in_bytes": str(1 << 30),
    "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 4096",
}
UNLIMITED = {**V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}
UNLIMITED["sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (V2, (2, 1.5, 4 << 30, 2 << 30)),
        (V1, (1, 2.0, 2 << 30, (1 << 30) + 4096)),
        (UNLIMITED, (1, None, None, None)),
        ({}, (None, None, None, None)),
    ],
    ids=["v2", "v1", "v1 without limits", "none"],
)
def test_the_tightest_limit_of_a_group_and_its_parents(tmp_path, files, expected):
    allowed = limits(tree(tmp_path, files))
    assert (
        allowed.version,
        allowed.cpu_quota_cores,
        allowed.memory_limit_bytes,
        allowed.memory_free_bytes,
    ) == expected


@pytest.mark.parametrize(
    ("file", "variable", "kind"),
    [
        (".dockerenv", None, "docker"), ("run/.containerenv", None, "podman"),
        (None, "APPTAINER_CONTAINER", "apptainer"), (None, None, None),
    ],
)  # fmt: skip
def test_the_kind_of_container_is_detected(tmp_path, monkeypatch, file, variable, kind):
    for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    if file:
        tree(tmp_path, {file: ""})
    if variable:
        monkeypatch.setenv(variable, "x")
    assert container(tmp_path) == kind


def test_interfaces_and_infiniband(tmp_path):
    net, ib = "sys/class/net", "sys/class/infiniband/mlx5_0/ports/1"
    files = {
        f"{net}/lo/speed": "1",
        f"{net}/eth0/speed": "25000",
        f"{net}/eth0/operstate": "up",
        f"{net}/veth1/speed": "-1",
        f"{net}/veth1/operstate": "down",
        "sys/drivers/mlx5_core/x": "",
        f"{ib}/rate": "200 Gb/sec (4X HDR)",
        f"{ib}/link_layer": "InfiniBand",
    }
    tree(tmp_path, files)
    (tmp_path / net / "eth0/device").mkdir()
    (tmp_path / net / "eth0/device/driver").symlink_to(tmp_path / "sys/drivers/mlx5_core")
    assert topology.topology(tmp_path)["network"] == {
        "interfaces": [
            {"name": "eth0", "state": "up", "megabits_per_second": 25000, "driver": "mlx5_core"},
            {"name": "veth1", "state": "down", "megabits_per_second": None, "driver": None},
        ],
        "infiniband": [
            {
                "device": "mlx5_0",
                "port": "1",
                "link_layer": "InfiniBand",
                "rate": "200 Gb/sec (4X HDR)",
            }
        ],
    }


def test_this_machine():
    facts = topology.topology()
    json.dumps(facts)
    assert facts["kernel"] == os.uname().release
    assert facts["cpu"]["threads"] == psutil.cpu_count()
    assert facts["memory_bytes"] == psutil.virtual_memory().total


def test_writing_never_fails(tmp_path, monkeypatch):
    topology.write(tmp_path / "no folder")
    monkeypatch.setattr(topology, "topology", lambda: 1 / 0)
    topology._cached_topology.cache_clear()
    topology.write(tmp_path)
    topology._cached_topology.cache_clear()
    assert "ZeroDivisionError" in json.loads(Path(tmp_path / "topology.json").read_text())["error"]


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        (
            "0::/job",
            {"sys/fs/cgroup/job/memory.events": "oom 9\noom_kill 2", "proc/vmstat": "oom_kill 7"},
            2,
        ),
        (
            "4:memory:/job",
            {"sys/fs/cgroup/memory/job/memory.oom_control": "under_oom 0\noom_kill 3"},
            3,
        ),
        (
            "0::/host/path",
            {"sys/fs/cgroup/memory.events": "oom_kill 4", "proc/vmstat": "oom_kill 7"},
            4,
        ),
        (
            "0::/",
            {"sys/fs/cgroup/cgroup.controllers": "", "proc/vmstat": "nr_free_pages 5\noom_kill 7"},
            7,
        ),
        (
            "4:memory:/\n0::/",
            {"sys/fs/cgroup/memory/memory.oom_control": "oom_kill 1", "proc/vmstat": "oom_kill 7"},
            1,
        ),
        ("0::/", {"proc/vmstat": "oom_kill many"}, 0),
        ("", {}, 0),
    ],
)
def test_kills_for_memory_are_counted_in_the_control_group_of_the_process(
    tmp_path, groups, files, expected
):
    """Check which counter is read. On a shared machine the kernel may kill unrelated processes."""
    assert oom_kills(tree(tmp_path, {"proc/self/cgroup": groups, **files})) == expected
