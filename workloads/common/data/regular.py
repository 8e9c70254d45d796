"""Files of data sets, which others wrote."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def open_regular(path: str | Path) -> int:
    """A file's descriptor, for reading; nobody waits for a pipe's writer. Raises OSError for what is no regular file."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "no regular file", os.fspath(path))
