"""Unpickling of PyTorch's weight files without PyTorch and without executing anything.

A pickle names the functions that rebuild its objects; whoever resolves any name runs any program. Here a name of the
allow-list becomes an inert stand-in and every other one is refused. Before that, every opcode is looked at: CPython's
unpickler allocates as much as a pickle asks for (memo numbers, counted strings), so those are bounded or refused.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OPCODES_MAXIMUM = 50_000
"""Of one pickle; ResNet-50's weights have about 11,000. Fewer than tuples in tuples that overflow the C stack when hashed."""
OPCODES = {
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE",
    "SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST",
    "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "MEMOIZE",
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD", "BINPERSID",
}  # fmt: skip
"""What PyTorch's writers use, from Python 2's protocol 2 on."""
DTYPES: Mapping[str, str] = {
    "Double": "<f8", "Float": "<f4", "Half": "<f2", "Long": "<i8", "Int": "<i4", "Short": "<i2", "Char": "i1", "Byte": "u1",
    "Bool": "?",
}  # fmt: skip
"""PyTorch's type names (FloatStorage, FloatTensor, …) to NumPy's; bfloat16 has none there."""


@dataclass(frozen=True)
class StorageType:
    """Stands for `torch.FloatStorage` and the like, on whatever device; cannot be called."""

    dtype: str


@dataclass(frozen=True)
class Storage:
    """`count` values, from `first` on, of the storage that the file calls `key`."""

    key: str | int
    dtype: str
    count: int
    first: int = 0


@dataclass(frozen=True)
class Tensor:
    """A view of a storage; offset, shape and stride are in values and unchecked."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Parameter:
    """Stands for `torch.nn.Parameter`, called or only created."""

    data: object

    def __new__(cls, data: object = None, *unused: object) -> Parameter:
        """A parameter of a tensor, or of what its state brings."""
        made = super().__new__(cls)
        made.data = data
        return made

    def __setstate__(self, state: object) -> None:
        """State of PyTorch 0.1: five entries, the first of which is the tensor; three that leave the tensor as it is."""
        if isinstance(state, tuple) and len(state) == 5:
            self.data = state[0]


class _OrderedDict(dict):  # type: ignore[type-arg]
    """Stands for `collections.OrderedDict`; a state dict's attributes (`_metadata`) are dropped."""

    def __setstate__(self, state: object) -> None:
        """Nothing is kept."""


def rebuild(storage: object, offset: object, shape: object, stride: object, *unused: object) -> Tensor:
    """Stands for `torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`. Raises ValueError unless everything has its type."""
    if not isinstance(storage, Storage) or not isinstance(offset, int):
        raise ValueError("a tensor without storage or offset")
    return Tensor(storage, offset, _integers(shape), _integers(stride))


def _integers(value: object) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or not all(isinstance(item, int) for item in value):
        raise ValueError("a shape or stride that is not of whole numbers")
    return tuple(value)


def _allowed() -> dict[tuple[str, str], Any]:
    """(module, name) to its stand-in."""
    stand_ins: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): _OrderedDict,
        ("torch._utils", "_rebuild_tensor"): rebuild,
        ("torch._utils", "_rebuild_tensor_v2"): rebuild,
        ("torch._utils", "_rebuild_parameter"): Parameter,
        ("torch.nn.parameter", "Parameter"): Parameter,
    }
    for module in ("torch", "torch.cuda"):
        for name, dtype in DTYPES.items():
            stand_ins[module, f"{name}Storage"] = stand_ins[module, f"{name}Tensor"] = StorageType(dtype)
    return stand_ins


Allowed = Mapping[tuple[str, str], Any]
"""(module, name) to its stand-in."""
ALLOWED: Allowed = _allowed()


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, persistent: Callable[[Any], object], allowed: Allowed, encoding: str) -> None:
        super().__init__(io.BytesIO(data), encoding=encoding)
        self.persistent, self.allowed = persistent, allowed

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in of a name; nothing is imported. Raises ValueError for a name that is not allowed."""
        try:
            return self.allowed[module, name]
        except KeyError:
            raise ValueError(f"names {module[:40]!r} {name[:40]!r}, which weights have no use for") from None

    def persistent_load(self, pid: Any) -> object:
        """What the file keeps outside the pickle."""
        return self.persistent(pid)


def _no_reference(pid: object) -> object:
    raise ValueError("a reference where there can be none")


def load(
    stream: io.BytesIO,
    persistent: Callable[[Any], object] = _no_reference,
    allowed: Allowed = ALLOWED,
    encoding: str = "utf-8",
) -> Any:
    """The pickle at the stream's position, which is after it then.

    `persistent` turns a persistent id into its object; `allowed`: the stand-ins of names, here those of PyTorch's files;
    `encoding`: of Python 2's strings, or `bytes`. Raises ValueError, in one line, for whatever is damaged or not allowed.
    """
    start = stream.tell()
    try:
        _check_opcodes(stream)
        return _Unpickler(stream.getvalue()[start : stream.tell()], persistent, allowed, encoding).load()
    except ValueError as error:
        raise ValueError(str(error).splitlines()[0][:200]) from None
    except Exception as error:  # a pickle that is damaged on purpose gets any type out of the unpickler
        raise ValueError(f"damaged ({type(error).__name__})") from None


def _check_opcodes(stream: io.BytesIO) -> None:
    """Read one pickle without building it. Raises ValueError for an opcode, a number of them or a memo that is not allowed."""
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if opcode.name not in OPCODES:
            raise ValueError(f"pickle opcode {opcode.name}, which weights have no use for")
        is_memo = opcode.name in ("LONG_BINPUT", "LONG_BINGET")
        if count >= OPCODES_MAXIMUM or (is_memo and isinstance(argument, int) and argument >= OPCODES_MAXIMUM):
            raise ValueError(f"a pickle of more than {OPCODES_MAXIMUM:,} parts")


def tensors(loaded: object) -> dict[str, Tensor]:
    """Name to tensor of an unpickled state dict, parameters and buffers. Raises ValueError if it is none."""
    if not isinstance(loaded, dict):
        raise ValueError("holds no dictionary of weights")
    by_name: dict[str, Tensor] = {}
    for name, value in loaded.items():
        tensor = value.data if isinstance(value, Parameter) else value
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(f"holds {str(name)[:60]!r}, which is no tensor: not a plain state dict")
        by_name[name] = tensor
    return by_name
