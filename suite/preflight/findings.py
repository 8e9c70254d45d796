"""The result of a check, which `suite doctor` prints as a line."""

from __future__ import annotations

import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Result of the check of a topic, with a remedy."""

    level: str
    """`ok`, `warning` (a run starts, but its times may be wrong or it may fail), or `impossible`
    (no run can succeed).
    """
    topic: str
    text: str
    do: str = ""
    """Remedy, as a sentence with a lower-case first letter. Empty if the level is `ok`."""

    @property
    def line(self) -> str:
        """The finding as a line: `topic: text. Remedy`."""
        return (
            f"{self.topic}: {self.text}{f'. {self.do[0].upper()}{self.do[1:]}' if self.do else ''}"
        )


ok, warning, impossible = (
    functools.partial(Finding, level) for level in ("ok", "warning", "impossible")
)
