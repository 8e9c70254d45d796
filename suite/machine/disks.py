"""Checks for full disks, because programs report a full disk in many ways, or not at all."""

from __future__ import annotations

import os
import tempfile

FULL_BYTES = 1 << 20
"""A disk with less free space counts as full.

A disk that refused a large block may still have some free space.
"""


def full(*paths: str | os.PathLike[str]) -> str:
    """Return the first full disk as `no space left in PATH (N bytes free)`, or `(no free inodes)`.

    Empty: no disk is full.

    The disks of `paths`, of temporary files, and of shared memory are checked, except read-only
    disks.
    """
    for path in (*paths, tempfile.gettempdir(), "/dev/shm"):
        try:
            disk = os.statvfs(path)
        except OSError:
            continue
        if disk.f_flag & os.ST_RDONLY:
            continue
        free = disk.f_bavail * disk.f_frsize
        if disk.f_blocks and free < FULL_BYTES:
            return f"no space left in {path} ({free} bytes free)"
        if disk.f_files and not disk.f_favail:
            return f"no space left in {path} (no free inodes)"
    return ""
