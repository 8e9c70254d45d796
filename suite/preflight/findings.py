"""A finding: one line of what the doctor says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One topic: how it stands, and what to do about it."""

    level: str
    """`ok`, `warning`, or `impossible`: no run can go well."""
    topic: str
    text: str
    do: str = ""
    """What the user can do about it; empty if it is ok."""

    @property
    def line(self) -> str:
        """`topic: text; do`."""
        return f"{self.topic}: {self.text}{f'; {self.do}' if self.do else ''}"


def ok(topic: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding("ok", topic, text)


def warning(topic: str, text: str, do: str) -> Finding:
    """A run goes on, but its times or its end may suffer."""
    return Finding("warning", topic, text, do)


def impossible(topic: str, text: str, do: str) -> Finding:
    """No run can go well."""
    return Finding("impossible", topic, text, do)
