"""Reader and writer of `status.json`, which records the status of a run.

Only the controller writes `status.json`. All readers use the class `StatusFile`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.common.run_end import RunEnd, end_of
from workloads import files

if TYPE_CHECKING:
    from workloads.api import Json

_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class StatusFile:
    """Content of `status.json`.

    Damaged files, and files of older versions, lack some of the fields.
    """

    status: str
    """Value of an `EndStatus`. The string is empty if the file contains no status."""
    reason: str = ""
    """Cause of the end as a sentence."""
    process: int | None = None
    """Rank of the process to which `reason` refers."""
    node: str = ""
    """Name of the machine on which the process `process` ran.

    The string is empty if the run uses a single machine, or if `reason` does not refer to a
    process.
    """
    code: str = ""
    """Value of the `EndCode` for `reason`. The string is empty in files of older versions."""
    started: str | None = None
    """Time (ISO 8601) at which the controller started the run."""
    ended: str | None = None
    """Time (ISO 8601) at which the run ended, or None if the run has not ended."""
    controller: Mapping[str, Json] | None = None
    """Identity of the controller process (`workloads.process_identity.this_process`)."""
    run_index: int | None = None
    workload: str = ""
    framework: str = ""
    profile: str = ""
    devices: int | None = None
    """Number of devices of the run."""
    open_reasons: tuple[str, ...] = ()
    """Reasons for the open division that were found while the run was in progress."""

    @property
    def end(self) -> RunEnd | None:
        """Return how the run ended, or None if the file contains no status.

        An unknown status from a later version is treated as a failure.
        """
        return end_of(self.status, self.code, self.reason) if self.status else None

    @property
    def seconds(self) -> float:
        """Return the seconds between the start and the end of the run.

        Raises ValueError if a time is missing or invalid.
        """
        if self.started is None or self.ended is None:
            raise ValueError("the run has no start or no end")
        try:
            return (
                datetime.fromisoformat(self.ended) - datetime.fromisoformat(self.started)
            ).total_seconds()
        except TypeError as error:  # only the start time or only the end time has a time zone
            raise ValueError(str(error)) from None

    @classmethod
    def read(cls, path: Path) -> StatusFile:
        """Read a `status.json` file.

        Raises:
            OSError: The file cannot be read, or is too large.
            ValueError: The file does not contain a JSON object.
        """
        try:
            value = json.loads(files.read_text(path, "replace", _LIMIT_BYTES))
        except RecursionError:
            raise ValueError(f"{path}: JSON nested too deeply") from None
        if not isinstance(value, dict):
            raise ValueError(f"{path}: expected a JSON object")
        return cls.from_json(value)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StatusFile:
        """Build the object from the JSON content of a file.

        Unknown keys and values of wrong types are ignored.
        """
        controller, reasons = value.get("controller"), value.get("open_reasons")
        return cls(
            status=str(value.get("status") or ""),
            reason=str(value.get("reason") or ""),
            process=_integer(value.get("process")),
            node=_string(value.get("node")) or "",
            code=_string(value.get("code")) or "",
            started=_string(value.get("started")),
            ended=_string(value.get("ended")),
            controller=controller if isinstance(controller, dict) else None,
            run_index=_integer(value.get("run_index")),
            workload=_string(value.get("workload")) or "",
            framework=_string(value.get("framework")) or "",
            profile=_string(value.get("profile")) or "",
            devices=_integer(value.get("devices")),
            open_reasons=tuple(map(str, reasons)) if isinstance(reasons, list) else (),
        )

    def write(self, path: Path) -> None:
        """Write the file atomically. Raise OSError if it cannot be written."""
        # imported here because readers of `status.json` do not need the module's imports
        from suite.common.runspec import write_atomically

        value: dict[str, Json] = {
            "status": self.status,
            "reason": self.reason,
            "process": self.process,
        }
        if self.node:
            value["node"] = self.node
        value |= {
            "code": self.code,
            "started": self.started,
            "ended": self.ended,
            "controller": self.controller,
            "run_index": self.run_index,
            "workload": self.workload,
            "framework": self.framework,
            "profile": self.profile,
            "devices": self.devices,
        }
        if self.open_reasons:
            value["open_reasons"] = list(self.open_reasons)
        write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None
