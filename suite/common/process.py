"""What every command of the suite begins with: how this process prints, and what the Pythons that it starts import."""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """Characters that the terminal lacks are replaced, and no Python that is started imports from the current folder.

    Exits with a line where the current folder has been deleted. Python 3.10 does not know the variable: there a `json.py` in
    the current folder is still found first.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        sys.exit(f"{os.path.basename(sys.argv[0])}: the current folder does not exist any more; type cd FOLDER first")
    os.environ["PYTHONSAFEPATH"] = "1"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_no_more() -> None:
    """After the reader of a pipe has gone (`suite report … | head`): what is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
