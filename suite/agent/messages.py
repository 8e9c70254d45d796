"""Messages between controller and agent as dataclasses, with their JSON encoding.

- The agent sends events: `{"KIND": {FIELD: VALUE, …}}`, where KIND is a key of `EVENTS`.
- The controller sends requests: `{"do": NAME, "id": n, ARGUMENT: VALUE, …}`, where NAME is the name
  of a `Request` constant.
- The agent answers each request: `{"answer": n, "response": {FIELD: VALUE, …}}` or `{"answer": n,
  "error": TEXT}`.

Bytes are encoded as base64. Controller and agent run the same version of the suite, so an unknown
key is an error.
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
    """Error for a message whose keys or value types are not those of this suite version."""


@dataclass(frozen=True)
class ExitEvent:
    """Event: a process that the agent started has ended."""

    name: str
    """Name of the process, such as `worker-0`."""
    code: int
    """Exit code, or the negative signal number if a signal ended the process."""
    full_disk: str
    """Message about a full disk of the machine if the process failed. The string is empty if no
    disk is full.
    """


@dataclass(frozen=True)
class GoneEvent:
    """Event: worker processes have ended."""

    pids: tuple[int, ...]


@dataclass(frozen=True)
class HeartbeatEvent:
    """Event: a worker replaced its heartbeat file."""

    name: str
    """Name of the heartbeat file."""
    content: str


@dataclass(frozen=True)
class FileEvent:
    """Event: a file is new or has grown."""

    name: str
    """Name of the file."""
    offset: int
    """Offset of the data in bytes. Offset 0 means that the file is new and replaces any earlier
    file with this name.
    """
    data: bytes


@dataclass(frozen=True)
class OomEvent:
    """Event: the kernel killed processes because the machine ran out of memory."""

    kills: int
    """Number of out-of-memory kills since the start of the run."""


@dataclass(frozen=True)
class MemoryEvent:
    """Event: the run must end before the machine runs out of memory."""

    reason: str


@dataclass(frozen=True)
class SignalEvent:
    """Event: the machine's scheduler, such as SLURM, sent a signal to the agent."""

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
"""Maps the name of each event in JSON to its class."""
_KINDS = {kind: name for name, kind in EVENTS.items()}


@dataclass(frozen=True)
class Done:
    """Response without content."""


@dataclass(frozen=True)
class RunFolder:
    """Response with the folder of a run on the machine."""

    path: str


@dataclass(frozen=True)
class StartedProcess:
    """Response with the process id of a process that the agent started."""

    pid: int


@dataclass(frozen=True)
class WorkerState:
    """Response that reports whether a worker process is suspended."""

    is_stopped: bool
    """True if a signal such as SIGSTOP has suspended the process."""


@dataclass(frozen=True)
class CommandOutput:
    """Response with the exit code and output of a command that has ended."""

    code: int
    """Exit code, or the negative signal number if a signal ended the command."""
    output: str
    errors: str


@dataclass(frozen=True)
class FileContent:
    """Response with the content of a file."""

    data: bytes | None
    """Content of the file, or None if the file does not exist."""


@dataclass(frozen=True)
class FreePorts:
    """Response with TCP ports that are currently free."""

    ports: tuple[int, ...]


@dataclass(frozen=True)
class Route:
    """Response with the network route from the machine to a peer machine."""

    peer: str
    """IP address of the peer."""
    address: str
    """Local address from which the machine reaches the peer."""
    interface: str
    """Name of the network interface that has the local address."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """Definition of a request that an agent can execute."""

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
    """Answer of the agent to a request. The content of the answer is not decoded yet."""

    answer: int
    """Id of the answered request."""
    response: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """Reason why the request failed, or None if the request succeeded."""


def encode_event(event: Event) -> dict[str, Any]:
    """Encode an event as a JSON object."""
    return {_KINDS[type(event)]: encode(event)}


def decode_message(message: Mapping[str, Any]) -> Event | Response:
    """Decode the event or response in a JSON object from an agent.

    Raises MessageError if the object is invalid.
    """
    if "answer" in message:
        return decode(Response, message)
    kind = next(iter(message), "")
    if len(message) != 1 or kind not in EVENTS:
        raise MessageError(f"unknown event {kind[:40]}")
    return decode(EVENTS[kind], message[kind])


def encode(message: Any) -> dict[str, Any]:
    """Encode the fields of a dataclass as a JSON object."""
    values = {item.name: getattr(message, item.name) for item in fields(message)}
    return {
        name: pack(value) if isinstance(value, bytes) else value for name, value in values.items()
    }


def decode(kind: type[T], value: Any, ignores_unknown: bool = False) -> T:
    """Decode a JSON object to a dataclass.

    Args:
        kind: Class of the result.
        value: The JSON object. Its type is checked, because a different process wrote the object.
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
    """Convert a JSON value to the type of a field.

    Raises MessageError if the value has a wrong type.
    """
    if isinstance(hint, types.UnionType):  # the only supported union is `TYPE | None`
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
    """Encode bytes as a base64 string for a message."""
    return base64.b64encode(data).decode()


def unpack(text: str) -> bytes:
    """Decode a base64 string from `pack` to bytes. Raise MessageError if it is invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MessageError("expected base64") from None
