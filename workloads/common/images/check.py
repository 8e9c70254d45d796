"""Checks image files in threads before a run needs the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

from workloads.common.images.jpeg import BadImage, Header, Reader, read_header
from workloads.files import open_stream

FILES_PER_TASK = 64
HEADER_BYTES = 1 << 14
"""Number of bytes that are read first. If the header is not complete within these bytes because of
large metadata, the whole file is read.
"""
JPEG_END = b"\xff\xd9"


def check_files(
    paths: Sequence[str | Path], full: bool = False, threads: int = 0
) -> list[Header | str]:
    """Return the header of each file, or a phrase that describes the problem.

    Args:
        paths: Image files.
        full: True to decode every image. With False, only the header and last bytes of a JPEG are
            checked. This check detects truncated files, but not damage in the middle of a file.
        threads: Number of threads. 0 means four threads per core, or one thread per core if `full`
            is set. Checking headers mostly waits for the disk.
    """
    workers = threads or len(os.sched_getaffinity(0)) * (1 if full else 4)
    per_thread = local()

    def some(first: int) -> list[Header | str]:
        if not hasattr(per_thread, "reader"):
            per_thread.reader = Reader()
        return [
            _check(per_thread.reader, path, full) for path in paths[first : first + FILES_PER_TASK]
        ]

    with ThreadPoolExecutor(workers, thread_name_prefix="check") as pool:
        results_by_task = pool.map(some, range(0, len(paths), FILES_PER_TASK))
        return [result for part in results_by_task for result in part]


def _check(reader: Reader, path: str | Path, full: bool) -> Header | str:
    try:
        return _decoded(reader, path) if full else _header(reader, path)
    except BadImage as error:
        return str(error)


def _decoded(reader: Reader, path: str | Path) -> Header:
    data = reader.read(path)
    header = read_header(data)
    reader.decode(data)
    return header


def _header(reader: Reader, path: str | Path) -> Header:
    """Return the header of a file after checking the end of the file.

    PNG files and JPEG files without an end marker are decoded completely.
    """
    try:
        with open_stream(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(HEADER_BYTES)
            file.seek(max(0, size - len(JPEG_END)))
            end = file.read()
    except OSError as error:
        raise BadImage(f"cannot be read ({error.strerror})") from None
    try:
        header = read_header(start)
    except BadImage:
        if size <= len(start):
            raise
        header = read_header(reader.read(path))
    if header.kind == "png" or end != JPEG_END:
        reader.decode(reader.read(path))
    return header
