"""The folder name of a job: what its sweep finds it by when it is resumed."""

from __future__ import annotations

import hashlib
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
OF_THE_MACHINE = ("backbone.weights", "system.cache_clear_command", "watchdog_seconds", "setup_watchdog_seconds")
TOO_LONG = tuple(f"environment.{key}" for key in ("python", "argv_prefix", "path_map", "mounts", "options"))
NOT_IN_NAME = {*SAID_ANYWAY, *OF_THE_COMMAND, *OF_THE_MACHINE, *TOO_LONG}
"""Settings that a job's folder name holds anyway, that say too much for a name, or that do not change what is computed."""
NAME_BYTES = 200
"""Longest name of a job; a file system takes 255 bytes."""


def is_in_name(key: str) -> bool:
    """Whether the name says a setting that is typed as `key`."""
    return key not in NOT_IN_NAME and not key.startswith("launch.")


def named(workload: str, framework: str, profile: str, devices: int, device: str, words: Sequence[str]) -> str:
    """The name of a job whose command line sets `words`, and `device`, unless that is `auto`."""
    name = f"{workload}-{framework}-{profile}-{devices}dev{'' if device == 'auto' else f'-{device}'}"
    extra = {word for word in words if is_in_name(word.partition("=")[0])}
    whole = "-".join([name, *sorted(extra)]).replace("=True", "=true").replace("=False", "=false")
    safe = safe_name(whole)
    if len(safe.encode()) <= NAME_BYTES:
        return safe
    ending = f"-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"  # what is cut off may be all that tells jobs apart
    return safe.encode()[: NAME_BYTES - len(ending)].decode(errors="ignore") + ending
