"""Files that others wrote, read without waiting and without filling the memory. Standard library only: agents use it too.

`suite` and `workloads` read every file through here but those that lie in the package or that the same process made
(a test holds the list): a log, a setting, a data set may be a pipe, a device, or of any size.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import stat
import unicodedata
from typing import Any, BinaryIO

RECORD_BYTES = 64 << 20
"""Most that is read of a file that is held in memory whole: run.json, status.json, settings, rules, lists of files."""
_BLOCK_BYTES = 1 << 20
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with the mark of UTF-16-LE
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


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


def detect_encoding(head: bytes) -> tuple[str, int]:
    """Return the encoding of a text that begins with `head`, and the bytes of its byte order mark; UTF-8 without a mark."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    return "utf-8", 0


def read_text(path: str | os.PathLike[str], errors: str = "strict", limit_bytes: int = RECORD_BYTES) -> str:
    """Return the text of a file, with "\\n" for line ends of all kinds and without a byte order mark.

    The text is UTF-8, unless a byte order mark says UTF-16 or UTF-32. A mark behind the start of the file is text.

    Args:
        errors: As in `bytes.decode`.

    Raises:
        OSError: As `read_bytes`.
        ValueError: The bytes are not text in this encoding.
    """
    text, _ = decode_text(read_bytes(path, limit_bytes), path, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decode_text(data: bytes, path: str | os.PathLike[str], errors: str = "strict") -> tuple[str, str]:
    """Return the content of a text file without its byte order mark, and the name of its encoding. Raises ValueError."""
    encoding, mark_bytes = detect_encoding(data)
    try:
        return data[mark_bytes:].decode(encoding, errors), encoding
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise ValueError(not_in_encoding(path, encoding)) from None
        line = data.count(b"\n", 0, mark_bytes + error.start) + 1
        raise ValueError(f"{os.fspath(path)}: line {line}: not UTF-8; save the file with this encoding") from None


def printable(text: str) -> str:
    """Return text from a file with spaces for the characters that a terminal obeys or that change the order of a line.

    These are control characters, escapes included, and formatting characters such as U+202E. Bytes of a path that are not UTF-8
    stay (surrogates): they are printed as escape sequences of Python.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or unicodedata.category(letter) in ("Zs", "Cs") else " " for letter in text
    )


def not_in_encoding(path: str | os.PathLike[str], encoding: str) -> str:
    """Return the message for a file whose byte order mark names an encoding that its content is not in."""
    name = encoding[:6].upper()
    return f"{os.fspath(path)}: not {name}, although its byte order mark says so; save the file as UTF-8"


def read_json(path: str | os.PathLike[str], limit_bytes: int = RECORD_BYTES) -> Any:
    """The value in a JSON file. Raises OSError like `read_bytes`; ValueError for what is no JSON, or nested too deeply."""
    try:
        return json.loads(read_bytes(path, limit_bytes))
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:  # no UTF-8, a number of thousands of digits; lists without end
        why = "JSON nested too deeply" if isinstance(error, RecursionError) else str(error)[:80]
        raise ValueError(f"{os.fspath(path)}: {why}") from None
