"""What a machine says of itself before a run."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from typing import Any

from suite import __version__
from suite.launch import network
from suite.machine.sysfiles import cpu_model

GPU_SECONDS = 30.0
"""How long the driver may take to answer."""
GPU_QUERY = ("--query-gpu=index,name,memory.total,compute_cap", "--format=csv,noheader,nounits")


def facts() -> dict[str, Any]:
    """Name, addresses, cores, and under `hardware` what `suite.machine.devices.hardware` gives."""
    cores = sorted(os.sched_getaffinity(0))
    step = [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    return {
        "name": platform.node(),
        "pid": os.getpid(),
        "suite": __version__,
        "python": platform.python_version(),
        "addresses": network.addresses(),
        "cores": cores,
        "slurm_step": ".".join(step) if all(step) else "",
        "hardware": {
            "host": platform.node(),
            "cpu_model": cpu_model() or platform.processor() or platform.machine(),
            "cpu_cores": len(cores),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "gpus": gpus(),
            "os": platform.platform(),
        },
    }


def gpus() -> list[dict[str, Any]]:
    """NVIDIA devices inside the inherited CUDA_VISIBLE_DEVICES, in its order; of nvidia-smi, since NVML needs a package."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *GPU_QUERY],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GPU_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = {}
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        index, name, memory_mib, capability = (word.strip() for word in line.split(","))
        found[index] = {"name": name, "memory_bytes": int(memory_mib) << 20, "capability": capability}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = list(found) if visible is None else [word.strip() for word in visible.split(",")]
    kept = []
    for index in chosen:  # CUDA stops at the first entry that is not a device
        if index not in found:
            break
        kept.append(found[index])
    return kept
