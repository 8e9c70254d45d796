"""Drops the data set from the page cache before a run, and checks the result.

The result decides `cache_clear` in the log.

On a remote machine, the controller runs `python -m suite.control.caches JSON`, where `JSON` holds
the arguments of `clear`. The command prints the result of `clear` as JSON. Its exit code is 1 if
the caches cannot be cleared.

The files that are dropped are the files that the run will read: `Dataset.files`. For a sample of
these files, the kernel reports the pages in memory (mincore(2)). This check is the same for every
method of clearing.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from suite.common.registry import load_dataset
from suite.common.run_config import SystemConfig
from workloads import files

COMMAND_SECONDS = 600.0
"""Time limit of `system.cache_clear_command` on each machine."""
MAX_RESIDENT = 0.001
"""Largest share of the sample that may still be in memory.

The limit tolerates single pages of a large file that a different process reads at that moment, such
as a backup or an indexer. It does not tolerate a whole file of a full sample, which is more than a
thousandth of the sample. A run that reads a thousandth less from the disk gains far less time than
times to train vary by.
"""
SAMPLED_INSIDE = 600
"""Number of files of the prepared folder in the sample. Most prepared folders have fewer files."""
SAMPLED_ELSEWHERE = 200
"""Number of files outside the prepared folder in the sample, mostly images.

If 1 file in 50 is still in memory, 98 % of such samples contain such a file.
"""
THREADS = 8
"""Number of threads that open files.

Each open waits for the disk that holds the inode, so the waits overlap.
"""
FILES_AT_ONCE = 256
"""Number of files that a thread takes at a time."""
PAGES_AT_ONCE = 1 << 18
"""Number of pages per call of mincore(2): 1 GiB of a file with pages of 4 KiB."""
GONE = (FileNotFoundError, PermissionError)
"""Errors of a file that is skipped here.

The run cannot read the file either, and reports the error itself.
"""
MANIFEST = "manifest.json"
"""File of a prepared folder that `suite data verify` touches without changing its content."""
FileState = tuple[int | str, ...]


class DataStates:
    """States of the sampled files of a data set, which reveal a later change.

    A state consists of the device, the inode, the size, and the times of the last changes of the
    content and of the inode. The kernel updates the change time of the inode at each change, and
    has no call that sets it back. The contents are not read again, because this would put them into
    the page cache that was just cleared, and would take minutes after every run with a large data
    set. The manifest is the exception: its state is a hash of its content.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._states = {path: _state(path) for path in paths}

    def find_change(self) -> str:
        """Return the path of a file that has been changed, replaced, or removed since.

        Empty: no file has changed.
        """
        return next((path for path, state in self._states.items() if _state(path) != state), "")

    def drop_manifests(self) -> None:
        """Drop the files that were read for their state from the page cache."""
        for path in self._states:
            if os.path.basename(path) == MANIFEST:
                _drop(path)


def _state(path: str) -> FileState:
    """Return values that differ after a file has been written to or replaced.

    Empty: the file cannot be opened.
    """
    try:
        if os.path.basename(path) == MANIFEST:
            return (hashlib.sha256(files.read_bytes(Path(path))).hexdigest(),)
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Cleared(NamedTuple):
    """Result of `clear_and_watch`."""

    is_cleared: bool
    """Whether the sampled files have left memory."""
    line: str
    """Message on the files that are still in memory. Empty if `is_cleared`."""
    states: DataStates
    """States of the files that the run will read."""


def clear(system: SystemConfig, dataset: str, folder: str) -> tuple[bool, str]:
    """Call `clear_and_watch`, and return `is_cleared` and `line` of its result."""
    return clear_and_watch(system, dataset, folder)[:2]


def clear_and_watch(system: SystemConfig, dataset: str, folder: str) -> Cleared:
    """Clear the caches according to the `system.*` settings.

    By default, drop the data set's files from the page cache.

    Args:
        system: The `system.*` settings.
        dataset: Name of the data set.
        folder: Folder of the prepared data set. Empty: synthetic data, which has no files.

    Raises:
        ValueError: The caches cannot be cleared, the folder does not hold the data set that was
            prepared, or `system.cache_clear_command` changed the data set.
    """
    paths: Iterator[str] = iter(())
    if folder:
        recipe = load_dataset(dataset)
        recipe.check(Path(folder))
        paths = recipe.files(Path(folder))
        os.sync()  # the kernel cannot drop pages that are not on disk yet
    found = Files(folder, paths)
    command = list(system.cache_clear_command)
    if command or system.drop_caches:
        found.look()
        states = DataStates(found.sample())
        if command:
            _command(command)
        else:
            _drop_everything()
    else:
        found.drop()
        states = DataStates(found.sample())
        states.drop_manifests()
    kept = _kept(found.sample()) if folder else ""
    if changed := states.find_change():
        raise ValueError(
            f"system.cache_clear_command changed the data set: {changed} differs from the file that"
            " was checked before. Set a command that only clears caches, or omit"
            " system.cache_clear_command"
        )
    if not kept:
        states.drop_manifests()
    return Cleared(
        bool(folder) and not kept,
        f"cache_clear is false in the log: {kept}" if kept else "",
        states,
    )


def _command(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"system.cache_clear_command: {error}") from None


def _drop_everything() -> None:
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
    except OSError as error:
        raise ValueError(
            f"system.drop_caches=true: {error}. Run as root, or set system.drop_caches=false"
        ) from None


