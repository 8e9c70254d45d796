"""Messages between controller and agent: a JSON object a line over a pair of streams, with a beat whenever there is silence.

JSON escapes line ends and bytes travel as base64, so a line is a message. Neither side ever waits for the other: a thread
reads, another writes, and a link that is down fills a queue instead of blocking whoever sends.
"""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

BEAT_SECONDS = 1.0
"""Longest silence of a side that lives."""
STRANGE_LINES = 20
"""Lines of something else that are kept: greetings of a login shell, or why an agent could not start."""

Message = Mapping[str, Any]


class MessageStream:
    """One end of the line. What arrives is read with `received`."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self.heard = time.monotonic()
        """When the other side was heard last."""
        self.ended = threading.Event()
        """Set when the other side has closed its end."""
        self.strange: list[str] = []
        """Lines that are no messages."""
        self._reader, self._writer = reader, writer
        self._incoming: queue.Queue[Message | None] = queue.Queue()
        self._outgoing: queue.Queue[Message | None] = queue.Queue()
        self._writing = threading.Thread(target=self._write, name="wire writer", daemon=True)
        self._writing.start()
        threading.Thread(target=self._read, name="wire reader", daemon=True).start()

    @property
    def silent_seconds(self) -> float:
        """How long the other side has said nothing, not even a beat."""
        return time.monotonic() - self.heard

    @property
    def backlog(self) -> int:
        """Messages that wait to be sent."""
        return self._outgoing.qsize()

    def send(self, **message: Any) -> None:
        """Put a message on its way; returns at once, also where nobody listens any more."""
        self._outgoing.put(message)

    def received(self, seconds: float) -> Iterator[Message]:
        """What has arrived, waiting up to `seconds` for the first message."""
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._incoming.get(timeout=seconds) if seconds > 0 else self._incoming.get_nowait()
                if message is None:  # the end: nothing follows, so later calls must not wait
                    self._incoming.put(None)
                    return
                yield message
                seconds = 0.0

    def close(self, seconds: float = 1.0) -> None:
        """Send what waits, as far as that goes within `seconds`, and close the writing end."""
        self._outgoing.put(None)
        self._writing.join(seconds)

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more, or the stream is closed
            while True:
                try:
                    message = self._outgoing.get(timeout=BEAT_SECONDS)
                except queue.Empty:
                    message = {}
                if message is None:
                    break
                self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
                self._writer.flush()
        with contextlib.suppress(OSError, ValueError):
            self._writer.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self._reader:
                message = _message(line)
                if message is None:
                    self.strange = [*self.strange, line.decode(errors="replace").strip()][-STRANGE_LINES:]
                    continue
                self.heard = time.monotonic()
                if message:
                    self._incoming.put(message)
        self.ended.set()
        self._incoming.put(None)


def _message(line: bytes) -> Message | None:
    """The message of a line; None for a line of something else."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(line)
        if isinstance(value, dict):
            return value
    return None


def packed(data: bytes) -> str:
    """Bytes as a text of a message."""
    return base64.b64encode(data).decode()


def unpacked(text: str) -> bytes:
    """Inverse of `packed`."""
    return base64.b64decode(text)
