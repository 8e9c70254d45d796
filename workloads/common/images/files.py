"""Image files as bytes, read into memory that is used again, and the error that says what is wrong with one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import numpy as np


class BadImage(ValueError):
    """What is wrong with an image file, in one line without the file's name, which the caller adds."""


def open_regular(path: str | Path) -> int:
    """A file's descriptor, for reading; nobody waits for a pipe's writer. Raises OSError for what is no regular file."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "no regular file", os.fspath(path))


class FileReader:
    """Reads files for one thread, in a buffer that grows to the largest."""

    def __init__(self) -> None:
        self._file = np.empty(1 << 18, np.uint8)

    def read(self, path: str | Path, size: int | None = None) -> memoryview:
        """A file's content, valid until the next call. Raises BadImage if it cannot be read or is not `size` bytes long."""
        try:
            file = open_regular(path)
        except OSError as error:
            raise BadImage(f"cannot be opened ({error.strerror})") from None
        try:
            length = os.fstat(file).st_size
            if size is not None and length != size:
                raise BadImage(f"{length:,} bytes, but {size:,} when it was prepared")
            if length > self._file.size:
                self._file = np.empty(length * 5 // 4, np.uint8)
            content = self._file.data[:length]
            done = 0
            while done < length:
                count = os.readv(file, [content[done:]])
                if not count:
                    raise BadImage(f"ends after {done:,} of {length:,} bytes")
                done += count
        except OSError as error:
            raise BadImage(f"cannot be read ({error.strerror})") from None
        finally:
            os.close(file)
        return content
