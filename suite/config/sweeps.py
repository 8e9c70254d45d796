"""Default sweep of `-m` if no key has several values.

Reference runs use 1, 4, and 8 devices. Demos use up to as many devices as this machine has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suite.common.run_config import RunConfig
from suite.machine import devices

REFERENCE = (1, 4, 8)
"""Device counts of a reference sweep, as in the DGX-1 scaling article."""
MAX_DEMO_DEVICES = 8
"""Largest device count of a demo sweep. The batch size of the smallest demo is divisible by it."""


def default_gpus(
    overrides: Mapping[str, Sequence[str]], config: RunConfig
) -> tuple[list[str], str]:
    """Return the default sweep over device counts.

    Args:
        overrides: Key to its values on the command line.
        config: Configuration of the first job, including the user's files.

    Returns:
        The override to add and a note about it. Both are empty if the user sets the devices or
        sweeps over a key.

    Raises:
        ValueError: A sweep is resumed without its device counts. The default depends on the
            machine, and resuming a sweep must not add runs.
    """
    if (
        "gpus" in overrides
        or config.gpus != 1
        or any(len(values) > 1 for values in overrides.values())
    ):
        return [], ""
    demo = config.profile.name == "demo" and not config.oversubscribe
    counts = ",".join(map(str, counts_up_to(_most(config)) if demo else REFERENCE))
    if config.resume:
        raise ValueError(
            "resume=true: set the device counts with which the sweep was started, for example"
            f" gpus={counts}"
        )
    why = "the devices of this machine" if demo else "as in the reference sweep"
    return (
        [f"gpus={counts}"],
        (
            f"-m without a list of values: gpus={counts}, {why}. Set gpus=… for different device"
            " counts"
        ),
    )


def counts_up_to(most: int) -> list[int]:
    """Return the device counts 1, 2, 4, and 8 up to `most`, at least 1."""
    return [count for count in (1, 2, 4, MAX_DEMO_DEVICES) if count <= max(1, most)]


def divides(config: RunConfig) -> bool:
    """Check whether the number of devices is divisible by the number of machines."""
    return bool(config.gpus % config.nodes == 0)


def left_out(configs: Sequence[RunConfig]) -> str:
    """Return a note about the jobs of a sweep whose devices are not divisible by their machines.

    Returns an empty string if there are no such jobs.

    Raises:
        ValueError: No job has a number of devices that is divisible by the number of machines.
    """
    pairs = dict.fromkeys(
        f"gpus={config.gpus} nodes={config.nodes}" for config in configs if not divides(config)
    )
    if pairs and not any(divides(config) for config in configs):
        raise ValueError(
            f"-m: gpus must be divisible by nodes, unlike {', '.join(pairs)}. Set different values"
        )
    return f"skipped because gpus must be divisible by nodes: {', '.join(pairs)}" if pairs else ""


def _most(config: RunConfig) -> int:
    """Return the number of devices of this machine.

    These are its GPUs, or else its cores divided by the cores per device.
    """
    gpus, each = [] if config.device == "cpu" else devices.gpus(), str(config.cpu.cores_per_device)
    return len(gpus) or len(devices.cpu_cores()) // max(1, int(each) if each.isdecimal() else 1)
