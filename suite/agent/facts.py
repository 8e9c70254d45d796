"""What a machine says of itself before a run."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from typing import Any

from suite import __version__
from suite.launch import network, private_network
from suite.machine.sysfiles import cpu_model
from suite.machine.visible import IN_PARTS, chosen, no_answer, unusable

GPU_SECONDS = 30.0
"""How long the driver may take to answer."""
GPU_QUERY = ("--query-gpu=index,uuid,name,memory.total,compute_cap,mig.mode.current", "--format=csv,noheader,nounits")


def facts() -> dict[str, Any]:
    """Name, addresses, cores, why its GPUs cannot be used, and under `hardware` what `suite.machine.devices.hardware` gives."""
    cores = sorted(os.sched_getaffinity(0))
    visible, fault = [], ""
    try:
        visible = gpus()
    except ValueError as error:
        fault = str(error)
    step = [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    return {
        "name": platform.node(),
        "pid": os.getpid(),
        "suite": __version__,
        "python": platform.python_version(),
        "addresses": network.addresses(),
        "cores": cores,
        "slurm_step": ".".join(step) if all(step) else "",
        "gpu_fault": fault,
        "private_network_fault": private_network.unavailable_reason(),
        "hardware": {
            "host": platform.node(),
            "cpu_model": cpu_model() or platform.processor() or platform.machine(),
            "cpu_cores": len(cores),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "gpus": visible,
            "os": platform.platform(),
        },
    }


def gpus() -> list[dict[str, Any]]:
    """NVIDIA devices inside the inherited CUDA_VISIBLE_DEVICES, in its order; of nvidia-smi, since NVML needs a package.

    Raises ValueError for one that does not answer.
    """
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
    uuids: dict[int, str] = {}
    said: dict[int, list[str]] = {}
    for line in done.stdout.splitlines():  # also where it fails: it does for one device that is lost among others
        index, *words = (word.strip() for word in line.split(","))
        if index.isdecimal() and words:
            uuids[int(index)], said[int(index)] = words[0], words
    numbers, kept = chosen(uuids), []
    for number in numbers:
        try:
            _, name, memory_mib, capability, parts = said[number]
            kept.append({"name": name, "memory_bytes": int(memory_mib) << 20, "capability": capability})
        except ValueError:  # `[N/A]`, `[GPU is lost]`
            raise no_answer(number, numbers, ", ".join(said[number])) from None
        if parts == "Enabled":
            raise unusable(number, numbers, IN_PARTS)
    return kept
