"""Files that others wrote, read without waiting and without filling the memory. Standard library only: agents use it too.

`suite` and `workloads` read every file through here but those that lie in the package or that the same process made
(a test holds the list): a log, a setting, a data set may be a pipe, a device, or of any size.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any, BinaryIO

RECORD_BYTES = 64 << 20
"""Most that is read of a file that is held in memory whole: run.json, status.json, settings, rules, lists of files."""
_BLOCK_BYTES = 1 << 20


def open_regular(path: str | os.PathLike[str]) -> int:
    """A file's descriptor, for reading; nobody waits for a pipe's writer. Raises OSError for what is no regular file."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "no regular file", os.fspath(path))


def open_stream(path: str | os.PathLike[str]) -> BinaryIO:
    """The bytes of a regular file, to be read in parts. Raises OSError like `open_regular`."""
    return open(open_regular(path), "rb")


def read_bytes(path: str | os.PathLike[str], limit_bytes: int = RECORD_BYTES) -> bytes:
    """All bytes of a regular file. Raises OSError like `open_regular`, or where there are more than the limit."""
    data = bytearray()
    with open_stream(path) as file:
        size = os.fstat(file.fileno()).st_size  # 0 of what lies in /proc, which gives no more than a block at once
        while max(size, len(data)) <= limit_bytes and (block := file.read(_BLOCK_BYTES)):
            data += block
    if max(size, len(data)) > limit_bytes:
        raise OSError(errno.EFBIG, f"more than {limit_bytes:,} bytes", os.fspath(path))
    return bytes(data)


def read_text(path: str | os.PathLike[str], errors: str = "strict", limit_bytes: int = RECORD_BYTES) -> str:
    """`read_bytes` as UTF-8, every line's end as "\\n"; `errors`: as in `bytes.decode`. Raises ValueError too."""
    data = read_bytes(path, limit_bytes)
    try:
        return data.decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{os.fspath(path)}: line {line}: not UTF-8; save the file with this encoding") from None


def read_json(path: str | os.PathLike[str], limit_bytes: int = RECORD_BYTES) -> Any:
    """The value in a JSON file. Raises OSError like `read_bytes`; ValueError for what is no JSON, or nested too deeply."""
    try:
        return json.loads(read_bytes(path, limit_bytes))
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:  # no UTF-8, a number of thousands of digits; lists without end
        why = "JSON nested too deeply" if isinstance(error, RecursionError) else str(error)[:80]
        raise ValueError(f"{os.fspath(path)}: {why}") from None
