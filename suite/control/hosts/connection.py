"""The controller's end of the connection to an agent.

The connection sends requests, waits for responses, and detects that a machine is lost.
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
"""Interval in seconds at which the controller checks, while waiting for messages, whether the
machine is lost.
"""
CLIENT_SECONDS = 2.0
"""Time limit in seconds for srun or ssh to exit after the agent has exited."""
EXIT_REASON_SECONDS = 10.0
"""Time limit in seconds for srun or ssh to exit if the machine is lost. The limit is longer than
`CLIENT_SECONDS`, because srun on a busy machine takes seconds to print why SLURM ended the step.
"""


@dataclass(frozen=True)
class Client:
    """Local srun or ssh process that provides the connection to an agent.

    If the agent itself connects to the controller, the connection has no client.
    """

    process: subprocess.Popen[bytes]
    word: str
    """Name of the client program: `srun` or `ssh`."""
    ending: Callable[[HostFacts], list[str]]
    """Function that returns the command that kills the agent, given the machine's description. The
    agent does not have to cooperate.

    The returned list is empty if no such command exists.
    """
    errors: IO[bytes]
    """File to which the client's standard error is written."""

    def stderr_lines(self) -> list[str]:
        """Return the lines of the client's standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip().splitlines()


@dataclass(frozen=True)
class PendingResponse(Generic[T]):
    """A sent request whose response has not been read yet."""

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
            name: Name of the machine as given by the user.
            stream: Stream of messages from and to the agent.
            lease_seconds: Maximum time without messages after the agent has described its machine,
                in seconds.
            wait_seconds: Maximum time without messages before the agent has described its machine,
                in seconds.
            client: Process that provides the connection, or None if the agent connected to the
                controller.
        """
        self.name = name
        self.stream = stream
        self.lease_seconds = lease_seconds
        self.wait_seconds = wait_seconds
        self.port: int | None = None
        """Port for the rendezvous of the worker processes. The port is None if the user did not set
        `launch.port`, or if the rendezvous is on another machine.
        """
        self.facts: HostFacts | None = None
        self.on_event: Callable[[Event], None] = ignore_event
        """Function that receives the agent's events. The description of the machine and signals are
        not passed to the function.
        """
        self._client = client
        self._numbers = itertools.count()
        self._responses: dict[int, Response] = {}
        self._signal = ""
        self._loss: HostFailure | None = None
        self._ended = False

    def greet(self) -> None:
        """Wait for the agent's description of the machine.

        Raises ValueError if the machine is lost, or has a different version of the suite.
        """
        while self.facts is None:
            if loss := self.failure():
                raise ValueError(loss.reason)
            self.listen(LOOK_SECONDS)
        if self.facts.suite != __version__:
            raise ValueError(_version_text(self.name, self.facts.suite))

    def send_request(self, request: Request[T], **arguments: Any) -> PendingResponse[T]:
        """Send a request without waiting. Call `get_response` to wait for the response."""
        number = next(self._numbers)
        self.stream.send(do=request.name, id=number, **arguments)
        return PendingResponse(number, request)

    def get_response(self, pending: PendingResponse[T], seconds: float) -> T:
        """Wait for the response to a request, and return it.

        Args:
            pending: The request.
            seconds: Time limit.

        Raises:
            ConnectionLost: The machine is lost, or did not respond in time.
            ValueError: The agent could not execute the request. The message comes from the agent.
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
        """Send a request, wait up to `seconds` for the response, and return the response.

        The raised errors are the same as for `get_response`.
        """
        return self.get_response(self.send_request(request, **arguments), seconds)

    def listen(self, seconds: float = 0.0) -> None:
        """Process the messages that have arrived. Wait up to `seconds` for the first message."""
        for message in self.stream.received(seconds):
            try:
                received = decode_message(message)
            except MessageError as error:
                if self.facts is None and "facts" not in message:
                    continue  # the line is output of a login shell
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
        """Return the reason why the machine is lost, or None if the machine is not lost.

        A machine is lost if its connection has closed, if no message arrived for too long, or if
        the machine's scheduler ends the run.
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
        """Return the maximum time in seconds without messages from the machine.

        The maximum is different before and after the agent has described its machine.
        """
        return self.wait_seconds if self.facts is None else self.lease_seconds

    def close(self) -> None:
        """Stop the agent and its client process.

        An agent that cannot be reached stops when its lease expires.
        """
        if self._loss is None:
            with contextlib.suppress(ConnectionLost, ValueError):
                self.call(LEAVE, seconds=2.0)
        self.stream.close()
        if self._client is None:
            return
        if self._loss is not None and self.facts is not None and not self._ended:
            self._ended = True
            # Kill the agent explicitly, because a suspended agent or a SLURM step may outlive its
            # client process.
            _start(self._client.ending(self.facts))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._client.process.wait(CLIENT_SECONDS if self._loss is None else 0.1)
        if self._client.process.poll() is None:
            self._client.process.kill()
            self._client.process.wait()

    def _exit_description(self) -> tuple[str, bool]:
        """Return why the connection ended, and whether a scheduler ended the connection.

        Both return values are derived from the output of the client process.
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
    """Start a command without waiting for its exit.

    Failures are ignored, because the machine of the command may be unreachable.
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
    """Ignore an event. This handler receives the events of an agent between two runs."""


def _version_text(name: str, version: str) -> str:
    """Return the error message for a machine with a different version of the suite."""
    return (
        f"machine {name} has version {version} of the suite, and this machine has version"
        f" {__version__}. Install the same version on all machines"
    )


def _different_copy_text(name: str, error: MessageError) -> str:
    """Return the error message for a machine with a modified copy of the suite.

    The version numbers of the two copies are equal, but their messages have different formats.
    """
    return (
        f"machine {name} has a different copy of version {__version__} of the suite ({error}). "
        "Install the same version on all machines"
    )


def _mismatch_text(name: str, version: str, message: Message, error: MessageError) -> str:
    """Return the error message for a message that this version of the suite cannot decode.

    Args:
        name: Name of the machine.
        version: Version of the suite on the machine, according to an earlier message. An empty
            string means that the version is unknown.
        message: The message that cannot be decoded. If the message describes the machine, the
            message may contain the version.
        error: Error that the decoder raised.
    """
    facts = message.get("facts")
    if isinstance(facts, dict):
        version = str(facts.get("suite", version))
    if version in ("", __version__):
        return _different_copy_text(name, error)
    return _version_text(name, version[:40])
