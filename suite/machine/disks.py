"""Whether a disk is full: what fails of that says so in many ways, or not at all."""

from __future__ import annotations

import os
import tempfile

FULL_BYTES = 1 << 20
"""Less than this left: a disk that refused a large block may keep some."""


def full(*places: str | os.PathLike[str]) -> str:
    """`no space left in PLACE (N bytes free)`, or none for a file (inodes); empty if there is room.

    Looked at: `places`, temporary files and shared memory, where they can be written.
    """
    for place in (*places, tempfile.gettempdir(), "/dev/shm"):
        try:
            disk = os.statvfs(place)
        except OSError:
            continue
        if disk.f_flag & os.ST_RDONLY:
            continue
        free = disk.f_bavail * disk.f_frsize
        if disk.f_blocks and free < FULL_BYTES:
            return f"no space left in {place} ({free} bytes free)"
        if disk.f_files and not disk.f_favail:
            return f"no space left in {place} (no file more fits: inodes)"
    return ""
