"""What a framework was built for, and which of its environments suits the GPUs and the driver of a machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Build:
    """What a framework was built for."""

    cuda: str
    """CUDA version: `13.0`."""
    architectures: tuple[str, ...]
    """`sm_90`: machine code; `compute_90`: code that the driver translates for any newer device."""

    def needs_newer_driver(self, driver_cuda: str | None) -> bool:
        """Check whether the driver is too old. `driver_cuda`: newest CUDA version that it knows; None: not known.

        A driver runs every minor version of the newest CUDA major version that it knows: CUDA Compatibility, section 2.
        """
        return driver_cuda is not None and int(driver_cuda.partition(".")[0]) < int(self.cuda.partition(".")[0])

    def why_not(self, capabilities: Sequence[str], driver_cuda: str | None) -> str:
        """Why it cannot run on devices of these compute capabilities (`9.0`) under a driver that knows CUDA up to
        `driver_cuda` (None: not known); empty: it can."""
        if self.needs_newer_driver(driver_cuda):
            return f"is built for CUDA {self.cuda}, the driver ends at {driver_cuda}"
        missing = [capability for capability in capabilities if not carries(self.architectures, capability)]
        if missing:
            return f"has no code for compute capability {', '.join(missing)} (it has {' '.join(self.architectures)})"
        return ""


def carries(architectures: Sequence[str], capability: str) -> bool:
    """True if one of a build's targets runs on a device: machine code of its major version and no newer minor one, or
    code to translate of no newer version (CUDA C++ Programming Guide, sections "Binary" and "PTX Compatibility")."""
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
