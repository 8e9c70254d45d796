"""Submit a command with `launch=slurm` outside an allocation as an sbatch job."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.common.paths import PROJECT
from suite.common.run_config import RunConfig


def submit(arguments: Sequence[str], configs: Sequence[RunConfig], output: Path) -> list[str]:
    """Submit a command to SLURM.

    SLURM may restart the job after a preemption or the loss of a machine. The restarted job starts
    only the runs that are missing in `output`.

    Args:
        arguments: Arguments of the command.
        configs: Configuration of each job.
        output: Folder of the runs.

    Returns:
        Lines to print, which contain the job id and the commands that follow or cancel the job.

    Raises:
        ValueError: sbatch is missing or failed. If sbatch failed, the message contains its error.
    """
    created_folders = [folder for folder in (output, *output.parents) if not folder.exists()]
    output.mkdir(parents=True, exist_ok=True)
    log, user_options, error = output / "slurm-%j.log", map(str, configs[0].launch.slurm.sbatch), ""
    argv = ["sbatch", "--parsable", *_resource_options(configs), f"--output={log}", *user_options]
    try:
        done = subprocess.run(
            argv, input=script(arguments, output), capture_output=True, text=True, timeout=60
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            error = f"{lines[-1]}. Set options of sbatch with launch.slurm.sbatch=[…]"
    except FileNotFoundError:
        error = "sbatch is not installed here, and there is no allocation (salloc)"
    except subprocess.TimeoutExpired:
        error = "sbatch does not answer within 60 s"
    if error:
        for folder in created_folders:
            folder.rmdir()
        raise ValueError(f"launch=slurm: {error}")
    number = done.stdout.strip().partition(";")[0]
    log_path = str(log).replace("%j", number)
    follow = [f"  squeue -j {number}", f"  tail -F {log_path}", f"  scancel {number}"]
    return [f"submitted as job {number}. It writes to {log_path}", *follow]


def script(arguments: Sequence[str], output: Path) -> str:
    """Return the script that SLURM runs on the first machine of the job.

    The script uses `exec`, so that the controller receives the signals that SLURM sends to the job.
    """
    kept = [
        word
        for word in arguments
        if word.partition("=")[0] not in ("output", "resume", "launch", "launch.slurm.sbatch")
    ]
    command = [
        sys.executable,
        str(PROJECT / "run_suite.py"),
        *kept,
        "launch=slurm",
        f"output={output}",
        "resume=true",
    ]
    return f"#!/bin/sh\ncd {shlex.quote(os.getcwd())} || exit 1\nexec {shlex.join(command)}\n"


def _resource_options(configs: Sequence[RunConfig]) -> list[str]:
    """Return the sbatch options that request the resources of the command.

    The options in `launch.slurm.sbatch` are appended later and take precedence.
    """
    need = required_resources(configs)
    options = [f"--nodes={need.nodes}", "--ntasks-per-node=1", "--job-name=time-to-target"]
    if any(config.checkpoint.when != "off" for config in configs):
        options.append("--requeue")  # a requeued job resumes from its checkpoints
    if need.gpus:
        return [*options, f"--gpus-per-node={need.devices}"]
    return [*options, f"--cpus-per-task={need.cores}" if need.cores else "--exclusive"]


@dataclass(frozen=True)
class SchedulerResources:
    """Resources that a command requests from a scheduler."""

    nodes: int
    """Maximum number of machines of any job."""
    devices: int
    """Maximum number of devices per machine of any job."""
    gpus: bool
    """True if the devices are GPUs."""
    cores: int
    """Number of CPU cores per machine for the devices. The number is 0 if all cores are used, or if
    the devices are GPUs.
    """


def required_resources(configs: Sequence[RunConfig]) -> SchedulerResources:
    """Return the resources that are sufficient for every job of a command."""
    devices = max(config.gpus // config.nodes for config in configs)
    gpus = any(config.device == "cuda" or needs_gpus(config) for config in configs)
    cores = [config.cpu.cores_per_device for config in configs]
    cores_per_node = 0 if gpus or "all" in cores else devices * max(map(int, cores))
    return SchedulerResources(
        max(config.nodes for config in configs), devices, gpus, cores_per_node
    )


def needs_gpus(config: RunConfig) -> bool:
    """Check whether `device=auto` selects GPUs on all machines."""
    return bool(config.device == "auto" and config.profile.name == "reference")
