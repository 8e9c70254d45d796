"""The controller's end of the line to one agent: asking, waiting, and noticing that it is gone."""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from suite import __version__
from suite.agent.message_stream import Message, MessageStream
from suite.control.hosts.host_control import ConnectionLost, HostFailure
from suite.launch.children import exit_text

LOOK_SECONDS = 0.2
ENDED_BY_SCHEDULER = re.compile(r"CANCELLED|DUE TO|[Rr]evoked")
"""What srun says when SLURM ends a step: `*** STEP 1.0 ON node1 CANCELLED AT … DUE TO TIME LIMIT ***`."""
CLIENT_SECONDS = 2.0
"""How long srun or ssh may take to leave after its agent."""
EXIT_REASON_SECONDS = 10.0
"""The same where its last words say why the machine is lost: on a busy machine srun takes seconds to say what SLURM did."""


@dataclass(frozen=True)
class Client:
    """The process that holds the line: srun or ssh; an agent that connected by itself has none."""

    process: subprocess.Popen[bytes]
    word: str
    """`srun`, `ssh`."""
    ending: Callable[[Message], list[str]]
    """From the agent's facts to the argv that ends it without its help; empty where there is none."""
    errors: IO[bytes]
    """What it wrote to its standard error."""

    def said(self) -> list[str]:
        """Lines of its standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip().splitlines()


class AgentConnection:
    """One agent."""

    def __init__(
        self, name: str, wire: MessageStream, lease_seconds: float, wait_seconds: float, client: Client | None = None
    ) -> None:
        """`name`: the machine's, as it was asked for. `wait_seconds`: how long it may be silent before its first word."""
        self.name = name
        self.wire = wire
        self.lease_seconds = lease_seconds
        self.wait_seconds = wait_seconds
        self.port: int | None = None
        """Where the processes are to meet, if that is the user's choice and on this machine."""
        self.facts: Message | None = None
        self.tell: Callable[[Message], None] = ignore_message
        """Gets what the agent says unasked, its facts and signals aside."""
        self._client = client
        self._numbers = itertools.count()
        self._answers: dict[int, Message] = {}
        self._signal = ""
        self._loss: HostFailure | None = None
        self._ended = False

    def greet(self) -> None:
        """Wait for the machine's first word. Raises ValueError if it is lost, or has another version of the suite."""
        while self.facts is None:
            if loss := self.failure():
                raise ValueError(loss.reason)
            self.listen(LOOK_SECONDS)
        if self.facts["suite"] != __version__:
            raise ValueError(
                f"machine {self.name} has version {self.facts['suite']} of the suite, this one {__version__}; "
                f"install the same everywhere"
            )

    def ask(self, do: str, **order: Any) -> int:
        """Send an order; `answer` waits for what comes of it."""
        number = next(self._numbers)
        self.wire.send(do=do, id=number, **order)
        return number

    def answer(self, number: int, seconds: float) -> Message:
        """Raises Gone if the machine is lost or late, ValueError with its words where the order could not be carried out."""
        deadline = time.monotonic() + seconds
        while number not in self._answers:
            if loss := self.failure():
                raise ConnectionLost(loss.reason)
            if time.monotonic() > deadline:
                raise ConnectionLost(f"{self.name}: no answer within {seconds:g} s")
            self.listen(LOOK_SECONDS)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise ValueError(f"{self.name}: {answer['error']}")
        return answer

    def call(self, do: str, seconds: float = 20.0, **order: Any) -> Message:
        return self.answer(self.ask(do, **order), seconds)

    def listen(self, seconds: float = 0.0) -> None:
        """Take in what has arrived, waiting up to `seconds` for the first of it."""
        for message in self.wire.received(seconds):
            if "answer" in message:
                self._answers[message["answer"]] = message
            elif "facts" in message:
                self.facts = message["facts"]
            elif "signal" in message:
                self._signal = message["signal"]
            else:
                self.tell(message)

    def failure(self) -> HostFailure | None:
        """Set once the machine is lost: its line has ended, it has been silent too long, or its scheduler ends it."""
        self.listen()
        if self._loss is None and self._signal:
            self._loss = HostFailure(
                "interrupted", f"machine {self.name} got {self._signal}: its scheduler ends the run"
            )
        elif self._loss is None and self.wire.ended.is_set():
            words = self._last_words()
            status = "interrupted" if ENDED_BY_SCHEDULER.search(words) else "rank_died"
            self._loss = HostFailure(status, f"machine {self.name} is lost: {words}")
        elif self._loss is None and self.wire.silent_seconds > self._patience:
            key = "wait_seconds" if self.facts is None else "lease_seconds"
            silent = f"silent for {self.wire.silent_seconds:.0f} s (launch.{key}={self._patience:g})"
            self._loss = HostFailure(
                "rank_died", f"machine {self.name} is lost: {silent}; it or the network to it is down"
            )
        return self._loss

    @property
    def _patience(self) -> float:
        """Seconds of silence that mean something: of an agent that speaks, or of one that has still to start."""
        return self.wait_seconds if self.facts is None else self.lease_seconds

    def close(self) -> None:
        """Let the agent leave; one that does not is left to its lease, its client is ended."""
        if self._loss is None:
            with contextlib.suppress(ConnectionLost, ValueError):
                self.call("leave", seconds=2.0)
        self.wire.close()
        if self._client is None:
            return
        if self._loss is not None and self.facts is not None and not self._ended:
            self._ended = True
            _start(self._client.ending(self.facts))  # a stopped agent, and a step of SLURM, may outlive their client
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._client.process.wait(CLIENT_SECONDS if self._loss is None else 0.1)
        if self._client.process.poll() is None:
            self._client.process.kill()
            self._client.process.wait()

    def _last_words(self) -> str:
        """Why the line ended, from what the client and the machine said."""
        if self._client is None:
            return "its agent closed the line"
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._client.process.wait(EXIT_REASON_SECONDS)
        strange_lines = [line.strip() for line in (*self.wire.strange, *self._client.said()) if line.strip()]
        telling = [line for line in strange_lines if ENDED_BY_SCHEDULER.search(line)] or strange_lines
        how = "does not end" if code is None else f"ended with {exit_text(code)}"
        return f"{self._client.word} {how}{f': {telling[-1]}' if strange_lines else ''}"


def _start(words: list[str]) -> None:
    """Start a command that ignore_message waits for; its machine may not be reached."""
    if words:
        with contextlib.suppress(OSError):
            subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )


def ignore_message(message: Message) -> None:
    """Between runs ignore_message listens."""
