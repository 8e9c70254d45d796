"""Which devices CUDA_VISIBLE_DEVICES leaves of those that the driver lists. Standard library only: agents use it too."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

VARIABLE = "CUDA_VISIBLE_DEVICES"
NULL_DEVICE = "null device"
"""In the name of a GPU that computes nothing (tests/gpu_paths), and the label of its runs: their numbers mean nothing."""


def chosen(uuids: Mapping[int, str]) -> list[int]:
    """Numbers of the devices inside the inherited CUDA_VISIBLE_DEVICES, in its order; all of `uuids` where it is not set.

    An entry is a number, or a UUID or the beginning of one (`GPU-8932f937`) that no other device has. Raises ValueError for a
    part of a device (MIG), on which nothing here runs.
    """
    visible = os.environ.get(VARIABLE)
    if visible is None:
        return list(uuids)
    numbers: list[int] = []
    for word in map(str.strip, visible.split(",")):
        if word.startswith("MIG-"):
            raise ValueError(
                f"{VARIABLE}={visible}: parts of GPUs (MIG) are not supported; "
                f"export {VARIABLE} with numbers or UUIDs of whole GPUs (0 or GPU-…), or type device=cpu"
            )
        if word.isdecimal():
            matching = [int(word)] if int(word) in uuids else []
        else:
            matching = [number for number, uuid in uuids.items() if word.startswith("GPU-") and uuid.startswith(word)]
        if len(matching) != 1:  # CUDA stops at the first entry that is not a device
            break
        numbers += matching
    return numbers


IN_PARTS = "is cut into parts (MIG), which are not supported"


def no_answer(number: int, numbers: Sequence[int], why: str) -> ValueError:
    """What is said of a device among the chosen `numbers` that does not answer: lost, or its driver knows nothing of it."""
    return unusable(number, numbers, f"does not answer ({why})")


def unusable(number: int, numbers: Sequence[int], why: str) -> ValueError:
    """What is said of a device among the chosen `numbers` on which nothing runs."""
    others = ",".join(str(other) for other in numbers if other != number)
    without = f"to leave it out: export {VARIABLE}={others}; " if others else ""
    return ValueError(f"GPU {number} {why}; {without}without GPUs: type device=cpu")
