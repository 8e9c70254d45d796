"""Drops the data set from the page cache before a run and looks whether it is gone: so `cache_clear` in the log is decided.

`python -m suite.control.caches JSON` does it on another machine, asked for by the controller. `JSON`: what `clear` takes;
prints what it returns. Exit code 1 where what was asked for does not work.

What is to be dropped is what the run will read: `Dataset.files`. Whether it is gone is asked of the kernel (mincore(2)) for a
sample of these files, whatever was to clear the cache.
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
"""How long `system.cache_clear_command` may take, on every machine."""
MAX_RESIDENT = 0.001
"""Share of the sample that may be in memory still. It leaves room for single pages of a large file that another process
touches just then (a backup, an indexer), and none for one whole file of a full sample, which is more than a thousandth of it.
A thousandth of the reading saved is far below what times to train vary by."""
SAMPLED_INSIDE = 600
"""Files of the prepared folder that are looked at; there are seldom more."""
SAMPLED_ELSEWHERE = 200
"""The same of files elsewhere, mostly images: were one in fifty still in memory, 98 % of such samples would show it."""
THREADS = 8
"""Opening a file waits for the disk that holds its inode: so many waits overlap."""
FILES_AT_ONCE = 256
"""Files that a thread takes at a time."""
PAGES_AT_ONCE = 1 << 18
"""Pages that the kernel is asked about at a time (1 GiB of a file, of 4 KiB pages)."""
GONE = (FileNotFoundError, PermissionError)
"""A file that cannot be opened is not read by the run either, which says so itself."""


MANIFEST = "manifest.json"
"""File of a prepared folder that `suite data verify` touches without a change of its content."""
FileState = tuple[int | str, ...]


class DataStates:
    """States of sampled files of a data set, by which a later change is found.

    A state is device, inode, size and the times of the last changes of content and inode. The kernel sets the last one at each
    change and offers no call to set it back. Contents are not read again: that would put them into the page cache that was
    just cleared, and would take minutes for a large data set after every run.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._states = {path: _state(path) for path in paths}

    def find_change(self) -> str:
        """Return the path of a file that was changed, replaced or removed since, or an empty string."""
        return next((path for path, state in self._states.items() if _state(path) != state), "")

    def drop_manifests(self) -> None:
        """Drop the files that were read for their state from the page cache."""
        for path in self._states:
            if os.path.basename(path) == MANIFEST:
                _drop(path)


def _state(path: str) -> FileState:
    """Return what differs after a file has been written to or replaced. Empty: it cannot be opened."""
    try:
        if os.path.basename(path) == MANIFEST:
            return (hashlib.sha256(files.read_bytes(Path(path))).hexdigest(),)
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Cleared(NamedTuple):
    """What `clear_and_watch` did."""

    is_cleared: bool
    """True if the sampled files have left memory."""
    line: str
    """What stayed in memory. Empty if `is_cleared`."""
    states: DataStates
    """The data set as the run is going to read it."""


def clear(system: SystemConfig, dataset: str, folder: str) -> tuple[bool, str]:
    """Clear caches; see `clear_and_watch`. Returns its first two results."""
    return clear_and_watch(system, dataset, folder)[:2]


def clear_and_watch(system: SystemConfig, dataset: str, folder: str) -> Cleared:
    """Clear caches as the `system.*` settings say, else drop the files of the data set from the page cache.

    Args:
        system: The `system.*` settings.
        dataset: Name of the data set.
        folder: Folder of the prepared data set. Empty: synthetic data, for which nothing is cleared.

    Raises:
        ValueError: Clearing failed, the data are not those that were prepared, or the command changed them.
    """
    paths: Iterator[str] = iter(())
    if folder:
        recipe = load_dataset(dataset)
        recipe.check(Path(folder))
        paths = recipe.files(Path(folder))
        os.sync()  # what is not on disk yet stays in memory, whoever asks
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
            f"system.cache_clear_command changed the data set: {changed} is not the file that was checked before; let the "
            f"command clear caches only, or leave it out"
        )
    if not kept:
        states.drop_manifests()
    return Cleared(bool(folder) and not kept, f"cache_clear is false in the log: {kept}" if kept else "", states)


def _command(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"system.cache_clear_command: {error}") from None


