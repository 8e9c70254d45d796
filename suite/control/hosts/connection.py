"""Controller side of the connection to an agent.

It sends requests, waits for answers, and detects the loss of the machine.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeVar

from suite import __version__
from suite.agent.message_stream import Message, MessageStream
from suite.agent.messages import (
    LEAVE,
    Event,
    MessageError,
    Request,
    Response,
    SignalEvent,
    decode,
    decode_message,
)
from suite.control.hosts.host_control import ConnectionLost, HostFailure
from suite.control.hosts.scheduler_text import find_scheduler_lines
from suite.launch.children import exit_text
from suite.launch.host_facts import HostFacts

T = TypeVar("T")

LOOK_SECONDS = 0.2
"""Interval in which a wait for a message checks whether the machine is lost."""
CLIENT_SECONDS = 2.0
"""Time limit for srun or ssh to exit after its agent."""
EXIT_REASON_SECONDS = 10.0
"""The same time limit if the machine is lost and the output may contain the reason: on a busy
machine, srun takes seconds to print why SLURM ended the step.
"""


@dataclass(frozen=True)
class Client:
    """Local process that carries the connection: srun or ssh.

    An agent that connects to the controller has no client.
    """

    process: subprocess.Popen[bytes]
    word: str
    """Name of the program: `srun` or `ssh`."""
    ending: Callable[[HostFacts], list[str]]
    """Returns, from the description of the machine, the command that kills the agent from outside.

    Empty: there is none.
    """
    errors: IO[bytes]
    """File with the standard error of the process."""

    def stderr_lines(self) -> list[str]:
        """Return the lines of the standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip().splitlines()


@dataclass(frozen=True)
class PendingResponse(Generic[T]):
    """A request that was sent."""

    number: int
    request: Request[T]


