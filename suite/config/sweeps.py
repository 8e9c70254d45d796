"""What `-m` runs where no key has several values: reference runs on 1, 4 and 8 devices, demos on what this machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suite.common.run_config import RunConfig
from suite.machine import devices

REFERENCE = (1, 4, 8)
"""Devices of a reference sweep: those of the DGX-1 scaling article."""
MAX_DEMO_DEVICES = 8
"""Devices up to which a demo is swept: the batch of the smallest demo still divides by it."""


def default_gpus(words: Mapping[str, Sequence[str]], config: RunConfig) -> tuple[list[str], str]:
    """(the word to add, what is said about it), both empty where the user chose the devices or sweeps over another key.

    words: key to the values that the command line gives it. config: of the first job, files of the user's included. Raises
    ValueError where a sweep is resumed without its devices: another machine would have others, and resuming never adds runs.
    """
    if "gpus" in words or config.gpus != 1 or any(len(values) > 1 for values in words.values()):
        return [], ""
    demo = config.profile.name == "demo" and not config.oversubscribe
    counts = ",".join(map(str, counts_up_to(_most(config)) if demo else REFERENCE))
    if config.resume:
        raise ValueError(f"resume=true: -m over which devices? type those that the sweep began with, gpus={counts}")
    why = "what this machine has" if demo else "as the reference sweep"
    return [f"gpus={counts}"], f"-m without a list of values: gpus={counts}, {why}; type gpus=… for others"


def counts_up_to(most: int) -> list[int]:
    """1, 2, 4, 8 as far as `most` goes."""
    return [count for count in (1, 2, 4, MAX_DEMO_DEVICES) if count <= max(1, most)]


def divides(config: RunConfig) -> bool:
    """Whether the devices can be dealt out to the machines equally."""
    return bool(config.gpus % config.nodes == 0)


def left_out(configs: Sequence[RunConfig]) -> str:
    """What is said about the pairs of a sweep that do not divide; empty where all do. Raises ValueError where none does."""
    pairs = dict.fromkeys(f"gpus={one.gpus} nodes={one.nodes}" for one in configs if not divides(one))
    if pairs and not any(divides(one) for one in configs):
        raise ValueError(f"-m: gpus must divide by nodes, and {', '.join(pairs)} do not; type others")
    return f"left out, since gpus must divide by nodes: {', '.join(pairs)}" if pairs else ""


def _most(config: RunConfig) -> int:
    """Devices that this machine has for the command: GPUs, else cores in groups of what makes a device."""
    gpus, each = [] if config.device == "cpu" else devices.gpus(), str(config.cpu.cores_per_device)
    return len(gpus) or len(devices.cpu_cores()) // max(1, int(each) if each.isdecimal() else 1)
