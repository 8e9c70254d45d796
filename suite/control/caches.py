"""Drop the data set from the page cache before a run, and check the result.

The result of the check determines the value of `cache_clear` in the log.

On a remote machine, the controller runs `python -m suite.control.caches JSON`, where `JSON`
contains the arguments of `clear`. The command prints the result of `clear` as JSON. The exit code
of the command is 1 if the caches cannot be cleared.

The module drops the files that the run will read, which are listed by `Dataset.files`. For a random
sample of these files, the module then queries how many pages are in memory (mincore(2)). The check
is the same for all methods of clearing the caches.
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
"""Maximum share of the sampled pages that may remain in memory.

The limit tolerates a few pages of a large file that another process, such as a backup, reads at the
same time. The limit does not tolerate a file that is completely in memory, because in a full
sample, a file has more than 0.1 % of the pages. Reading 0.1 % less data from disk saves far less
time than the run-to-run variation of the training time.
"""
SAMPLED_INSIDE = 600
"""Number of files that are sampled in the folder of the prepared data set. The folders of most data
sets contain fewer files.
"""
SAMPLED_ELSEWHERE = 200
"""Number of files that are sampled outside the folder of the prepared data set. Most of these files
are images.

If 1 file in 50 is still in memory, a random sample contains at least one such file with a
probability of 98 %.
"""
THREADS = 8
"""Number of threads that open files.

An open call waits until the disk has read the inode of the file. With several threads, these waits
overlap.
"""
FILES_AT_ONCE = 256
"""Number of files that a thread processes before it requests more files."""
PAGES_AT_ONCE = 1 << 18
"""Number of pages per mincore(2) call, which is 1 GiB with pages of 4 KiB."""
GONE = (FileNotFoundError, PermissionError)
"""Errors for which a file is skipped.

The run itself cannot read the file either, and reports the error.
"""
MANIFEST = "manifest.json"
"""Name of the manifest file in the prepared folder. `suite data verify` touches the file without
changing its content.
"""
FileState = tuple[int | str, ...]


class DataStates:
    """Recorded metadata of a data set's sampled files, which reveals later changes.

    The metadata consists of the device, the inode, the size, the modification time, and the inode
    change time (ctime). The kernel updates the ctime at each change, and provides no call to reset
    the ctime. Except for the manifest, the contents of files are not compared. Reading the contents
    would fill the page cache that was just cleared, and would take minutes per run for a large data
    set. The manifest is compared by a hash of its content.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._states = {path: _state(path) for path in paths}

    def find_change(self) -> str:
        """Return the path of a file that was changed, replaced, or removed, or ""."""
        return next((path for path, state in self._states.items() if _state(path) != state), "")

    def drop_manifests(self) -> None:
        """Drop the manifests, which were read for their hashes, from the page cache."""
        for path in self._states:
            if os.path.basename(path) == MANIFEST:
                _drop(path)


def _state(path: str) -> FileState:
    """Return the metadata of a file, which changes when the file is modified or replaced.

    The tuple is empty if the file cannot be opened.
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
    """True if the sampled files are no longer in memory."""
    line: str
    """Message about the files that are still in memory. The string is empty if `is_cleared` is
    true.
    """
    states: DataStates
    """Recorded metadata of the sampled files that the run will read."""


def clear(system: SystemConfig, dataset: str, folder: str) -> tuple[bool, str]:
    """Call `clear_and_watch`, and return `is_cleared` and `line` of the returned object."""
    return clear_and_watch(system, dataset, folder)[:2]


def clear_and_watch(system: SystemConfig, dataset: str, folder: str) -> Cleared:
    """Clear the caches as the `system.*` settings specify.

    By default, only the data set's files are dropped from the page cache.

    Args:
        system: The `system.*` settings.
        dataset: Name of the data set.
        folder: Folder of the prepared data set. An empty string means synthetic data, which have no
            files.

    Raises:
        ValueError: The caches cannot be cleared, the folder no longer contains the prepared data
            set, or `system.cache_clear_command` changed the data set.
    """
    paths: Iterator[str] = iter(())
    if folder:
        recipe = load_dataset(dataset)
        recipe.check(Path(folder))
        paths = recipe.files(Path(folder))
        os.sync()  # the kernel can only drop pages that have been written to disk
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
    """A random sample of at most `limit` paths, drawn by reservoir sampling.

    All paths have the same probability to be in the sample. Each run draws a different sample, so
    users cannot predict which files are checked.
    """

    limit: int
    paths: list[str] = field(init=False, default_factory=list)
    _seen: int = field(init=False, default=0)

    def add(self, path: str) -> None:
        """Add a path, which may replace a path that is already in the sample."""
        self._seen += 1
        if len(self.paths) < self.limit:
            self.paths.append(path)
        elif (index := random.randrange(self._seen)) < self.limit:
            self.paths[index] = path


class Files:
    """Iterates once over the files of a data set, and samples their paths.

    A generator may provide the paths.
    """

    def __init__(self, folder: str, paths: Iterator[str]) -> None:
        self._inside = os.path.join(folder, "")
        self._paths = paths
        self._lock = threading.Lock()
        self._samples = {True: CacheSample(SAMPLED_INSIDE), False: CacheSample(SAMPLED_ELSEWHERE)}

    def sample(self) -> list[str]:
        """Return the sampled paths, both inside and outside the prepared folder."""
        return [path for sample in self._samples.values() for path in sample.paths]

    def look(self) -> None:
        """Draw the sample by iterating over all files, without dropping the files."""
        while self._next():
            pass

    def drop(self) -> None:
        """Advise the kernel to drop the pages of all files.

        The kernel may ignore the advice, so the caller must check how many pages remain.
        """
        with ThreadPoolExecutor(THREADS) as pool:
            try:
                for done in [pool.submit(self._drop_some) for _ in range(THREADS)]:
                    done.result()
            finally:
                # Remove the remaining paths. After an interrupt, each thread then only completes
                # its current batch of files.
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
    """Return a message about the files that are still in memory.

    The string is empty if at most the share MAX_RESIDENT of the sampled pages is in memory.
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
    # The overall share of resident pages detects a large file in memory. The mean share per file
    # detects many small files in memory.
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
    """Return how many of a file's pages are in the page cache, and its number of pages.

    The function does not read any page of the file. If the user neither owns the file nor may write
    to the file, the kernel reports all pages as resident (mincore(2), since Linux 5.2).

    Raises:
        OSError: The file cannot be opened, or the kernel does not report its pages.
    """
    with files.open_stream(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return 0, 0
        # The creation of the mapping does not read any page. The mapping is private because some
        # network file systems do not support shared mappings.
        mapping = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    pages, resident = -(-size // mmap.PAGESIZE), 0
    # `start` keeps the mapping alive and provides its address
    start = np.frombuffer(mapping, np.uint8)
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
    """Query which pages of a mapped address range are in memory.

    The range has `length` bytes and starts at `address`. The kernel writes one byte per page to the
    memory at `residency`.
    """
    mincore = _libc().mincore
    if mincore(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.c_void_p(residency)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(path))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _file_system(path: str) -> str:
    """Return the type of the file system that contains a file, such as `ext4` or `tmpfs`."""
    folders = {
        os.path.join(part.mountpoint, ""): part.fstype for part in psutil.disk_partitions(all=True)
    }
    around = [folder for folder in folders if os.path.realpath(path).startswith(folder)]
    return folders[max(around, key=len)] if around else "an unknown file system"


def main() -> int:
    """Clear the caches as the JSON request in the first argument specifies.

    The return value of `clear` is printed as JSON.
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
