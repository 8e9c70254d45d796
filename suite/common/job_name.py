"""Derive the folder name of a job from its settings.

A resumed sweep uses the folder name to find the folders of its jobs.
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

A setting is excluded if its value is too long, if it does not change the computation, or if every
folder name contains it anyway.
"""
_WITH_UNIT = ("batch", "stop")
_UNIT = re.compile(r"[a-z_]+:\d+")
NAME_BYTES = 200
"""Maximum length of a job's folder name in bytes. File systems allow 255 bytes."""


def is_in_name(key: str) -> bool:
    """Check whether the folder name of a job includes the setting `key`."""
    return key not in NOT_IN_NAME and not key.startswith("launch.")


def named(
    workload: str, framework: str, profile: str, devices: int, device: str, overrides: Sequence[str]
) -> str:
    """Return the folder name of a job.

    Jobs with different settings in their folder names never share a folder. A hash is appended to
    the name if the name without the hash does not identify the settings. A hash is needed if the
    settings contain characters that a file name cannot contain, or if the name would be too long.

    Args:
        workload: Name of the workload.
        framework: Name of the framework.
        profile: Name of the profile.
        devices: Number of devices.
        device: Device type, such as `cpu`. `auto` is omitted from the name.
        overrides: Overrides `key=value` from the command line.
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
    """Return True if a folder name shows the override `word` unambiguously.

    Overrides of `_WITH_UNIT` settings have a fixed format such as `global:8`, in which only the
    colon is replaced. Folder names separate overrides by dashes, so a value that contains `-KEY=`
    would look like two overrides.
    """
    key, _, value = word.partition("=")
    if key in _WITH_UNIT and _UNIT.fullmatch(value):
        return True
    return safe_name(word) == word and not word.endswith(("=", "-")) and "=" not in value
