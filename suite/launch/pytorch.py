"""PyTorch: one process per device, started by `torch.distributed.run` (torchrun)."""

from __future__ import annotations

from suite.common.run_folder import safe_name
from suite.common.runspec import RunSpec
from suite.launch.base import (
    WORKER,
    Command,
    Framework,
    malloc_variables,
    server_commands,
    server_variables,
    thread_variables,
    waiting_variables,
)
from suite.launch.hosts import Host, Rendezvous

MALLOC_TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"
"""PyTorch's CPU allocator is malloc, which gives the memory of large activations back to the system after every use and takes
fresh pages for the next. With these it keeps them: ResNet-50 on two cores trained 1.16 times as fast in fp32
(two rounds), 1.5 in bf16 (one), on a noisy machine."""


def _commands(run: RunSpec, run_file: str, rendezvous: Rendezvous, host: Host) -> list[Command]:
    alone = len(rendezvous.hosts) == 1
    arguments = (
        *("-m", "torch.distributed.run"),
        *("--nnodes", str(len(rendezvous.hosts))),
        *(() if alone else ("--node-rank", str(rendezvous.hosts.index(host)))),
        *("--nproc-per-node", str(len(host.replicas))),
        *("--master-addr", rendezvous.master_address),
        *("--master-port", str(rendezvous.master_port)),
        *("--max-restarts", "0"),
        *WORKER,
        run_file,
    )
    variables = {
        **thread_variables(run.settings.cores_per_device),
        **waiting_variables(run),
        **malloc_variables(run, MALLOC_TUNABLES),
        **server_variables(run, rendezvous),
    }
    launcher = Command("launcher" if alone else f"launcher-{safe_name(host.name)}", arguments, variables)
    return [*server_commands(run, run_file, rendezvous, host), launcher]


PYTORCH = Framework(
    name="pytorch",
    environments={"cpu": "torch", "cuda": "torch"},
    packages=("torch",),
    processes=lambda devices, device: devices,
    commands=_commands,
    equal_shares=True,
    linear_module="workloads.frameworks.pytorch.linear.choice",
)