class AgentConnection:
    """Connection to the agent of a machine."""

    def __init__(
        self,
        name: str,
        stream: MessageStream,
        lease_seconds: float,
        wait_seconds: float,
        client: Client | None = None,
    ) -> None:
        """Create the connection, without waiting for the agent.

        Args:
            name: Name of the machine as the user wrote it.
            stream: Stream of messages from and to the agent.
            lease_seconds: Longest silence of an agent that has sent its facts, in seconds.
            wait_seconds: Longest silence before the agent sends its facts, in seconds.
            client: Process that carries the connection. None: the agent connected to the
                controller.
        """
        self.name = name
        self.stream = stream
        self.lease_seconds = lease_seconds
        self.wait_seconds = wait_seconds
        self.port: int | None = None
        """Port of the rendezvous of the worker processes, if the user set `launch.port` and the
        port is on this machine.
        """
        self.facts: HostFacts | None = None
        self.on_event: Callable[[Event], None] = ignore_event
        """Receives the events of the agent, except the description of the machine and signals."""
        self._client = client
        self._numbers = itertools.count()
        self._responses: dict[int, Response] = {}
        self._signal = ""
        self._loss: HostFailure | None = None
        self._ended = False

    def greet(self) -> None:
        """Wait for the facts of the machine.

        Raises ValueError if it is lost, or has a different version of the suite.
        """
        while self.facts is None:
            if loss := self.failure():
                raise ValueError(loss.reason)
            self.listen(LOOK_SECONDS)
        if self.facts.suite != __version__:
            raise ValueError(_version_text(self.name, self.facts.suite))

    def send_request(self, request: Request[T], **arguments: Any) -> PendingResponse[T]:
        """Send a request. `get_response` waits for its response."""
        number = next(self._numbers)
        self.stream.send(do=request.name, id=number, **arguments)
        return PendingResponse(number, request)

    def get_response(self, pending: PendingResponse[T], seconds: float) -> T:
        """Wait for the response to a request, and return it.

        Args:
            pending: The request.
            seconds: Time limit.

        Raises:
            ConnectionLost: The machine is lost, or has not answered in time.
            ValueError: The agent could not carry out the request. The message is the agent's.
        """
        deadline = time.monotonic() + seconds
        while pending.number not in self._responses:
            if loss := self.failure():
                raise ConnectionLost(loss.reason)
            if time.monotonic() > deadline:
                raise ConnectionLost(f"{self.name}: no answer within {seconds:g} s")
            self.listen(LOOK_SECONDS)
        response = self._responses.pop(pending.number)
        if response.error is not None:
            raise ValueError(f"{self.name}: {response.error}")
        try:
            return decode(pending.request.response, response.response)
        except MessageError as error:
            raise ValueError(_different_copy_text(self.name, error)) from None

    def call(self, request: Request[T], seconds: float = 20.0, **arguments: Any) -> T:
        """Send a request, wait up to `seconds` for the response, and return it.

        Raises the errors of `get_response`.
        """
        return self.get_response(self.send_request(request, **arguments), seconds)

    def listen(self, seconds: float = 0.0) -> None:
        """Handle the messages that have arrived. Waits up to `seconds` for the first message."""
        for message in self.stream.received(seconds):
            try:
                received = decode_message(message)
            except MessageError as error:
                if self.facts is None and "facts" not in message:
                    continue  # output of a login shell
                version = self.facts.suite if self.facts else ""
                reason = _mismatch_text(self.name, version, message, error)
                self._loss = self._loss or HostFailure("rank_died", reason)
                continue
            match received:
                case Response():
                    self._responses[received.answer] = received
                case HostFacts():
                    self.facts = received
                case SignalEvent():
                    self._signal = received.name
                case _:
                    self.on_event(received)

    def failure(self) -> HostFailure | None:
        """Return why the machine is lost, or None.

        A machine is lost if its connection has ended, if it has been silent for too long, or if its
        scheduler ends the run.
        """
        self.listen()
        if self._loss is None and self._signal:
            self._loss = HostFailure(
                "interrupted", f"machine {self.name} got {self._signal}: its scheduler ends the run"
            )
        elif self._loss is None and self.stream.ended.is_set():
            exit_description, by_scheduler = self._exit_description()
            status = "interrupted" if by_scheduler else "rank_died"
            self._loss = HostFailure(status, f"machine {self.name} is lost: {exit_description}")
        elif self._loss is None and self.stream.silent_seconds > self._patience:
            key = "wait_seconds" if self.facts is None else "lease_seconds"
            silent = (
                f"silent for {self.stream.silent_seconds:.0f} s (launch.{key}={self._patience:g})"
            )
            self._loss = HostFailure(
                "rank_died",
                f"machine {self.name} is lost: {silent}. The machine or its network is down",
            )
        return self._loss

    @property
    def _patience(self) -> float:
        """Longest silence in seconds before the machine counts as lost.

        It depends on whether the agent has sent its facts.
        """
        return self.wait_seconds if self.facts is None else self.lease_seconds

    def close(self) -> None:
        """Stop the agent and its client.

        An agent that cannot be reached stops when its lease runs out.
        """
        if self._loss is None:
            with contextlib.suppress(ConnectionLost, ValueError):
                self.call(LEAVE, seconds=2.0)
        self.stream.close()
        if self._client is None:
            return
        if self._loss is not None and self.facts is not None and not self._ended:
            self._ended = True
            # A suspended agent or a step of SLURM may outlive its client.
            _start(self._client.ending(self.facts))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._client.process.wait(CLIENT_SECONDS if self._loss is None else 0.1)
        if self._client.process.poll() is None:
            self._client.process.kill()
            self._client.process.wait()

    def _exit_description(self) -> tuple[str, bool]:
        """Return why the connection ended, and whether a scheduler ended it.

        Both come from the output of the client.
        """
        if self._client is None:
            return "its agent closed the connection", False
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._client.process.wait(EXIT_REASON_SECONDS)
        strange_lines = [
            line.strip()
            for line in (*self.stream.strange, *self._client.stderr_lines())
            if line.strip()
        ]
        scheduler_lines = find_scheduler_lines(strange_lines)
        relevant_lines = scheduler_lines or strange_lines
        how = "has not ended" if code is None else f"ended with {exit_text(code)}"
        text = f"{self._client.word} {how}{f': {relevant_lines[-1]}' if strange_lines else ''}"
        return text, bool(scheduler_lines)


def _start(argv: list[str]) -> None:
    """Start a command without waiting for it.

    The command may fail, because its machine may be unreachable.
    """
    if argv:
        with contextlib.suppress(OSError):
            subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )


def ignore_event(event: Event) -> None:
    """Discard an event. This is the handler between runs."""


def _version_text(name: str, version: str) -> str:
    """Return the error message for a machine with another version of the suite."""
    return (
        f"machine {name} has version {version} of the suite, and this machine has version"
        f" {__version__}. Install the same version on all machines"
    )


def _different_copy_text(name: str, error: MessageError) -> str:
    """Return the error message for a machine whose copy of the suite sends different messages.

    The version number of this copy is the same.
    """
    return (
        f"machine {name} has a different copy of version {__version__} of the suite ({error}). "
        "Install the same version on all machines"
    )


def _mismatch_text(name: str, version: str, message: Message, error: MessageError) -> str:
    """Return the error message for a message that this version of the suite cannot read.

    Args:
        name: Name of the machine.
        version: Version of its suite, according to an earlier message. Empty: unknown.
        message: The message. The facts of the machine may name the version.
        error: Why the message cannot be read.
    """
    facts = message.get("facts")
    if isinstance(facts, dict):
        version = str(facts.get("suite", version))
    if version in ("", __version__):
        return _different_copy_text(name, error)
    return _version_text(name, version[:40])
