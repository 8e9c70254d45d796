"""Prepares the process of every command of the suite.

This concerns its output streams, and the import path of the Python processes that it starts.
"""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """Set up output streams and imports of this process and of the Python processes it starts.

    Characters that the terminal cannot print are replaced. Child processes do not import from the
    current folder. Python 3.10 ignores the variable PYTHONSAFEPATH, so it still imports a `json.py`
    in the current folder first.

    Exits with a message if the current folder was deleted.
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
    """Discard all further output.

    Called after the reader of a pipe has closed it (`suite report … | head`).
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
