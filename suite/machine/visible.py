"""Select devices according to CUDA_VISIBLE_DEVICES.

This module imports only the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

VARIABLE = "CUDA_VISIBLE_DEVICES"
NULL_DEVICE = "null device"
"""Substring in the name of the stub GPU of tests/gpu_paths, which does not execute kernels. Runs on
the stub GPU have a label with the same text, because their results are meaningless.
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

    The indices have the order of CUDA_VISIBLE_DEVICES. If the variable is not set, the indices of
    all devices are returned. CUDA_VISIBLE_DEVICES lists devices by index, by UUID, or by a prefix
    of a UUID (`GPU-8932f937`) that matches a single device.

    Args:
        uuids: UUID of each device, by index.

    Raises:
        UnusableGpuError: CUDA_VISIBLE_DEVICES contains a MIG partition of a device, which the suite
            does not support.
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
        if len(matching) != 1:  # CUDA ignores all entries after the first invalid entry
            break
        numbers += matching
    return numbers


IN_PARTS = "is partitioned with MIG, which is not supported"


def no_answer(number: int, numbers: Sequence[int], why: str) -> UnusableGpuError:
    """Return the error for a device that does not respond.

    The GPU fell off the bus, or the driver cannot find the GPU.

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
        why: Predicate of the error message, such as `is partitioned with MIG, which is not
            supported`.
    """
    remaining = ",".join(str(index) for index in numbers if index != number)
    leave_out = f"export {VARIABLE}={remaining} to leave it out, or " if remaining else ""
    return UnusableGpuError(f"GPU {number} {why}", f"{leave_out}set device=cpu to run without GPUs")
