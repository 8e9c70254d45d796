"""Checks of how data sets are prepared or rejected."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import written
from workloads.api import Dataset


def prepare(recipe: Dataset, source: Path, destination: Path, **options: object) -> list[str]:
    """Prepare a data set and return the printed lines. `options` are attributes of the data set."""
    for name, value in options.items():
        setattr(recipe, name, value)
    return recipe.prepare(source, destination)


def rejection(recipe: Dataset, source: Path, folder: Path, **options: object) -> str:
    """Check that a data set is rejected and leaves no files in `folder`. Return the message."""
    with pytest.raises(ValueError, match=r".") as raised:
        prepare(recipe, source, folder / "refused", **options)
    assert [
        path for path in folder.iterdir() if path.name.startswith(("refused", ".refused"))
    ] == []
    return str(raised.value)


def check_rejected_or_skipped(
    recipe: Dataset, source: Path, folder: Path, problem: str
) -> list[str]:
    """Check that a data set with a single problem is rejected, and prepared with --skip-bad.

    Returns:
        Printed lines of the preparation in `folder`/p with --skip-bad.
    """
    message = rejection(recipe, source, folder)
    assert message.startswith(problem), message
    assert message.endswith(". Repair it, or set --skip-bad to leave it out")
    assert "\n" not in message
    assert message.isprintable()
    lines = prepare(recipe, source, folder / "p", skip_bad=True)
    assert lines[0].startswith(f"left out: {problem}")
    return lines


def check_prepared_once(
    recipe: Dataset, source: Path, folder: Path, change: Callable[[], object]
) -> None:
    """Check that preparing again leaves `folder` unchanged and rejects a changed source."""
    prepare(recipe, source, folder)
    before = written(folder)
    assert prepare(recipe, source, folder) == [f"{recipe.name}: already prepared in {folder}"]
    change()
    with pytest.raises(
        ValueError, match=rf"holds {recipe.name} prepared from .* with different content or options"
    ):
        prepare(recipe, source, folder)
    assert written(folder) == before
