"""Prepares the process of every command of the suite: its output streams, and the import path of
the Pythons it starts.
"""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """Replace characters that the terminal cannot print, and keep child Pythons from importing from
    the current folder.

    Exits with a message if the current folder was deleted. Python 3.10 ignores the variable
    PYTHONSAFEPATH, so it still imports a `json.py` in the current folder first.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        sys.exit(f"{os.path.basename(sys.argv[0])}: the current folder was deleted. Run: cd FOLDER")
    os.environ["PYTHONSAFEPATH"] = "1"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_no_more() -> None:
    """Discard all further output, after the reader of a pipe has closed it
    (`suite report … | head`).
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
