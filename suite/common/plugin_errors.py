"""Find the file and line of an error in a plugin's code, for an error message."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Collection
from importlib.metadata import entry_points

from suite.common import registry

SUITE_PACKAGES = frozenset({"suite", "workloads"})


def location_of(error: BaseException, packages: Collection[str]) -> str:
    """Return the source line that raised an error, such as `/path/trainer.py:42 in setup`.

    The source line is the innermost traceback line in a plugin among `packages`. If the traceback
    has no line in such a plugin, the innermost line in the suite is returned. The string is empty
    if no line is found. The string is also empty for a ValueError that the suite raised, because
    its message is written for users.

    Args:
        error: The error, with its traceback.
        packages: Names of top-level packages, which may include packages of plugins.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{error.filename}:{error.lineno}"
    return _innermost_line(error, set(packages) - SUITE_PACKAGES) or (
        "" if isinstance(error, ValueError) else _innermost_line(error, SUITE_PACKAGES)
    )


def _innermost_line(error: BaseException, packages: Collection[str]) -> str:
    """Return the innermost traceback line that lies in `packages`, or an empty string."""
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages:
            return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return ""


def plugin_packages() -> set[str]:
    """Return the top-level packages of all installed plugins, without importing them."""
    groups = (
        registry.WORKLOADS,
        registry.FRAMEWORKS,
        registry.TRAINERS,
        registry.DATASETS,
        registry.STUDIES,
        registry.LAUNCHERS,
    )
    points = (point for group in groups for point in entry_points(group=group))
    return {point.module.partition(".")[0] for point in points} - SUITE_PACKAGES


def describe_plugin_error(error: Exception) -> str | None:
    """Return a single-line message for an error in a plugin's code.

    Returns None if the error was not raised by a plugin's code. The traceback is written to a new
    file, whose path is in the message.
    """
    packages = plugin_packages()
    if isinstance(error, SyntaxError) and error.filename:
        location = location_of(error, packages)
    elif (
        isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in packages
    ):
        location = "an entry point of the plugin names this module"
    else:
        location = _innermost_line(error, packages)
    if not location:
        return None
    first_line = (
        str(error.msg if isinstance(error, SyntaxError) else error).strip().partition("\n")[0]
    )
    where = location if location.startswith("an entry point") else f"at {location}"
    with tempfile.NamedTemporaryFile(
        "w", prefix="suite-traceback-", suffix=".txt", delete=False
    ) as file:
        traceback.print_exception(error, file=file)
    return (
        f"error in a plugin: {type(error).__name__}: {first_line}, {where}; traceback in"
        f" {file.name}"
    )
