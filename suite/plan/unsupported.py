"""Errors for runs that this machine or a framework cannot execute.

The settings of such a run are valid, but the hardware or the framework does not support them.
"""

from __future__ import annotations

from collections.abc import Callable


class UnsupportedError(ValueError):
    """Error for a run that this machine or a framework cannot execute.

    In a study, the error is shown in the cell of the run, and all other cells are run.

    Args:
        problem: The setting, and the available resources.
        remedy: The setting to change, as a sentence without its period. Empty if no setting can
            solve the problem.
    """

    shown = "–"
    """Text in the cell of the study's table."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}. {remedy}" if remedy else problem)
        self.problem, self.remedy = problem, remedy


class MissingResourceError(UnsupportedError):
    """Error for a run that this machine could execute with different settings."""


Lacks = Callable[[UnsupportedError], None]
"""Function that is called for each missing resource.

If the function returns, planning continues with the available resources.
"""


def refuse(error: UnsupportedError) -> None:
    """Raise the error, so that planning stops at the first missing resource."""
    raise error
