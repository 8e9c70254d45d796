"""Derives the folder name of a job from its settings.

A resumed sweep finds the job by this name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from suite.common.run_folder import safe_name

SAID_ANYWAY = ("workload", "framework", "profile", "gpus", "device")
OF_THE_COMMAND = (
    "output",
    "resume",
    "runs",
    "plugins",
    "dry_run",
    "sweep.limit",
    "checkpoint.when",
    "checkpoint.final",
    "framework.allow_open_grpc",
)
OF_THE_MACHINE = (
    "backbone.weights",
    "system.cache_clear_command",
    "watchdog_seconds",
    "setup_watchdog_seconds",
)
TOO_LONG = tuple(
    f"environment.{key}" for key in ("python", "command_prefix", "path_map", "mounts", "options")
)
NOT_IN_NAME = {*SAID_ANYWAY, *OF_THE_COMMAND, *OF_THE_MACHINE, *TOO_LONG}
"""Settings that are not added to a job's folder name.

The name always contains some of them, some have values that are too long, and some do not change
the computation.
"""
_WITH_UNIT = ("batch", "stop")
_UNIT = re.compile(r"[a-z_]+:\d+")
NAME_BYTES = 200
"""Largest length of a job's folder name. File systems allow 255 bytes."""


def is_in_name(key: str) -> bool:
    """Check whether the folder name of a job includes the setting `key`."""
    return key not in NOT_IN_NAME and not key.startswith("launch.")


def named(
    workload: str, framework: str, profile: str, devices: int, device: str, overrides: Sequence[str]
) -> str:
    """Return the folder name of a job.

    The name ends with a hash if it does not show the settings exactly: a file name cannot hold
    every character, or the name would be too long. Two jobs with different settings in their names
    therefore never share a folder.

    Args:
        workload: Name of the workload.
        framework: Name of the framework.
        profile: Name of the profile.
        devices: Number of devices.
        device: Kind of device. It is left out of the name if it is `auto`.
        overrides: Overrides `key=value` of the command line.
    """
    name = (
        f"{workload}-{framework}-{profile}-{devices}dev{'' if device == 'auto' else f'-{device}'}"
    )
    extra = sorted({word for word in overrides if is_in_name(word.partition("=")[0])})
    whole = "-".join([name, *extra]).replace("=True", "=true").replace("=False", "=false")
    safe = safe_name(whole)
    is_exact = all(map(_is_shown_exactly, extra))
    if is_exact and len(safe.encode()) <= NAME_BYTES:
        return safe
    ending = f"-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return safe.encode()[: NAME_BYTES - len(ending)].decode(errors="ignore") + ending


def _is_shown_exactly(word: str) -> bool:
    """Return True if no different setting results in the same part of a name as the setting `word`.

    The values of `_WITH_UNIT` have a fixed form, `global:8`, in which only the colon is replaced. A
    dash separates settings, so a value that contains `-KEY=` could be read as two settings.
    """
    key, _, value = word.partition("=")
    if key in _WITH_UNIT and _UNIT.fullmatch(value):
        return True
    return safe_name(word) == word and not word.endswith(("=", "-")) and "=" not in value
