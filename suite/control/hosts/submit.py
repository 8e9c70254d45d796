"""`launch=slurm` outside an allocation: the same command as one job of sbatch."""

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
    """Submit; returns what to print: the job, and how to follow it. Raises ValueError with sbatch's own words.

    A job that SLURM starts again, after a preemption or a lost machine, goes on with what is missing in `output`.
    """
    made_folders = [folder for folder in (output, *output.parents) if not folder.exists()]
    output.mkdir(parents=True, exist_ok=True)
    log, own, wrong = output / "slurm-%j.log", map(str, configs[0].launch.slurm.sbatch), ""
    words = ["sbatch", "--parsable", *_asked_for(configs), f"--output={log}", *own]
    try:
        done = subprocess.run(words, input=script(arguments, output), capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            wrong = f"{lines[-1]}; the words for it are those of launch.slurm.sbatch=[…]"
    except FileNotFoundError:
        wrong = "sbatch is not installed here, and there is no allocation (salloc)"
    except subprocess.TimeoutExpired:
        wrong = "sbatch does not answer within 60 s"
    if wrong:
        for folder in made_folders:
            folder.rmdir()
        raise ValueError(f"launch=slurm: {wrong}")
    number = done.stdout.strip().partition(";")[0]
    followed = str(log).replace("%j", number)
    follow = [f"  squeue -j {number}", f"  tail -F {followed}", f"  scancel {number}"]
    return [f"submitted as job {number}; it writes to {followed}", *follow]


def script(arguments: Sequence[str], output: Path) -> str:
    """What the job runs on its first machine. `exec`: signals reach the controller itself."""
    kept = [
        word
        for word in arguments
        if word.partition("=")[0] not in ("output", "resume", "launch", "launch.slurm.sbatch")
    ]
    command = [sys.executable, str(PROJECT / "run_suite.py"), *kept, "launch=slurm", f"output={output}", "resume=true"]
    return f"#!/bin/sh\ncd {shlex.quote(os.getcwd())} || exit 1\nexec {shlex.join(command)}\n"


def _asked_for(configs: Sequence[RunConfig]) -> list[str]:
    """`launch.slurm.sbatch` comes after it and wins."""
    need = need_of(configs)
    words = [f"--nodes={need.nodes}", "--ntasks-per-node=1", "--job-name=time-to-target"]
    if any(config.checkpoint.when != "off" for config in configs):
        words.append("--requeue")  # it goes on from there
    if need.gpus:
        return [*words, f"--gpus-per-node={need.devices}"]
    return [*words, f"--cpus-per-task={need.cores}" if need.cores else "--exclusive"]


@dataclass(frozen=True)
class Need:
    """What a command needs of a scheduler."""

    nodes: int
    """Machines, of the largest job."""
    devices: int
    """Of each machine, of the job that needs the most there."""
    gpus: bool
    """Whether devices are GPUs."""
    cores: int
    """That the devices of a machine take; 0: all of them, or they are GPUs."""


def need_of(configs: Sequence[RunConfig]) -> Need:
    """What all jobs of a command can run on."""
    each = max(config.gpus // config.nodes for config in configs)
    gpus = any(config.device == "cuda" or needs_gpus(config) for config in configs)
    cores = [config.cpu.cores_per_device for config in configs]
    most = 0 if gpus or "all" in cores else each * max(map(int, cores))
    return Need(max(config.nodes for config in configs), each, gpus, most)


def needs_gpus(config: RunConfig) -> bool:
    """Whether `device=auto` means GPUs, wherever it runs."""
    return bool(config.device == "auto" and config.profile.name == "reference")
