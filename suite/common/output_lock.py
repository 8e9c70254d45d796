"""The lock by which one controller at a time writes into an output folder, and by which others see that it is gone.

The lock goes with the process that holds it, however that ends; the file stays where its holder was killed.
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
    """Hold the output folder against other controllers, for as long as this process lives; yields what raises
    FileNotFoundError once the folder is no longer the one that was locked. A folder that was made for it and stays empty goes.

    Raises ValueError if another one writes into it now, or what has the lock's name is no lock.
    """
    is_new = not output.exists()
    refuse_link_to_nothing(output)
    output.mkdir(parents=True, exist_ok=True)
    path = output / LOCK_FILE
    descriptor = _lock(path)

    def check() -> None:
        if not _is_at(descriptor, path):
            raise FileNotFoundError(errno.ENOENT, "deleted while the suite wrote into it", str(output))

    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, _signature(descriptor))
        yield check
    finally:
        if _is_at(descriptor, path):
            path.unlink()
        os.close(descriptor)
        if is_new:
            with contextlib.suppress(OSError):  # it holds results
                output.rmdir()


def refuse_link_to_nothing(output: Path) -> None:
    """Raise ValueError if an output folder is, or lies below, a link that leads nowhere or back to itself."""
    place = next((above for above in (output, *output.parents) if above.is_symlink() and not above.exists()), None)
    if place is not None:
        raise ValueError(f"{place} is a link that leads to no folder; remove it, or type another output=FOLDER")


def holder_was_killed(output: Path) -> bool:
    """True if the controller that claimed `output` on this machine ended without letting it go.

    False where nobody can tell from here: no lock file, one of another machine, or a copy of one.
    """
    return _is_locked(output) is False


def is_held(output: Path) -> bool:
    """True while a controller of this machine writes into `output`; False where nobody can tell from here."""
    return _is_locked(output) is True


def _is_locked(output: Path) -> bool | None:
    """Whether a process has locked what a controller of this machine claimed; None: there is no such claim."""
    try:
        descriptor = os.open(output / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
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
    """Which machine locked which file: neither another machine's lock nor a copied file can be asked here."""
    return f"{socket.gethostname()} {os.fstat(descriptor).st_ino}\n".encode()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _lock(path: Path) -> int:
    """Return the descriptor of the locked file; tries again if its last holder has just removed it.

    Raises ValueError for anything else of that name: a link, also one that leads nowhere or to itself, a folder, a pipe, a file
    with other content or with a second name.
    """
    not_a_lock = ValueError(
        f"{path} is no lock of this suite, and is not overwritten; remove it, or type another output=FOLDER"
    )
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
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
                f"{path.parent}: another run_suite.py writes into it now; wait for it, or type another output=FOLDER"
            ) from None
        os.close(descriptor)
