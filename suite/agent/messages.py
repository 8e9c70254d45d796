"""Messages between controller and agent as dataclasses, and their encoding as JSON objects.

- The agent sends events: `{"KIND": {FIELD: VALUE, …}}`, with the kinds of `EVENTS`.
- The controller sends requests: `{"do": NAME, "id": n, ARGUMENT: VALUE, …}`, with the names of the
  `Request` constants.
- The agent answers each request: `{"answer": n, "response": {FIELD: VALUE, …}}` or
  `{"answer": n, "error": TEXT}`.

Bytes are encoded as base64. Both sides have the same version of the suite, so an unknown key is an
error.
"""

from __future__ import annotations

import base64
import binascii
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Generic, TypeVar

from suite.launch.host_facts import HostFacts

T = TypeVar("T")


class MessageError(ValueError):
    """A message does not have the keys or the types that this version of the suite expects."""


@dataclass(frozen=True)
class ExitEvent:
    """A command ended."""

    name: str
    """Name of the command, such as `worker-0`."""
    code: int
    """Exit code. A signal is a negative number."""
    full_disk: str
    """Which disk of the machine is full, if the command failed. Empty: none is full."""


@dataclass(frozen=True)
class GoneEvent:
    """Workers ended."""

    pids: tuple[int, ...]


@dataclass(frozen=True)
class HeartbeatEvent:
    """A worker replaced its heartbeat file."""

    name: str
    """Name of the file."""
    content: str


@dataclass(frozen=True)
class FileEvent:
    """A file grew, or is new."""

    name: str
    """Name of the file."""
    offset: int
    """Offset of the data in bytes. 0: the file is new, and replaces an earlier file with this name.
    """
    data: bytes


@dataclass(frozen=True)
class OomEvent:
    """The kernel killed processes of the machine because the memory was exhausted."""

    kills: int
    """Number of kills since the start of the run."""


@dataclass(frozen=True)
class MemoryEvent:
    """The run must end before the machine runs out of memory."""

    reason: str


@dataclass(frozen=True)
class SignalEvent:
    """The agent received a signal from the scheduler of its machine."""

    name: str
    """Name of the signal, such as `SIGTERM`."""


Event = (
    HostFacts
    | ExitEvent
    | GoneEvent
    | HeartbeatEvent
    | FileEvent
    | OomEvent
    | MemoryEvent
    | SignalEvent
)

EVENTS: Mapping[str, type[Event]] = {
    "facts": HostFacts,
    "exit": ExitEvent,
    "gone": GoneEvent,
    "heartbeat": HeartbeatEvent,
    "file": FileEvent,
    "oom": OomEvent,
    "memory": MemoryEvent,
    "signal": SignalEvent,
}
"""Maps each kind of event to its class."""
_KINDS = {kind: name for name, kind in EVENTS.items()}


@dataclass(frozen=True)
class Done:
    """Response without content."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run on the machine."""

    path: str


@dataclass(frozen=True)
class StartedProcess:
    """A process that the agent started."""

    pid: int


@dataclass(frozen=True)
class WorkerState:
    """State of a worker process."""

    is_stopped: bool
    """True if a signal has suspended the process."""


@dataclass(frozen=True)
class CommandOutput:
    """A command that has ended."""

    code: int
    """Exit code. A signal is a negative number."""
    output: str
    errors: str


@dataclass(frozen=True)
class FileContent:
    """Content of a file."""

    data: bytes | None
    """None: the file does not exist."""


@dataclass(frozen=True)
class FreePorts:
    """TCP ports that are free at the moment."""

    ports: tuple[int, ...]


@dataclass(frozen=True)
class Route:
    """Route from the machine to a peer machine."""

    peer: str
    """Address to which the name of the peer resolves."""
    address: str
    """Local address that reaches the peer."""
    interface: str
    """Network interface with the local address."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """A request that an agent carries out."""

    name: str
    response: type[T]
    """Class of the response."""


BEGIN = Request("begin", RunFolder)
PUT = Request("put", Done)
START = Request("start", StartedProcess)
STACK = Request("stack", Done)
IS_STOPPED = Request("is_stopped", WorkerState)
PING = Request("ping", Done)
FINISH = Request("finish", Done)
RUN_COMMAND = Request("run_command", CommandOutput)
READ = Request("read", FileContent)
PORTS = Request("ports", FreePorts)
ROUTE = Request("route", Route)
LEAVE = Request("leave", Done)


@dataclass(frozen=True)
class Response:
    """Answer to a request, whose content is not decoded yet."""

    answer: int
    """Number of the request."""
    response: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """Why the agent could not carry out the request. None: it did."""


def encode_event(event: Event) -> dict[str, Any]:
    """Return the JSON object of an event."""
    return {_KINDS[type(event)]: encode(event)}


def decode_message(message: Mapping[str, Any]) -> Event | Response:
    """Return the event or the response in a JSON object from an agent. Raises MessageError."""
    if "answer" in message:
        return decode(Response, message)
    kind = next(iter(message), "")
    if len(message) != 1 or kind not in EVENTS:
        raise MessageError(f"unknown event {kind[:40]}")
    return decode(EVENTS[kind], message[kind])


def encode(message: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as a JSON object."""
    values = {item.name: getattr(message, item.name) for item in fields(message)}
    return {
        name: pack(value) if isinstance(value, bytes) else value for name, value in values.items()
    }


def decode(kind: type[T], value: Any, ignores_unknown: bool = False) -> T:
    """Return the dataclass in a JSON object.

    Args:
        kind: The dataclass.
        value: The JSON object. It may be any value, because it comes from a different process.
        ignores_unknown: Ignore unknown keys.

    Raises:
        MessageError: `value` is not an object, a key is missing or unknown, or a value has a wrong
            type.
    """
    if not isinstance(value, Mapping):
        raise MessageError(f"{kind.__name__}: expected an object")
    required, hints = _fields_of(kind)
    missing, unknown = sorted(required - value.keys()), sorted(value.keys() - hints.keys())
    if missing or (unknown and not ignores_unknown):
        raise MessageError(f"{kind.__name__}: missing keys: {missing}, unknown keys: {unknown}")
    return kind(
        **{name: _convert(hints[name], value[name], kind, name) for name in hints if name in value}
    )


def _fields_of(kind: type) -> tuple[frozenset[str], Mapping[str, Any]]:
    """Return the names of the required fields of a dataclass, and the type of each field."""
    hints, all_fields = typing.get_type_hints(kind), fields(kind)
    required = (
        item.name
        for item in all_fields
        if item.default is MISSING and item.default_factory is MISSING
    )
    return frozenset(required), {item.name: hints[item.name] for item in all_fields}


def _convert(hint: Any, value: Any, kind: type, name: str) -> Any:
    """Return a JSON value as the type of a field. Raises MessageError."""
    if isinstance(hint, types.UnionType):  # only `TYPE | None`
        if value is None:
            return None
        hint = hint.__args__[0]
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(arguments[0], item, kind, name) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return {key: _convert(arguments[1], item, kind, name) for key, item in value.items()}
    if origin is bytes and isinstance(value, str):
        return unpack(value)
    if origin is Any or (type(value) is origin and origin in (int, str, bool)):
        return value
    raise MessageError(f"{kind.__name__}: {name} has a wrong type")


def pack(data: bytes) -> str:
    """Return bytes as a base64 string, which a message can hold."""
    return base64.b64encode(data).decode()


def unpack(text: str) -> bytes:
    """Return the bytes of a string from `pack`. Raises MessageError."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MessageError("expected base64") from None
