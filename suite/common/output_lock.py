"""Lock an output folder, so that only one controller writes into it at a time.

The kernel releases the lock whenever the controller ends. If the controller was killed, its lock
file remains. From a lock file that is not locked, later commands detect that the controller was
killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

LOCK_FILE = ".lock"
_SIGNATURE = re.compile(rb"(\S+ \d+\n)?")


@contextlib.contextmanager
def output_locked(output: Path) -> Iterator[Callable[[], None]]:
    """Lock an output folder while the `with` block runs.

    The folder is created if it does not exist. A folder that this function created is removed if it
    stays empty.

    Yields:
        A function that raises FileNotFoundError if the locked folder was deleted or replaced.

    Raises:
        ValueError: A different controller holds the lock, or the lock file was not written by this
            suite.
    """
    is_new = not output.exists()
    refuse_link_to_nothing(output)
    output.mkdir(parents=True, exist_ok=True)
    path = output / LOCK_FILE
    descriptor = _lock(path)

    def check() -> None:
        if not _is_at(descriptor, path):
            raise FileNotFoundError(
                errno.ENOENT, "deleted while the suite wrote into it", str(output)
            )

    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, _signature(descriptor))
        yield check
    finally:
        if _is_at(descriptor, path):
            path.unlink()
        os.close(descriptor)
        if is_new:
            with contextlib.suppress(OSError):  # the folder is not empty
                output.rmdir()


def refuse_link_to_nothing(output: Path) -> None:
    """Raise ValueError if an output folder or any parent is a broken symbolic link.

    A circular link also counts as broken.
    """
    link = next(
        (above for above in (output, *output.parents) if above.is_symlink() and not above.exists()),
        None,
    )
    if link is not None:
        raise ValueError(
            f"{link} is a broken link. Remove the link, or set a different output=FOLDER"
        )


def holder_was_killed(output: Path) -> bool:
    """Check whether the controller that locked `output` on this machine was killed.

    A controller that was killed leaves an unlocked lock file. Returns False if there is no lock
    file, or if the lock file was copied or comes from a different machine.
    """
    return _is_locked(output) is False


def is_held(output: Path) -> bool:
    """Check whether a controller on this machine holds the lock of `output`.

    Returns False if the check is impossible.
    """
    return _is_locked(output) is True


def _is_locked(output: Path) -> bool | None:
    """Return whether a process holds the lock of `output`.

    Returns None if `output` contains no lock file from this machine.
    """
    try:
        descriptor = os.open(
            output / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        )
    except OSError:
        return None
    try:
        signed = _signature(descriptor)
        if os.read(descriptor, len(signed) + 1) != signed:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _signature(descriptor: int) -> bytes:
    """Return the content of a lock file: the machine's name and the inode of the file.

    A lock can be checked only on the machine that holds the lock, and not through a copy of the
    lock file. The content of the lock file identifies the machine and the original file.
    """
    return f"{socket.gethostname()} {os.fstat(descriptor).st_ino}\n".encode()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _lock(path: Path) -> int:
    """Lock the file and return its file descriptor.

    The function tries again if the previous holder has just removed the file.

    Raises:
        ValueError: A different process holds the lock, or the path is not a lock file. The path may
            be a symbolic link, a folder, a pipe, a file with different content, or a file with a
            second hard link.
    """
    not_a_lock = ValueError(
        f"{path} is not a lock file of this suite, so it is not overwritten. Remove it, or set a"
        " different output=FOLDER"
    )
    while True:
        try:
            descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
            )
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EMLINK):
                raise not_a_lock from None
            raise
        try:
            facts = os.fstat(descriptor)
            is_plain = stat.S_ISREG(facts.st_mode) and facts.st_nlink <= 1
            if not is_plain or not _SIGNATURE.fullmatch(os.pread(descriptor, 512, 0)):
                os.close(descriptor)
                raise not_a_lock
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise ValueError(
                f"{path.parent}: a running run_suite.py already writes into this folder. Wait for"
                " it, or set a different output=FOLDER"
            ) from None
        os.close(descriptor)
