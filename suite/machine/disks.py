"""Check for full disks.

Programs report a full disk in different ways or not at all, so the suite checks the free disk
space.
"""

from __future__ import annotations

import os
import tempfile

FULL_BYTES = 1 << 20
"""Free space in bytes below which a disk counts as full.

The limit is above 0, because a disk that is too full for a large write may still have some free
bytes.
"""


def full(*paths: str | os.PathLike[str]) -> str:
    """Return a description of the first full disk, or an empty string.

    The description is `no space left in PATH (N bytes free)`, or ends with `(no free inodes)` if
    the disk has no free inodes. The function checks the disks that contain `paths`, the temporary
    folder, and the shared memory. Read-only disks are skipped.
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
