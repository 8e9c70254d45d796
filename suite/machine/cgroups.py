"""Resource limits that a container or a scheduler sets for this process.

The limits are the CPU quota and the memory limit of the process's control groups (v1 and v2).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from suite.machine.sysfiles import counts, number, text

UNLIMITED_BYTES = 1 << 60
"""Memory limits of this size or larger mean "no limit". If no limit is set, cgroup v1 reports the
largest multiple of the page size below 2^63.
"""


@dataclass(frozen=True)
class Limits:
    """The lowest limits among a control group and its parents.

    Limits that are not set are None.
    """

    version: int | None = None
    """Version of the control groups (1 or 2), or None if no control groups are visible."""
    cpu_quota_cores: float | None = None
    memory_limit_bytes: int | None = None
    memory_free_bytes: int | None = None
    """Free memory in bytes within the lowest memory limit.

    File pages that the kernel can reclaim count as free memory.
    """


def limits(root: Path = Path("/")) -> Limits:
    """Return the resource limits of this process.

    Args:
        root: Folder that contains /proc and /sys.
    """
    version, cpu, memory = _folders(root)
    if version is None:
        return Limits()
    if version == 2:
        names, quotas = ("memory.max", "memory.current", "inactive_file"), map(_quota_v2, cpu)
    else:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        quotas = map(_quota_v1, cpu)
    memory_rows = [_memory(folder, *names) for folder in memory]
    return Limits(
        version,
        min((quota for quota in quotas if quota is not None), default=None),
        min((limit for limit, _ in memory_rows if limit is not None), default=None),
        min((free for _, free in memory_rows if free is not None), default=None),
    )


def container(root: Path = Path("/")) -> str | None:
    """Return the container program in which this process runs, or None.

    Args:
        root: Root folder of the file system.
    """
    for variable, kind in (
        ("APPTAINER_CONTAINER", "apptainer"),
        ("SINGULARITY_CONTAINER", "apptainer"),
        ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ):
        if os.environ.get(variable):
            return kind
    for file, kind in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (root / file).exists():
            return kind
    return text(root / "run/systemd/container") or None


def _groups(root: Path) -> dict[str, str]:
    """Map each control-group controller to the path of this process's group.

    The name of the unified hierarchy (v2) is an empty string.
    """
    groups = {}
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _folders(root: Path) -> tuple[int | None, list[Path], list[Path]]:
    """Return the version and the folders of this process's control groups.

    The lists also contain the folders of all parent groups.

    Returns:
        Version, folders of the CPU controller, and folders of the memory controller. If no control
        groups exist, the version is None and both lists are empty.
    """
    groups, mount = _groups(root), root / "sys/fs/cgroup"
    if "" in groups and (mount / "cgroup.controllers").exists():
        folders = list(_upwards(mount, groups[""]))
        return 2, folders, folders
    if not {"cpu", "memory"} & groups.keys():
        return None, [], []
    cpu, memory = (
        list(_upwards(mount / name, groups.get(name, "/"))) for name in ("cpu", "memory")
    )
    return 1, cpu, memory


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """Yield the folders of a group and its parents, up to the mount point.

    Folders that do not exist are skipped, because a path that a container reports may be a path of
    the host.
    """
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:count])
        if folder.is_dir():
            yield folder


def _quota_v2(folder: Path) -> float | None:
    fields = (text(folder / "cpu.max") or "max").split()
    return int(fields[0]) / int(fields[1]) if len(fields) == 2 and fields[0].isdigit() else None


def _quota_v1(folder: Path) -> float | None:
    quota, period = number(folder / "cpu.cfs_quota_us"), number(folder / "cpu.cfs_period_us")
    return quota / period if quota is not None and quota > 0 and period else None


def _memory(
    folder: Path, limit_name: str, used_name: str, cache_name: str
) -> tuple[int | None, int | None]:
    """Return the memory limit and the free memory of a control group in bytes."""
    limit, used = number(folder / limit_name), number(folder / used_name)
    if limit is None or limit >= UNLIMITED_BYTES:
        return None, None
    if used is None:
        return limit, None
    return limit, max(0, limit - used + counts(folder / "memory.stat").get(cache_name, 0))


def oom_kills(root: Path = Path("/")) -> int:
    """Return the number of processes that the kernel killed for lack of memory.

    The number is that of this process's control group. If the control group does not count killed
    processes, the number of killed processes of the machine since boot is returned. If the machine
    does not count killed processes either, 0 is returned.

    Args:
        root: Folder that contains /proc and /sys.
    """
    groups = _groups(root)
    files = []
    if "" in groups:
        files.append(next(_upwards(root / "sys/fs/cgroup", groups[""]), root) / "memory.events")
    if "memory" in groups:
        files.append(
            next(_upwards(root / "sys/fs/cgroup/memory", groups["memory"]), root)
            / "memory.oom_control"
        )
    kills = (counts(file).get("oom_kill") for file in (*files, root / "proc/vmstat"))
    return next((count for count in kills if count is not None), 0)


def quota_periods(root: Path = Path("/")) -> tuple[int, int] | None:
    """Return the number of CPU quota periods, and the number of throttled periods.

    In a throttled period, the quota stopped the control group. Both numbers are those of the
    control group that was throttled most often, among this process's group and its ancestors. The
    function returns None if no quota is set.

    Args:
        root: Folder that contains /proc and /sys.
    """
    stats = (counts(folder / "cpu.stat") for folder in _folders(root)[1])
    periods = [
        (stat["nr_periods"], stat.get("nr_throttled", 0))
        for stat in stats
        if stat.get("nr_periods")
    ]
    return max(periods, key=lambda pair: pair[1], default=None)
