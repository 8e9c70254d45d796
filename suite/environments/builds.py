"""CUDA version and GPU architectures for which a framework was built.

The module also checks whether a machine can run a framework that was built for them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Build:
    """CUDA version and GPU architectures for which a framework was built."""

    cuda: str
    """CUDA version, such as `13.0`."""
    architectures: tuple[str, ...]
    """GPU architectures of the build, such as `sm_90` for machine code.

    An architecture such as `compute_90` is PTX code, which the driver compiles for any newer
    device.
    """

    def needs_newer_driver(self, driver_cuda: str | None) -> bool:
        """Check whether the driver is too old for this build.

        A driver supports every minor version of its newest CUDA major version (CUDA Compatibility,
        section 2).

        Args:
            driver_cuda: Newest CUDA version that the driver supports, such as `13.0`, or None if
                unknown.
        """
        return driver_cuda is not None and int(driver_cuda.partition(".")[0]) < int(
            self.cuda.partition(".")[0]
        )

    def why_not(self, capabilities: Sequence[str], driver_cuda: str | None) -> str:
        """Return the reason why this build cannot run on a machine, or an empty string.

        Args:
            capabilities: Compute capabilities of the devices, such as `9.0`.
            driver_cuda: Newest CUDA version that the driver supports, or None if unknown.
        """
        if self.needs_newer_driver(driver_cuda):
            return (
                f"is built for CUDA {self.cuda}, but the driver supports CUDA up to {driver_cuda}"
            )
        missing = [
            capability for capability in capabilities if not carries(self.architectures, capability)
        ]
        if missing:
            return (
                f"has no code for compute capability {', '.join(missing)} (it has"
                f" {' '.join(self.architectures)})"
            )
        return ""


def carries(architectures: Sequence[str], capability: str) -> bool:
    """Check whether a build contains code for a device.

    Machine code for an older or equal minor version of the device's major version runs on the
    device. PTX code runs on any device whose compute capability is the same or newer (CUDA C++
    Programming Guide, sections "Binary Compatibility" and "PTX Compatibility").

    Args:
        architectures: Targets of the build, such as `sm_90`, `sm_90a`, or `compute_90`.
        capability: Compute capability of the device, such as `9.0`.
    """
    major, minor = (int(part) for part in capability.split("."))
    for target in architectures:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", target)
        if match is None:
            continue
        version, exact = (int(match[2]), int(match[3])), match[4] == "a"
        if exact:
            fits = version == (major, minor)
        elif match[1] == "compute" and not match[4]:
            fits = version <= (major, minor)
        else:
            fits = version[0] == major and version[1] <= minor
        if fits:
            return True
    return False