@dataclass
class CacheSample:
    """A random sample of at most `limit` of the added paths, by reservoir sampling.

    Each path has the same probability. Each run has a different sample, so that it cannot be
    predicted which files are checked.
    """

    limit: int
    paths: list[str] = field(init=False, default_factory=list)
    _seen: int = field(init=False, default=0)

    def add(self, path: str) -> None:
        """Add the next path. It may replace a path of the sample."""
        self._seen += 1
        if len(self.paths) < self.limit:
            self.paths.append(path)
        elif (index := random.randrange(self._seen)) < self.limit:
            self.paths[index] = path


class Files:
    """Iterates once over the files of a data set, and keeps a sample of their paths.

    The files may come from a generator.
    """

    def __init__(self, folder: str, paths: Iterator[str]) -> None:
        self._inside = os.path.join(folder, "")
        self._paths = paths
        self._lock = threading.Lock()
        self._samples = {True: CacheSample(SAMPLED_INSIDE), False: CacheSample(SAMPLED_ELSEWHERE)}

    def sample(self) -> list[str]:
        """Return the sampled paths, from the prepared folder and from elsewhere."""
        return [path for sample in self._samples.values() for path in sample.paths]

    def look(self) -> None:
        """Iterate over all files, only to sample them."""
        while self._next():
            pass

    def drop(self) -> None:
        """Advise the kernel to drop the pages of all files.

        The advice may have no effect, so the caller checks the result.
        """
        with ThreadPoolExecutor(THREADS) as pool:
            try:
                for done in [pool.submit(self._drop_some) for _ in range(THREADS)]:
                    done.result()
            finally:
                # After an interrupt, each thread ends after the files that it has taken.
                self._paths = iter(())

    def _drop_some(self) -> None:
        while paths := self._next():
            for path in paths:
                _drop(path)

    def _next(self) -> list[str]:
        with self._lock:
            paths = list(islice(self._paths, FILES_AT_ONCE))
            for path in paths:
                self._samples[path.startswith(self._inside)].add(path)
            return paths


def _drop(path: str) -> None:
    with contextlib.suppress(OSError), files.open_stream(path) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _kept(paths: Iterable[str]) -> str:
    """Return a message on the files that are still in memory.

    Empty: at most MAX_RESIDENT of the sample is.
    """
    shares: dict[str, float] = {}
    resident = total = 0
    for path in paths:
        try:
            file_resident, pages = resident_pages(path)
        except GONE:
            continue
        except OSError as error:
            return f"{path}: cannot determine whether the file is in memory ({error.strerror})"
        if pages:
            shares[path] = file_resident / pages
            resident, total = resident + file_resident, total + pages
    if not shares:
        return "the data set has no file that can be checked"
    # The share of pages reveals a large file in memory, and the mean share per file reveals many
    # small files.
    if max(resident / total, sum(shares.values()) / len(shares)) <= MAX_RESIDENT:
        return ""
    first = max(shares, key=lambda path: shares[path])
    number = sum(share > 0 for share in shares.values())
    return (
        f"{number:,} of {len(shares):,} checked files are still in memory ({resident:,} of"
        f" {total:,} pages), such as {first} on {_file_system(first)}: a process maps or reads"
        " them, a different user owns them, or the file system cannot drop them"
    )


def resident_pages(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the number of a file's pages in the page cache, and the number of all its pages.

    No page is read. If the user neither owns the file nor may write it, the kernel reports all its
    pages as resident (mincore(2), since Linux 5.2).

    Raises:
        OSError: The file cannot be opened, or the kernel does not report its pages.
    """
    with files.open_stream(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return 0, 0
        # The mapping reads no page. It is private because some network file systems allow private
        # mappings only.
        mapping = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    pages, resident = -(-size // mmap.PAGESIZE), 0
    start = np.frombuffer(mapping, np.uint8)  # keeps the mapping alive, and gives its address
    for first in range(0, pages, PAGES_AT_ONCE):
        count = min(PAGES_AT_ONCE, pages - first)
        residency = np.empty(count, np.uint8)
        offset = first * mmap.PAGESIZE
        _call_mincore(
            start.ctypes.data + offset,
            min(size - offset, count * mmap.PAGESIZE),
            residency.ctypes.data,
            path,
        )
        resident += int(np.count_nonzero(residency & 1))  # bits 1 to 7 are reserved
    return resident, pages


def _call_mincore(address: int, length: int, residency: int, path: str | os.PathLike[str]) -> None:
    """Write the residency of `length` bytes of pages from `address` to the bytes at `residency`."""
    mincore = _libc().mincore
    if mincore(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.c_void_p(residency)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(path))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _file_system(path: str) -> str:
    """Return the type of the file system that holds a file, such as `ext4` or `tmpfs`."""
    folders = {
        os.path.join(part.mountpoint, ""): part.fstype for part in psutil.disk_partitions(all=True)
    }
    around = [folder for folder in folders if os.path.realpath(path).startswith(folder)]
    return folders[max(around, key=len)] if around else "an unknown file system"


def main() -> int:
    """Clear the caches for the JSON request in the first argument.

    The result of `clear` is printed as JSON.
    """
    try:
        request = json.loads(sys.argv[1])
        cleared = clear(SystemConfig(**request["system"]), request["dataset"], request["folder"])
        print(json.dumps(cleared))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
