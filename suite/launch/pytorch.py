"""PyTorch: one process per device, started by `torch.distributed.run` (torchrun)."""

from __future__ import annotations

from suite.launch.base import WORKER, Command, Framework, free_ports, thread_variables
from suite.runspec import RunSpec


def _commands(run: RunSpec, run_file: str) -> list[Command]:
    arguments = (
        *("-m", "torch.distributed.run"),
        *("--nnodes", "1"),
        *("--nproc-per-node", str(run.settings.devices_total)),
        *("--master-addr", "127.0.0.1"),
        *("--master-port", str(free_ports(1)[0])),
        *("--max-restarts", "0"),
        *WORKER,
        run_file,
    )
    return [Command("launcher", arguments, thread_variables(run.settings.cores_per_device))]


PYTORCH = Framework(
    name="pytorch",
    environments={"cpu": "torch", "cuda": "torch"},
    packages=("torch",),
    processes=lambda devices: devices,
    commands=_commands,
)
