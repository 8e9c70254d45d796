"""Message streams between controller and agent, with one JSON object per line.

Controller and agent send a keep-alive message when idle. JSON escapes line breaks, so each line is
exactly one message (suite/agent/messages.py). A reader thread and a writer thread serve the
streams, so neither process blocks while its peer is slow. If the connection is down, messages are
queued.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

BEAT_SECONDS = 1.0
"""Maximum interval in seconds between two sent messages.

If the queue is empty, the writer sends `{}` as a keep-alive message.
"""
STRANGE_LINES = 20
"""Maximum number of received non-message lines to keep. Examples are greetings of a login shell, or
the error message of an agent that failed to start.
"""

Message = Mapping[str, Any]


class MessageStream:
    """The controller's or the agent's end of the connection between them.

    `send` queues a message, and `received` yields the messages that have arrived.
    """

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self.heard = time.monotonic()
        """Time (`time.monotonic`) of the last message or keep-alive message from the peer."""
        self.ended = threading.Event()
        """Set when the peer has closed the connection."""
        self.strange: list[str] = []
        """The last `STRANGE_LINES` received lines that were not messages."""
        self._reader, self._writer = reader, writer
        self._incoming: queue.Queue[Message | None] = queue.Queue()
        self._outgoing: queue.Queue[Message | None] = queue.Queue()
        self._writing = threading.Thread(target=self._write, name="wire writer", daemon=True)
        self._writing.start()
        threading.Thread(target=self._read, name="wire reader", daemon=True).start()

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since the last message or keep-alive message from the peer."""
        return time.monotonic() - self.heard

    @property
    def backlog(self) -> int:
        """Return the number of messages that wait to be sent."""
        return self._outgoing.qsize()

    def send(self, **message: Any) -> None:
        """Queue a message. Return immediately, even if the peer no longer reads."""
        self._outgoing.put(message)

    def received(self, seconds: float) -> Iterator[Message]:
        """Yield the messages that have arrived. Wait up to `seconds` for the first message."""
        with contextlib.suppress(queue.Empty):
            while True:
                message = (
                    self._incoming.get(timeout=seconds)
                    if seconds > 0
                    else self._incoming.get_nowait()
                )
                # Put the end marker back into the queue, so that later calls do not wait.
                if message is None:
                    self._incoming.put(None)
                    return
                yield message
                seconds = 0.0

    def close(self, seconds: float = 1.0) -> None:
        """Send the queued messages, and close the outgoing stream.

        The method returns after at most `seconds`, even if some messages were not sent.
        """
        self._outgoing.put(None)
        self._writing.join(seconds)

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the peer is gone, or the stream is closed
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
                    self.strange = [*self.strange, line.decode(errors="replace").strip()][
                        -STRANGE_LINES:
                    ]
                    continue
                self.heard = time.monotonic()
                if message:
                    self._incoming.put(message)
        self.ended.set()
        self._incoming.put(None)


def _message(line: bytes) -> Message | None:
    """Return the message in a line, or None if the line is not a JSON object."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(line)
        if isinstance(value, dict):
            return value
    return None
