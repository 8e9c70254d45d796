"""What `-m` without `gpus=` runs: a reference sweep the default of conf/config.yaml, a demo what this machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

from suite.config.overrides import CONF
from suite.machine import devices

MOST_OF_A_DEMO = 8
"""Devices up to which a demo is swept: the batch of the smallest demo still divides by it."""
_SWEEPER = "hydra.sweeper.params"


def default_gpus(words: Mapping[str, Sequence[Any]]) -> tuple[str, str]:
    """(the override to add, what is said about it), both empty where the user chose the devices.

    `words`: key to the values that the command line gives it.
    """
    if "gpus" in words or any(key.startswith(_SWEEPER) for key in words):
        return "", ""
    only_demos = {str(value) for value in words.get("profile", ())} == {"demo"}
    if only_demos and True not in words.get("oversubscribe", ()):
        counts = ",".join(map(str, counts_up_to(_most(words))))
        return f"gpus={counts}", f"-m without gpus: gpus={counts}, what this machine has; type gpus=… for others"
    shipped = OmegaConf.select(OmegaConf.load(CONF / "config.yaml"), f"{_SWEEPER}.gpus")
    said = f"-m without gpus: gpus={shipped}, the default of conf/config.yaml; type gpus=… for others"
    return ("", said) if shipped is not None else ("", "")


def counts_up_to(most: int) -> list[int]:
    """1, 2, 4, 8 as far as `most` goes."""
    return [count for count in (1, 2, 4, MOST_OF_A_DEMO) if count <= max(1, most)]


def divides(config: Mapping[str, Any]) -> bool:
    """Whether the devices can be dealt out to the machines equally."""
    return bool(config["gpus"] % config["nodes"] == 0)


def left_out(configs: Sequence[Mapping[str, Any]]) -> str:
    """What is said about the pairs of a sweep that do not divide; empty where all do. Raises ValueError where none does."""
    pairs = dict.fromkeys(f"gpus={one['gpus']} nodes={one['nodes']}" for one in configs if not divides(one))
    if pairs and not any(divides(one) for one in configs):
        raise ValueError(f"-m: gpus must divide by nodes, and {', '.join(pairs)} do not; type others")
    return f"left out, since gpus must divide by nodes: {', '.join(pairs)}" if pairs else ""


def _most(words: Mapping[str, Sequence[Any]]) -> int:
    """Devices that this machine has for the command: GPUs, else cores in groups of what makes a device."""
    gpus = [] if "cpu" in words.get("device", ()) else devices.gpus()
    each = max([int(value) for value in words.get("cpu.cores_per_device", ()) if str(value).isdecimal()], default=1)
    return len(gpus) or len(devices.cpu_cores()) // max(1, each)
