"""Process 1 of a machine: makes its mounts, says that it is ready, and reaps what its parents left,
until it is killed.

With "fed" it also ends, and all processes of the machine with it, when its input does: when whoever
made it is gone.

Runs with the standard library alone, inside `unshare`, and takes a JSON object: name, tmp, hosts,
keep, fed.
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
    """mount(2). Raises OSError."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if _LIBC.mount(*words, flags, None if options is None else options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def bind(source, target):
    """The folder or file `source`, with what is mounted in it, stands at `target` too."""
    mount(source, target, flags=MS_BIND | MS_REC)


def own_tmp(folder, keep):
    """`/tmp` is `folder`, in which the paths `keep`, all below /tmp, stand as before."""
    for path in keep:
        inside = os.path.join(folder, os.path.relpath(path, "/tmp"))
        os.makedirs(inside, exist_ok=True)
        bind(path, inside)
    bind(folder, "/tmp")


def reap():
    """Wait for children that end, for ever."""
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def end_with_input():
    """End, and the whole machine with it, once nobody holds the other end of our input."""
    sys.stdin.buffer.read()
    os._exit(0)


def main():
    """Set up, say `ready`, reap."""
    machine = json.loads(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    os.umask(0o022)
    socket.sethostname(machine["name"])
    bind(machine["hosts"], "/etc/hosts")
    own_tmp(machine["tmp"], machine["keep"])
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
