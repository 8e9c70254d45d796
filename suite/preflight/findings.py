"""A finding: one line of what the doctor says."""

from __future__ import annotations

import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One topic: how it stands, and what to do about it."""

    level: str
    """`ok`; `warning`: a run goes on, but its times or its end may suffer; `impossible`: no run can go well."""
    topic: str
    text: str
    do: str = ""
    """What the user can do about it; empty if it is ok."""

    @property
    def line(self) -> str:
        """`topic: text; do`."""
        return f"{self.topic}: {self.text}{f'; {self.do}' if self.do else ''}"


ok, warning, impossible = (functools.partial(Finding, level) for level in ("ok", "warning", "impossible"))
