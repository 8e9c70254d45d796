"""Preparing data sets in tests, and being refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import written
from workloads.api import Dataset


def prepare(recipe: Dataset, source: Path, destination: Path, **options: object) -> list[str]:
    """The lines that preparing prints; `options`: attributes of the data set."""
    for name, value in options.items():
        setattr(recipe, name, value)
    return recipe.prepare(source, destination)


def refused(recipe: Dataset, source: Path, folder: Path, **options: object) -> str:
    """Why a data set is refused, which leaves nothing in `folder`."""
    with pytest.raises(ValueError, match=r".") as raised:
        prepare(recipe, source, folder / "refused", **options)
    assert [
        path for path in folder.iterdir() if path.name.startswith(("refused", ".refused"))
    ] == []
    return str(raised.value)


def is_one_line_or_left_out(recipe: Dataset, source: Path, folder: Path, problem: str) -> list[str]:
    """A data set with a single problem is refused for it in one line, and prepared in `folder`/p
    under --skip-bad: what that prints.
    """
    message = refused(recipe, source, folder)
    assert message.startswith(problem), message
    assert message.endswith(". Repair it, or set --skip-bad to leave it out")
    assert "\n" not in message
    assert message.isprintable()
    lines = prepare(recipe, source, folder / "p", skip_bad=True)
    assert lines[0].startswith(f"left out: {problem}")
    return lines


def is_done_once(recipe: Dataset, source: Path, folder: Path, change: Callable[[], object]) -> None:
    """What is prepared in `folder` stays as it is when it is prepared again, and after a `change`
    of the source.
    """
    prepare(recipe, source, folder)
    before = written(folder)
    assert prepare(recipe, source, folder) == [f"{recipe.name}: already prepared in {folder}"]
    change()
    with pytest.raises(
        ValueError, match=rf"holds {recipe.name} prepared from .* with different content or options"
    ):
        prepare(recipe, source, folder)
    assert written(folder) == before
