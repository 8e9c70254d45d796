"""PyTorch: one process per device.

Rank 0 hosts the rendezvous store (workloads/frameworks/pytorch/store.py).

The suite does not use torchrun, for three reasons. The rendezvous store of torchrun listens on all
interfaces. The agents of torchrun leave folders in TMPDIR. The controller detects dead workers
without torchrun.
"""

from __future__ import annotations

from suite.common.runspec import Host, RunSpec
from suite.launch.base import (
    Command,
    Framework,
    arithmetic_variables,
    malloc_variables,
    omp_spin_env,
    server_commands,
    server_variables,
    thread_variables,
    worker,
)
from suite.launch.hosts import Rendezvous

MALLOC_TUNABLES = (
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"
)
"""malloc tunables that keep freed memory in the process.

PyTorch's CPU allocator is malloc. By default, malloc returns the memory of large activations to the
system after every use, and requests new pages for the next activation. With these tunables,
ResNet-50 on two cores trained 1.16 times as fast in fp32 (two rounds) and 1.5 times as fast in bf16
(one round) as with malloc's defaults, on a noisy machine.
"""

BUILD_QUERY = """
import json, torch
built = torch._C._cuda_getArchFlags() or ""  # get_arch_list() is empty if no GPU is visible
print(json.dumps([torch.__version__, torch.version.cuda, torch.cuda.is_available(), built.split()]))
"""


def _commands(run: RunSpec, run_file: str, rendezvous: Rendezvous, host: Host) -> list[Command]:
    env = {
        **thread_variables(run.settings.cores_per_device),
        **omp_spin_env(run),
        **malloc_variables(run, MALLOC_TUNABLES),
        **arithmetic_variables(run),
        **server_variables(run, rendezvous),
        "MASTER_ADDR": rendezvous.master_address,
        "MASTER_PORT": str(rendezvous.master_port),
    }
    worker_commands = [
        worker(process, run.settings.devices, run_file, env) for process in host.replicas
    ]
    return [*server_commands(run, run_file, rendezvous, host), *worker_commands]


PYTORCH = Framework(
    name="pytorch",
    environments={"cpu": "torch", "cuda": "torch"},
    other_gpu_environments=("torch-cu126",),
    packages=("torch",),
    processes=lambda devices, device: devices,
    commands=_commands,
    static_work_split=True,
    title="PyTorch",
    colour=1,
    tuning_variables=("TORCH_", "PYTORCH_"),
    max_error_vs_float64={"sgd": 2.6e-7, "lars": 3.0e-7, "adam": 1.7e-7, "adamw": 2.9e-7},
    has_gpu_kernels=True,
    build_info_script=BUILD_QUERY,
)
