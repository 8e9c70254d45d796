"""Select devices according to CUDA_VISIBLE_DEVICES.

This module imports only the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

VARIABLE = "CUDA_VISIBLE_DEVICES"
NULL_DEVICE = "null device"
"""Substring in the name of a stub GPU that computes nothing (tests/gpu_paths). It is also the
label of runs on this GPU, whose results are meaningless.
"""


class UnusableGpuError(ValueError):
    """Error for a selected GPU that cannot be used.

    Args:
        problem: The GPU and the reason.
        remedy: The setting that the user should change.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem, self.remedy = problem, remedy


def chosen(uuids: Mapping[int, str]) -> list[int]:
    """Return the indices of the devices in the inherited CUDA_VISIBLE_DEVICES.

    The indices are in the order of CUDA_VISIBLE_DEVICES. If the variable is not set, all devices
    are returned. An entry is an index, a UUID, or a prefix of a UUID (`GPU-8932f937`) that matches
    a single device.

    Args:
        uuids: UUID of each device, by index.

    Raises:
        UnusableGpuError: An entry is a partition of a device (MIG), which the suite does not
            support.
    """
    visible = os.environ.get(VARIABLE)
    if visible is None:
        return list(uuids)
    numbers: list[int] = []
    for entry in map(str.strip, visible.split(",")):
        if entry.startswith("MIG-"):
            raise UnusableGpuError(
                f"{VARIABLE}={visible}: parts of GPUs (MIG) are not supported",
                f"export {VARIABLE} with indices or UUIDs of whole GPUs (0 or GPU-…), or set"
                " device=cpu",
            )
        if entry.isdecimal():
            matching = [int(entry)] if int(entry) in uuids else []
        else:
            matching = [
                number
                for number, uuid in uuids.items()
                if entry.startswith("GPU-") and uuid.startswith(entry)
            ]
        if len(matching) != 1:  # like CUDA, stop at the first entry that is not a device
            break
        numbers += matching
    return numbers


IN_PARTS = "is partitioned with MIG, which is not supported"


def no_answer(number: int, numbers: Sequence[int], why: str) -> UnusableGpuError:
    """Return the error for a device that does not respond.

    The device is lost, or the driver cannot find it.

    Args:
        number: Index of the device.
        numbers: Indices of all selected devices.
        why: Error message of the driver.
    """
    return unusable(number, numbers, f"does not answer ({why})")


def unusable(number: int, numbers: Sequence[int], why: str) -> UnusableGpuError:
    """Return the error for an unusable device, with the settings that avoid the device.

    Args:
        number: Index of the device.
        numbers: Indices of all selected devices.
        why: Reason as a predicate, such as `IN_PARTS`.
    """
    remaining = ",".join(str(index) for index in numbers if index != number)
    leave_out = f"export {VARIABLE}={remaining} to leave it out, or " if remaining else ""
    return UnusableGpuError(f"GPU {number} {why}", f"{leave_out}set device=cpu to run without GPUs")
