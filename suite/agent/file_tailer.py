"""Send new file contents of a folder as events.

Each heartbeat file is sent in full whenever the file changes. For every other file, only the
appended bytes are sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from suite.agent.messages import FileEvent, HeartbeatEvent
from suite.common.run_folder import is_beat, is_temporary

CHUNK_BYTES = 192 << 10


class FileTailer:
    """Detects new contents of the files in a folder. Subfolders are ignored."""

    def __init__(self, folder: Path) -> None:
        """Start to follow the files in `folder`. Files that already exist are never sent."""
        self.folder = folder
        self.known_files = {entry.name for entry in os.scandir(folder)}
        """Names of files that are never sent, because the controller already has them."""
        self._sent: dict[str, tuple[int, int]] = {}
        """Maps a file name to the file's inode and the number of bytes already sent.

        A heartbeat file is mapped to its inode and its modification time (ns).
        """

    def new(self, most_bytes: float) -> Iterator[FileEvent | HeartbeatEvent]:
        """Yield new contents of the files as events.

        Heartbeats come last, so that a worker's final heartbeat never overtakes the output that the
        worker wrote before it.

        Args:
            most_bytes: Approximate maximum number of bytes to send. Heartbeats are sent even if
                `most_bytes` is reached or 0.
        """
        names = sorted(
            entry.name for entry in os.scandir(self.folder) if entry.is_file(follow_symlinks=False)
        )
        for name in sorted(names, key=is_beat):
            if name in self.known_files or is_temporary(name):
                continue
            try:
                if is_beat(name):
                    yield from self._beat(name)
                    continue
                for event in self._appended(name) if most_bytes > 0 else ():
                    yield event
                    most_bytes -= CHUNK_BYTES
                    if most_bytes <= 0:
                        break
            except FileNotFoundError:  # the file was replaced during the read
                continue

    def _beat(self, name: str) -> Iterator[HeartbeatEvent]:
        status = os.stat(self.folder / name)
        state = status.st_ino, status.st_mtime_ns
        if self._sent.get(name) != state:
            data = (self.folder / name).read_bytes()
            self._sent[name] = state
            yield HeartbeatEvent(name, data.decode(errors="replace"))

    def _appended(self, name: str) -> Iterator[FileEvent]:
        status = os.stat(self.folder / name)
        if self._sent.get(name) == (status.st_ino, status.st_size):
            return
        with open(self.folder / name, "rb") as stream:
            status = os.fstat(stream.fileno())
            inode, sent = self._sent.get(name, (None, 0))
            # Send the file from its start if the file is new, was replaced, or was truncated.
            whole = inode != status.st_ino or status.st_size < sent
            at = 0 if whole else sent
            while whole or at < status.st_size:
                stream.seek(at)
                data = stream.read(min(CHUNK_BYTES, status.st_size - at))
                self._sent[name] = status.st_ino, at + len(data)
                yield FileEvent(name, at, data)
                at, whole = at + len(data), False
                # The file was truncated during the read. The next call sends the file from its
                # start.
                if not data:
                    return
