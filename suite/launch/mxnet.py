"""MXNet: one process drives all devices of a node, one context each, joined by a KVStore."""

from __future__ import annotations

from suite.launch.base import WORKER, Command, Framework, thread_variables
from suite.runspec import RunSpec


def single_process(run: RunSpec, run_file: str) -> list[Command]:
    """One worker that holds every replica."""
    variables = {**thread_variables(run.settings.cores_per_device), "RANK": "0", "WORLD_SIZE": "1"}
    return [Command("worker-0", (*WORKER, run_file), variables)]


MXNET = Framework(
    name="mxnet",
    environments={"cpu": "mxnet-cpu", "cuda": "mxnet-cuda"},
    packages=("mxnet", "mxnet-cu112"),
    processes=lambda devices: 1,
    commands=single_process,
)
