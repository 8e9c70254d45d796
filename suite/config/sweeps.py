"""Default sweep of `-m`, which applies if no key has several values.

Reference runs sweep over 1, 4, and 8 devices. Demos sweep up to the number of devices of this
machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suite.common.run_config import RunConfig
from suite.machine import devices

REFERENCE = (1, 4, 8)
"""Device counts of a reference sweep, as in the DGX-1 scaling article."""
MAX_DEMO_DEVICES = 8
"""Maximum number of devices in a demo sweep. The batch size of the smallest demo is divisible by
`MAX_DEMO_DEVICES`.
"""


def default_gpus(
    overrides: Mapping[str, Sequence[str]], config: RunConfig
) -> tuple[list[str], str]:
    """Return the default sweep over numbers of devices.

    Args:
        overrides: Maps each key on the command line to its values.
        config: Configuration of the first job, including the user's files.

    Returns:
        The override to add, and a note about the override. The override and the note are empty if
        the user sets the number of devices or sweeps over any key.

    Raises:
        ValueError: The command resumes a sweep but does not set its numbers of devices. The default
            numbers depend on the machine, so they could add runs to the resumed sweep.
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
    """Return those of the numbers of devices 1, 2, 4, and 8 that are at most `most`.

    The list always contains 1.
    """
    return [count for count in (1, 2, 4, MAX_DEMO_DEVICES) if count <= max(1, most)]


def divides(config: RunConfig) -> bool:
    """Check whether the number of devices is divisible by the number of machines."""
    return bool(config.gpus % config.nodes == 0)


def left_out(configs: Sequence[RunConfig]) -> str:
    """Return a note about the skipped jobs of a sweep, or an empty string.

    A job is skipped if its number of devices is not divisible by its number of machines.

    Raises:
        ValueError: All jobs would be skipped.
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
    """Return the maximum number of devices on this machine.

    With GPUs, the maximum is the number of GPUs. Without GPUs, the maximum is the number of CPU
    cores divided by the cores per device.
    """
    gpus, each = [] if config.device == "cpu" else devices.gpus(), str(config.cpu.cores_per_device)
    return len(gpus) or len(devices.cpu_cores()) // max(1, int(each) if each.isdecimal() else 1)
