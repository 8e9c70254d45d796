"""Controller side of the connection to an agent: sends requests, waits for answers, and detects the loss of the machine."""

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
"""Interval in which a wait for a message checks whether the machine is lost."""
ENDED_BY_SCHEDULER = re.compile(r"CANCELLED|DUE TO|[Rr]evoked")
"""Matches the message of srun when SLURM ends a step: `*** STEP 1.0 ON node1 CANCELLED AT … DUE TO TIME LIMIT ***`."""
CLIENT_SECONDS = 2.0
"""Time limit for srun or ssh to exit after its agent."""
EXIT_REASON_SECONDS = 10.0
"""The same time limit if the machine is lost and the output may contain the reason: on a busy machine, srun takes seconds to
print why SLURM ended the step."""


@dataclass(frozen=True)
class Client:
    """Local process that carries the connection: srun or ssh. An agent that connects to the controller has no client."""

    process: subprocess.Popen[bytes]
    word: str
    """Name of the program: `srun` or `ssh`."""
    ending: Callable[[Message], list[str]]
    """Returns, from the facts of the agent, the command that kills the agent from outside. Empty if it cannot be killed."""
    errors: IO[bytes]
    """File with the standard error of the process."""

    def stderr_lines(self) -> list[str]:
        """Return the lines of the standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip().splitlines()


class AgentConnection:
    """Connection to the agent of a machine."""

    def __init__(
        self, name: str, wire: MessageStream, lease_seconds: float, wait_seconds: float, client: Client | None = None
    ) -> None:
        """Create the connection, without waiting for the agent.

        Args:
            name: Name of the machine as the user wrote it.
            wire: Stream of messages from and to the agent.
            lease_seconds: Longest silence of an agent that has sent its facts, in seconds.
            wait_seconds: Longest silence before the agent sends its facts, in seconds.
            client: Process that carries the connection. None: the agent connected to the controller.
        """
        self.name = name
        self.wire = wire
        self.lease_seconds = lease_seconds
        self.wait_seconds = wait_seconds
        self.port: int | None = None
        """Port of the rendezvous of the worker processes, if the user set `launch.port` and the port is on this machine."""
        self.facts: Message | None = None
        self.tell: Callable[[Message], None] = ignore_message
        """Receives the messages that are not answers, except facts and signals."""
        self._client = client
        self._numbers = itertools.count()
        self._answers: dict[int, Message] = {}
        self._signal = ""
        self._loss: HostFailure | None = None
        self._ended = False

    def greet(self) -> None:
        """Wait for the facts of the machine. Raises ValueError if it is lost, or has a different version of the suite."""
        while self.facts is None:
            if loss := self.failure():
                raise ValueError(loss.reason)
            self.listen(LOOK_SECONDS)
        if self.facts["suite"] != __version__:
            raise ValueError(
                f"machine {self.name} has version {self.facts['suite']} of the suite, and this machine has version "
                f"{__version__}. Install the same version on all machines"
            )

    def send_request(self, do: str, **order: Any) -> int:
        """Send a request, and return its number, with which `response` waits for the answer."""
        number = next(self._numbers)
        self.wire.send(do=do, id=number, **order)
        return number

    def get_response(self, number: int, seconds: float) -> Message:
        """Wait for the answer to a request, and return it.

        Args:
            number: Number of the request.
            seconds: Time limit.

        Raises:
            ConnectionLost: The machine is lost, or has not answered in time.
            ValueError: The agent could not carry out the request. The message is the agent's.
        """
        deadline = time.monotonic() + seconds
        while number not in self._answers:
            if loss := self.failure():
                raise ConnectionLost(loss.reason)
            if time.monotonic() > deadline:
                raise ConnectionLost(f"{self.name}: no answer within {seconds:g} s")
            self.listen(LOOK_SECONDS)
        response = self._answers.pop(number)
        if "error" in response:
            raise ValueError(f"{self.name}: {response['error']}")
        return response

    def call(self, do: str, seconds: float = 20.0, **order: Any) -> Message:
        """Send a request, wait up to `seconds` for the answer, and return it. Raises the errors of `response`."""
        return self.get_response(self.send_request(do, **order), seconds)

    def listen(self, seconds: float = 0.0) -> None:
        """Handle the messages that have arrived. Waits up to `seconds` for the first message."""
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
        """Return why the machine is lost, or None.

        A machine is lost if its connection has ended, if it has been silent for too long, or if its scheduler ends the run.
        """
        self.listen()
        if self._loss is None and self._signal:
            self._loss = HostFailure(
                "interrupted", f"machine {self.name} got {self._signal}: its scheduler ends the run"
            )
        elif self._loss is None and self.wire.ended.is_set():
            exit_description = self._exit_description()
            status = "interrupted" if ENDED_BY_SCHEDULER.search(exit_description) else "rank_died"
            self._loss = HostFailure(status, f"machine {self.name} is lost: {exit_description}")
        elif self._loss is None and self.wire.silent_seconds > self._patience:
            key = "wait_seconds" if self.facts is None else "lease_seconds"
            silent = f"silent for {self.wire.silent_seconds:.0f} s (launch.{key}={self._patience:g})"
            self._loss = HostFailure(
                "rank_died", f"machine {self.name} is lost: {silent}. The machine or its network is down"
            )
        return self._loss

    @property
    def _patience(self) -> float:
        """Longest silence in seconds before the machine counts as lost. It depends on whether the agent has sent its facts."""
        return self.wait_seconds if self.facts is None else self.lease_seconds

    def close(self) -> None:
        """Stop the agent and its client. An agent that cannot be reached stops when its lease runs out."""
        if self._loss is None:
            with contextlib.suppress(ConnectionLost, ValueError):
                self.call("leave", seconds=2.0)
        self.wire.close()
        if self._client is None:
            return
        if self._loss is not None and self.facts is not None and not self._ended:
            self._ended = True
            _start(self._client.ending(self.facts))  # a suspended agent or a step of SLURM may outlive its client
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._client.process.wait(CLIENT_SECONDS if self._loss is None else 0.1)
        if self._client.process.poll() is None:
            self._client.process.kill()
            self._client.process.wait()

    def _exit_description(self) -> str:
        """Return why the connection ended, according to the output of the client and of the machine."""
        if self._client is None:
            return "its agent closed the connection"
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._client.process.wait(EXIT_REASON_SECONDS)
        strange_lines = [line.strip() for line in (*self.wire.strange, *self._client.stderr_lines()) if line.strip()]
        relevant_lines = [line for line in strange_lines if ENDED_BY_SCHEDULER.search(line)] or strange_lines
        how = "has not ended" if code is None else f"ended with {exit_text(code)}"
        return f"{self._client.word} {how}{f': {relevant_lines[-1]}' if strange_lines else ''}"


def _start(argv: list[str]) -> None:
    """Start a command without waiting for it. The command may fail, because its machine may be unreachable."""
    if argv:
        with contextlib.suppress(OSError):
            subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )


def ignore_message(message: Message) -> None:
    """Discard a message. This is the handler between runs."""
