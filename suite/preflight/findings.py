"""The result of a preflight check, which `suite doctor` prints as a line."""

from __future__ import annotations

import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Result of a preflight check, with a remedy."""

    level: str
    """`ok`, `warning`, or `impossible`. With `warning`, the run starts, but may fail or have
    distorted times. With `impossible`, the run cannot succeed.
    """
    topic: str
    text: str
    do: str = ""
    """Remedy as a sentence that begins with a lower-case letter. The remedy is empty if the
    level is `ok`.
    """

    @property
    def line(self) -> str:
        """Return the finding as a line: `topic: text. Remedy`."""
        return (
            f"{self.topic}: {self.text}{f'. {self.do[0].upper()}{self.do[1:]}' if self.do else ''}"
        )


ok, warning, impossible = (
    functools.partial(Finding, level) for level in ("ok", "warning", "impossible")
)
