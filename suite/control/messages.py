"""What is said once for a whole sweep, although every job finds it out again."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


class _Once(logging.Filter):
    """Lets the first record of each text through."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        said = text in self._said
        self._said.add(text)
        return not said


@contextlib.contextmanager
def said_once(logger: str) -> Iterator[None]:
    """Within it, a logger says nothing twice."""
    once, named_logger = _Once(), logging.getLogger(logger)
    named_logger.addFilter(once)
    try:
        yield
    finally:
        named_logger.removeFilter(once)
