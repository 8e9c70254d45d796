"""Read files from external sources without blocking and with a memory limit.

A log, a settings file, or a data set may be a pipe, a device, or a file of any size. `suite` and
`workloads` therefore read all external files with these functions. Files of the package, and files
that the same process wrote, may be read differently. A test lists these exceptions. This module
imports only the standard library, because agents import it.
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
"""Maximum size in bytes of a file that is read as a whole.

Examples are run.json, status.json, settings, rules, and lists of files.
"""
_BLOCK_BYTES = 1 << 20
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # UTF-32-LE comes before UTF-16-LE, because the mark of UTF-32-LE begins with the mark of
    # UTF-16-LE.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading and return its descriptor.

    The function raises OSError if the path is not a regular file. The function never blocks, even
    if the path is a pipe without a writer.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def open_stream(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file as a binary stream.

    The function raises OSError if the path is not a regular file.
    """
    return open(open_regular(path), "rb")


def read_bytes(path: str | os.PathLike[str], limit_bytes: int = RECORD_BYTES) -> bytes:
    """Return all bytes of a regular file.

    The function raises OSError if the path is not a regular file, or if the file has more than
    `limit_bytes` bytes.
    """
    data = bytearray()
    with open_stream(path) as file:
        # Files in /proc have size 0 and return at most one block per read.
        size = os.fstat(file.fileno()).st_size
        while max(size, len(data)) <= limit_bytes and (block := file.read(_BLOCK_BYTES)):
            data += block
    if max(size, len(data)) > limit_bytes:
        raise OSError(errno.EFBIG, f"more than {limit_bytes:,} bytes", os.fspath(path))
    return bytes(data)


def detect_encoding(head: bytes) -> tuple[str, int]:
    """Return the encoding of a text file and the size of its byte order mark in bytes.

    `head` contains the first bytes of the file. A file without a byte order mark is UTF-8.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    return "utf-8", 0


def read_text(
    path: str | os.PathLike[str], errors: str = "strict", limit_bytes: int = RECORD_BYTES
) -> str:
    r"""Return the text of a file without its byte order mark.

    All line ends become "\n". The encoding is UTF-8, unless the file begins with a byte order mark
    of UTF-16 or UTF-32. A byte order mark after the first character remains in the text.

    Args:
        path: Path of the file.
        errors: Error handling as in `bytes.decode`.
        limit_bytes: Maximum size of the file in bytes.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
        ValueError: The bytes are not valid in the encoding of the file.
    """
    text, _ = decode_text(read_bytes(path, limit_bytes), path, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decode_text(
    data: bytes, path: str | os.PathLike[str], errors: str = "strict"
) -> tuple[str, str]:
    """Decode the content of a text file.

    The function returns the text without its byte order mark, and the name of the encoding. The
    function raises ValueError if the bytes are not valid in this encoding.
    """
    encoding, mark_bytes = detect_encoding(data)
    try:
        return data[mark_bytes:].decode(encoding, errors), encoding
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise ValueError(not_in_encoding(path, encoding)) from None
        line = data.count(b"\n", 0, mark_bytes + error.start) + 1
        raise ValueError(
            f"{os.fspath(path)}: line {line}: not UTF-8. Save the file with this encoding"
        ) from None


def printable(text: str) -> str:
    """Replace control and formatting characters with spaces for safe printing.

    Control characters include escape sequences, which a terminal executes. Formatting characters,
    such as U+202E, can change the order of the characters in a line. Surrogates are kept. A
    surrogate represents a byte of a path that is not UTF-8, and Python prints a surrogate as an
    escape sequence.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or unicodedata.category(letter) in ("Zs", "Cs") else " "
        for letter in text
    )


def not_in_encoding(path: str | os.PathLike[str], encoding: str) -> str:
    """Return the error message for a file that does not match its byte order mark."""
    name = encoding[:6].upper()
    return (
        f"{os.fspath(path)}: not {name}, although it has the byte order mark of {name}. Save the"
        " file as UTF-8"
    )


def read_json(path: str | os.PathLike[str], limit_bytes: int = RECORD_BYTES) -> Any:
    """Return the parsed content of a JSON file.

    The function raises OSError if the file cannot be read, is not a regular file, or is too large.
    The function raises ValueError if the content is not JSON or is nested too deeply.
    """
    try:
        return json.loads(read_bytes(path, limit_bytes))
    except json.JSONDecodeError:
        raise
    # The parser raises these errors for invalid UTF-8, a number with thousands of digits, or deeply
    # nested lists.
    except (ValueError, RecursionError) as error:
        why = "JSON nested too deeply" if isinstance(error, RecursionError) else str(error)[:80]
        raise ValueError(f"{os.fspath(path)}: {why}") from None
