"""Paths as they can be written down: a run's files, which are UTF-8, name its folders."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

FOLDERS = ("SUITE_DATA_DIR", "SUITE_LOG_DIR", "SUITE_ENV_DIR", "SUITE_CACHE_DIR")


def check_names(arguments: Sequence[str], variables: Mapping[str, str] = os.environ) -> None:
    """Raise ValueError, before anything is written, for a word of the command line or a folder that cannot be written down.

    Python gives bytes that it cannot read as halves of surrogate pairs, which no file can hold.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:
        raise ValueError("the current folder does not exist any more; type cd to go to another") from None
    folders = [f"{name}={variables[name]}" for name in FOLDERS if name in variables]
    for text in (*arguments, *folders, f"the current folder, {here}"):
        check_name(text)


def check_name(text: str) -> None:
    """Raise ValueError for a text with a path that cannot be written down, or that no file here can be called by."""
    try:
        text.encode()
        os.fsencode(text)
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if sys.getfilesystemencoding() == "utf-8":
            raise ValueError(f"{shown}: not UTF-8; name it otherwise") from None
        raise ValueError(
            f"{shown}: Python takes names for {sys.getfilesystemencoding()} here; type export PYTHONUTF8=1, "
            f"or export LC_ALL=C.UTF-8"
        ) from None


@contextlib.contextmanager
def named_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Context whose OSErrors name a path: a write to a full disk names none."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
