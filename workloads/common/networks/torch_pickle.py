"""Unpickle PyTorch's weight files without PyTorch and without executing code.

A pickle names the functions that rebuild its objects, so a pickle can make a normal unpickler run
any program. This unpickler replaces the allowed names with harmless objects and rejects all other
names. Every opcode is checked before unpickling. CPython's unpickler allocates as much memory as a
pickle requests through memo numbers and counted strings. Such requests are therefore limited or
rejected.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OPCODES_MAXIMUM = 50_000
"""Maximum number of opcodes per pickle. The pickle of ResNet-50's weights has about 11,000 opcodes.
The limit also prevents deeply nested tuples, whose hashing would overflow the C stack.
"""
OPCODES = {
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2",
    "LONG1", "BINUNICODE",
    "SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2",
    "TUPLE3", "EMPTY_LIST",
    "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "BINGET", "LONG_BINGET", "BINPUT",
    "LONG_BINPUT", "MEMOIZE",
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD", "BINPERSID",
}  # fmt: skip
"""Opcodes that PyTorch uses to write weight files. The list starts with protocol 2 of Python 2."""
DTYPES: Mapping[str, str] = {
    "Double": "<f8", "Float": "<f4", "Half": "<f2", "Long": "<i8", "Int": "<i4", "Short": "<i2",
    "Char": "i1", "Byte": "u1",
    "Bool": "?",
}  # fmt: skip
"""NumPy type of each PyTorch type name (FloatStorage, FloatTensor, …). NumPy has no bfloat16."""


@dataclass(frozen=True)
class StorageType:
    """Replacement for the storage types of all devices, for example `torch.FloatStorage`.

    Calling the replacement raises an error.
    """

    dtype: str


@dataclass(frozen=True)
class Storage:
    """Slice of storage `key` in the file: `count` elements, starting at element `first`."""

    key: str | int
    dtype: str
    count: int
    first: int = 0


@dataclass(frozen=True)
class Tensor:
    """View of a storage.

    Offset, shape, and stride are in elements. They are not checked here.
    """

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Parameter:
    """Replacement for `torch.nn.Parameter`. Pickles call it with or without a tensor."""

    data: object

    def __new__(cls, data: object = None, *unused: object) -> Parameter:
        """Create a parameter from a tensor. Without a tensor, `__setstate__` sets it later."""
        parameter = super().__new__(cls)
        parameter.data = data
        return parameter

    def __setstate__(self, state: object) -> None:
        """Set the tensor from the pickled attributes of PyTorch 0.1.

        PyTorch 0.1 pickles a tuple of five elements, and the first element is the tensor. A tuple
        of three elements does not change the tensor.
        """
        if isinstance(state, tuple) and len(state) == 5:
            self.data = state[0]


class _OrderedDict(dict):  # type: ignore[type-arg]
    """Replacement for `collections.OrderedDict` that drops the attribute `_metadata`."""

    def __setstate__(self, state: object) -> None:
        """Ignore the pickled attributes of the dictionary."""


def rebuild(
    storage: object, offset: object, shape: object, stride: object, *unused: object
) -> Tensor:
    """Return a tensor. Replaces `torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`.

    The function raises ValueError if an argument has a wrong type.
    """
    if not isinstance(storage, Storage) or not isinstance(offset, int):
        raise ValueError("a tensor lacks a storage or offset")
    return Tensor(storage, offset, _integers(shape), _integers(stride))


def _integers(value: object) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or not all(isinstance(item, int) for item in value):
        raise ValueError("a shape or stride does not consist of integers")
    return tuple(value)


def _allowed() -> dict[tuple[str, str], Any]:
    """Return the replacement object of each allowed (module, name)."""
    replacements: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): _OrderedDict,
        ("torch._utils", "_rebuild_tensor"): rebuild,
        ("torch._utils", "_rebuild_tensor_v2"): rebuild,
        ("torch._utils", "_rebuild_parameter"): Parameter,
        ("torch.nn.parameter", "Parameter"): Parameter,
    }
    for module in ("torch", "torch.cuda"):
        for name, dtype in DTYPES.items():
            replacements[module, f"{name}Storage"] = replacements[module, f"{name}Tensor"] = (
                StorageType(dtype)
            )
    return replacements


Allowed = Mapping[tuple[str, str], Any]
"""Replacement object of each allowed (module, name)."""
ALLOWED: Allowed = _allowed()


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, data: bytes, persistent: Callable[[Any], object], allowed: Allowed, encoding: str
    ) -> None:
        super().__init__(io.BytesIO(data), encoding=encoding)
        self.persistent, self.allowed = persistent, allowed

    def find_class(self, module: str, name: str) -> Any:
        """Return the replacement object of a name. The unpickler never imports the name.

        The method raises ValueError if the name is not allowed.
        """
        try:
            return self.allowed[module, name]
        except KeyError:
            raise ValueError(
                f"the pickle names {module[:40]!r} {name[:40]!r}, which is not allowed in weights"
            ) from None

    def persistent_load(self, pid: Any) -> object:
        """Return an object that the file stores outside of the pickle, by its persistent id."""
        return self.persistent(pid)


def _no_reference(pid: object) -> object:
    raise ValueError("the pickle contains an unexpected reference")


def load(
    stream: io.BytesIO,
    persistent: Callable[[Any], object] = _no_reference,
    allowed: Allowed = ALLOWED,
    encoding: str = "utf-8",
) -> Any:
    """Read the pickle at the stream's position and advance the position to its end.

    Args:
        stream: Content of the file.
        persistent: Function that returns the object of a persistent id.
        allowed: Replacement objects by name. The default contains the names in PyTorch's files.
        encoding: Encoding of Python 2's strings, or `bytes`.

    Raises:
        ValueError: The pickle is damaged or not allowed. The error message is one line.
    """
    start = stream.tell()
    try:
        _check_opcodes(stream)
        return _Unpickler(
            stream.getvalue()[start : stream.tell()], persistent, allowed, encoding
        ).load()
    except ValueError as error:
        raise ValueError(str(error).splitlines()[0][:200]) from None
    except Exception as error:  # A malicious pickle can raise any exception type.
        raise ValueError(f"damaged ({type(error).__name__})") from None


def _check_opcodes(stream: io.BytesIO) -> None:
    """Check the opcodes of a pickle without building its objects.

    The function raises ValueError if an opcode, the number of opcodes, or a memo number is not
    allowed.
    """
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if opcode.name not in OPCODES:
            raise ValueError(
                f"the pickle contains the opcode {opcode.name}, which is not allowed in weights"
            )
        is_memo = opcode.name in ("LONG_BINPUT", "LONG_BINGET")
        if count >= OPCODES_MAXIMUM or (
            is_memo and isinstance(argument, int) and argument >= OPCODES_MAXIMUM
        ):
            raise ValueError(
                f"the pickle has more than {OPCODES_MAXIMUM:,} opcodes or memo entries"
            )


def tensors(loaded: object) -> dict[str, Tensor]:
    """Return the parameters and buffers of an unpickled state dict by name.

    The function raises ValueError if `loaded` is not a plain state dict.
    """
    if not isinstance(loaded, dict):
        raise ValueError("the file contains no dictionary of weights")
    by_name: dict[str, Tensor] = {}
    for name, value in loaded.items():
        tensor = value.data if isinstance(value, Parameter) else value
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(f"not a plain state dict: {str(name)[:60]!r} is not a tensor")
        by_name[name] = tensor
    return by_name