def _drop_everything() -> None:
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
    except OSError as error:
        raise ValueError(f"system.drop_caches=true: {error}; run as root or type system.drop_caches=false") from None


@dataclass
class CacheSample:
    """At most `limit` of the paths that are added, each with the same chance (reservoir sampling), others in each run:
    which files are looked at cannot be foreseen."""

    limit: int
    paths: list[str] = field(init=False, default_factory=list)
    _seen: int = field(init=False, default=0)

    def add(self, path: str) -> None:
        """The next path of all."""
        self._seen += 1
        if len(self.paths) < self.limit:
            self.paths.append(path)
        elif (place := random.randrange(self._seen)) < self.limit:
            self.paths[place] = path


class Files:
    """The files of a data set, passed through once; a sample of them remains."""

    def __init__(self, folder: str, paths: Iterator[str]) -> None:
        self._inside = os.path.join(folder, "")
        self._paths = paths
        self._lock = threading.Lock()
        self._samples = {True: CacheSample(SAMPLED_INSIDE), False: CacheSample(SAMPLED_ELSEWHERE)}

    def sample(self) -> list[str]:
        """Those of all that were passed, from the prepared folder and elsewhere."""
        return [path for sample in self._samples.values() for path in sample.paths]

    def look(self) -> None:
        """Pass through all for the sample alone."""
        while self._next():
            pass

    def drop(self) -> None:
        """Tell the kernel that the pages of all are not needed; whether it obeyed is to be looked at."""
        with ThreadPoolExecutor(THREADS) as pool:
            try:
                for done in [pool.submit(self._drop_some) for _ in range(THREADS)]:
                    done.result()
            finally:
                self._paths = iter(())  # interrupted: the threads end after the files that they hold

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
    """What stayed in memory of these files, in words; empty if next to nothing did."""
    shares: dict[str, float] = {}
    resident = total = 0
    for path in paths:
        try:
            here, pages = resident_pages(path)
        except GONE:
            continue
        except OSError as error:
            return f"{path}: what of it is in memory cannot be told ({error.strerror})"
        if pages:
            shares[path] = here / pages
            resident, total = resident + here, total + pages
    if not shares:
        return "the data set has no file that can be looked at"
    # By pages and by files: neither one large file nor many small ones go unseen beside the others.
    if max(resident / total, sum(shares.values()) / len(shares)) <= MAX_RESIDENT:
        return ""
    first = max(shares, key=lambda path: shares[path])
    number = sum(share > 0 for share in shares.values())
    return (
        f"of {len(shares):,} files looked at, {number:,} stay in memory ({resident:,} of {total:,} pages), such as {first} on "
        f"{_file_system(first)}: a process maps or reads them, another user owns them, or the file system cannot drop them"
    )


def resident_pages(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Pages of a file that are in the page cache, and all its pages. Reads none of them. Raises OSError.

    Whoever neither owns a file nor may write it is told that all its pages are resident (mincore(2), since Linux 5.2).
    """
    with files.open_stream(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return 0, 0
        # Reads nothing. A private mapping: some network file systems allow no other.
        mapping = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    pages, resident = -(-size // mmap.PAGESIZE), 0
    start = np.frombuffer(mapping, np.uint8)  # holds the mapping; its address alone is looked at
    for first in range(0, pages, PAGES_AT_ONCE):
        count = min(PAGES_AT_ONCE, pages - first)
        residency = np.empty(count, np.uint8)
        offset = first * mmap.PAGESIZE
        _ask(start.ctypes.data + offset, min(size - offset, count * mmap.PAGESIZE), residency.ctypes.data, path)
        resident += int(np.count_nonzero(residency & 1))  # the other bits are reserved
    return resident, pages


def _ask(address: int, length: int, answer: int, path: str | os.PathLike[str]) -> None:
    call = _libc().mincore
    if call(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.c_void_p(answer)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(path))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _file_system(path: str) -> str:
    """Type of the file system that holds a file: `ext4`, `tmpfs`, …"""
    folders = {os.path.join(part.mountpoint, ""): part.fstype for part in psutil.disk_partitions(all=True)}
    around = [folder for folder in folders if os.path.realpath(path).startswith(folder)]
    return folders[max(around, key=len)] if around else "an unknown file system"


def main() -> int:
    """Clear the caches for the JSON request in the first argument, and print the result of `clear` as JSON."""
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
