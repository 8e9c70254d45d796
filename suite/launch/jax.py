"""JAX: one process per device.

The processes connect to each other through `jax.distributed` (workloads/frameworks/jax/trainer.py).
"""

from __future__ import annotations

from suite.common.runspec import Host, RunSpec
from suite.launch.base import (
    WITHOUT_PROXY,
    Command,
    Framework,
    arithmetic_variables,
    malloc_variables,
    thread_variables,
    worker,
)
from suite.launch.hosts import Rendezvous
from suite.launch.pytorch import MALLOC_TUNABLES

ADDRESS_VARIABLE = "SUITE_JAX_ADDRESS"
"""Environment variable with the address at which all other processes reach this process."""


def _commands(run: RunSpec, run_file: str, rendezvous: Rendezvous, host: Host) -> list[Command]:
    """Return the commands of a host's workers.

    The workers use PyTorch's malloc tunables, because XLA allocates memory at the beginning of a
    step and frees the memory at the end of the step. On two cores, the Transformer demo trained
    1.36 times as fast with the tunables as without the tunables, and ResNet-50 trained 1.1 times as
    fast (one round, noisy machine).
    """
    variables = {
        **thread_variables(run.settings.cores_per_device),
        **malloc_variables(run, MALLOC_TUNABLES),
        "MASTER_ADDR": rendezvous.master_address,
        "MASTER_PORT": str(rendezvous.master_port),
        ADDRESS_VARIABLE: host.address,
        **WITHOUT_PROXY,
        **arithmetic_variables(run),
        "JAX_PLATFORMS": "cpu" if run.settings.device == "cpu" else "cuda,cpu",
    }
    return [worker(process, run.settings.devices, run_file, variables) for process in host.replicas]


JAX = Framework(
    name="jax",
    environments={"cpu": "jax", "cuda": "jax-cuda"},
    packages=("jax",),
    processes=lambda devices, device: devices,
    commands=_commands,
    title="JAX",
    colour=3,
    tuning_variables=("JAX_",),
    max_error_vs_float64={"sgd": 2.1e-7, "lars": 2.6e-7, "adam": 2.7e-7, "adamw": 2.7e-7},
)
