"""Image files as bytes, read into memory that is used again, and the error that says what is wrong with one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from workloads.files import open_regular


class BadImage(ValueError):
    """What is wrong with an image file, in one line without the file's name, which the caller adds."""


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
