"""Generate the data set of a demo in the data folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suite.common.paths import data_root
from suite.common.registry import load_dataset
from suite.common.relative_path import relative_path


def generate_demo_data(dataset: str) -> Iterator[str]:
    """Generate a demo data set, and yield a message for each phase of the generation.

    Raises:
        OSError: The data set cannot be written. The error contains the path of the file or folder.
    """
    folder = data_root() / dataset
    try:
        yield from load_dataset(dataset).make_demo(Path(relative_path(folder)))
    except OSError as error:
        error.filename = error.filename or str(folder)
        raise
