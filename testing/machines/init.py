"""Process 1 of a virtual machine.

The process creates the mounts of the machine, prints `ready`, and reaps orphaned processes until it
is killed.

With the option "fed", process 1 also exits when its standard input is closed because its parent
process has exited. The exit of process 1 ends all processes of the machine.

The script runs inside `unshare` and needs only the standard library. Its argument is a JSON object
with the keys name, tmp, hosts, keep, and fed.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import threading

MS_BIND, MS_REC = 0x1000, 0x4000  # mount(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind=None, flags=0, options=None):
    """Mount a file system through the C library.

    Raises OSError if the mount fails.
    """
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if _LIBC.mount(*words, flags, None if options is None else options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def bind(source, target):
    """Mount the folder or file `source` at `target`, including the mounts below `source`."""
    mount(source, target, flags=MS_BIND | MS_REC)


def replace_tmp(folder, keep):
    """Mount `folder` at `/tmp`.

    The paths `keep` below /tmp remain visible.
    """
    for path in keep:
        inside = os.path.join(folder, os.path.relpath(path, "/tmp"))
        os.makedirs(inside, exist_ok=True)
        bind(path, inside)
    bind(folder, "/tmp")


def reap():
    """Reap exited child processes in an endless loop."""
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def end_with_input():
    """Exit when standard input is closed. The exit of process 1 stops the machine."""
    sys.stdin.buffer.read()
    os._exit(0)


def main():
    """Set up the machine, print `ready`, and reap child processes."""
    machine = json.loads(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    os.umask(0o022)
    socket.sethostname(machine["name"])
    bind(machine["hosts"], "/etc/hosts")
    replace_tmp(machine["tmp"], machine["keep"])
    mount("tmpfs", "/dev/shm", "tmpfs", options="mode=1777")
    mount("tmpfs", "/run", "tmpfs", options="mode=755")
    os.mkdir("/run/sshd", 0o755)
    os.chdir("/")
    os.write(sys.stdout.fileno(), b"ready\n")
    os.close(sys.stdout.fileno())
    if machine["fed"]:
        threading.Thread(target=end_with_input, daemon=True).start()
    reap()


if __name__ == "__main__":
    main()
