"""Errors of a run that this machine or a framework cannot execute.

The settings of such a run have no mistake.
"""

from __future__ import annotations

from collections.abc import Callable


class UnsupportedError(ValueError):
    """This machine or a framework cannot execute a run.

    In a study, a cell shows this, and the other cells run.

    Args:
        problem: The setting, and the available resources.
        remedy: The setting to change, as a sentence without its period. Empty: nothing can be set.
    """

    shown = "–"
    """Text of the cell."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}. {remedy}" if remedy else problem)
        self.problem, self.remedy = problem, remedy


class MissingResourceError(UnsupportedError):
    """This machine lacks something for a run that it could execute with different settings."""


Lacks = Callable[[UnsupportedError], None]
"""Function that is called with each resource that is missing.

If it returns, planning continues with the available resources.
"""


def refuse(error: UnsupportedError) -> None:
    """Raise the error, so that planning ends at the first missing resource."""
    raise error
