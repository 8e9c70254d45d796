"""Prepare the process of every command of the suite.

The preparation configures the output streams of the process, and the import path of Python child
processes.
"""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """Configure the output streams and the import path of this process and its children.

    Characters that the terminal cannot print are replaced. Python child processes do not import
    modules from the current folder. Python 3.10 ignores PYTHONSAFEPATH, so child processes with
    Python 3.10 still import a file such as `json.py` from the current folder.

    The process exits with a message if the current folder was deleted.
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
    """Discard all further output of this process.

    Commands call this function after the reader of a pipe has closed the pipe (`suite report … |
    head`).
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
