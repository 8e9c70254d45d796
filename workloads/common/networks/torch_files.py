"""Read weights from files written by PyTorch, without PyTorch.

This module supports all formats of `torch.save`:

- tar (before 0.1.10, torchvision's first ResNets): members `storages`, `tensors` and `pickle`
- a sequence of pickles (up to 1.5): magic number, protocol, platform, objects, storage keys, then
  the storages
- zip (from 1.6): `NAME/data.pkl` and a file for each storage

PyTorch's torch/serialization.py documents the formats. Weight files are untrusted. torch_pickle.py
reads the pickles in a file. This module compares every declared size with the size of the file
before it allocates memory.
"""

from __future__ import annotations

import io
import math
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from workloads.api import Array
from workloads.common.networks.torch_pickle import (
    Storage,
    StorageType,
    Tensor,
    load,
    rebuild,
    tensors,
)

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
DIMENSIONS_MAXIMUM = 8

Storages = Mapping[Any, Array]
"""Elements (n,) of each storage by storage key. The arrays are read-only views of the file."""


def decode(data: bytes) -> dict[str, Array]:
    """Return the tensors of a state dict by name, as writable copies.

    `data` is the content of the file. The function raises ValueError if the file is not a plain
    state dict, is damaged, or contains names or opcodes that are not allowed. The error message is
    one line and does not contain the file name.
    """
    try:
        if data.startswith(b"PK\x03\x04"):
            tensors_by_name, storages = _read_zip(data)
        elif data[257:262] == b"ustar":
            tensors_by_name, storages = _read_tar(data)
        else:
            tensors_by_name, storages = _read_pickles(data)
        if sum(_bytes(tensor) for tensor in tensors_by_name.values()) > len(data):
            raise ValueError("the tensors are larger than the file")
        return {name: _array(name, tensor, storages) for name, tensor in tensors_by_name.items()}
    except ValueError:
        raise
    except Exception as error:  # tarfile and zipfile raise many exception types for damaged files.
        raise ValueError(f"damaged ({type(error).__name__})") from None


def _bytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * np.dtype(tensor.storage.dtype).itemsize


def _array(name: str, tensor: Tensor, storages: Storages) -> Array:
    """Return a copy of a tensor's elements in C order.

    The function raises ValueError if the tensor extends beyond its storage.
    """
    storage, shape, stride = tensor.storage, tensor.shape, tensor.stride
    part = storages[storage.key][storage.first : storage.first + storage.count]
    fits = (
        storage.first >= 0
        and len(part) == storage.count
        and part.dtype == np.dtype(storage.dtype)
        and len(shape) == len(stride) <= DIMENSIONS_MAXIMUM
        and all(size >= 1 for size in shape)
        and all(step >= 0 for step in stride)
        and math.prod(shape) <= storage.count
        and tensor.offset >= 0
        and tensor.offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        < storage.count
    )
    if not fits:
        raise ValueError(f"tensor {name[:60]!r} does not fit its storage")
    size = part.dtype.itemsize
    return np.array(
        np.ndarray(
            shape, part.dtype, part.data, tensor.offset * size, [step * size for step in stride]
        )
    )


class _References:
    """Resolver for the persistent ids of the pickle and zip formats, with a storage cache."""

    def __init__(self) -> None:
        self.storages: dict[str | int, Storage] = {}

    def __call__(self, pid: Any) -> Storage:
        """Return the storage of a persistent id.

        `pid` is ("storage", type, key, device, count[, view]). `view` is None or (key, first,
        count).
        """
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage":
            raise ValueError("a reference does not point to a storage")
        kind, key, count = pid[1], pid[2], pid[4]
        if (
            not isinstance(kind, StorageType)
            or not isinstance(key, (str, int))
            or not isinstance(count, int)
        ):
            raise ValueError("a storage lacks a type, key or size")
        whole = self.storages.setdefault(key, Storage(key, kind.dtype, count))
        if whole != Storage(key, kind.dtype, count):
            raise ValueError("a storage has two types or sizes")
        view = pid[5] if len(pid) == 6 else None
        if view is None:
            return whole
        _, first, view_count = view
        if not isinstance(first, int) or not isinstance(view_count, int):
            raise ValueError("a view lacks an offset or size")
        return Storage(key, kind.dtype, view_count, first)


def _values(stream: io.BytesIO, dtype: str) -> Array:
    """Read a storage of the tar or pickle format: an int64 length, then the elements."""
    (count,) = struct.unpack("<q", stream.read(8))
    content = stream.read(count * np.dtype(dtype).itemsize) if count > 0 else b""
    if not content or len(content) != count * np.dtype(dtype).itemsize:
        raise ValueError(
            f"truncated: a storage of {count:,} values has only {len(content):,} bytes"
        )
    return np.frombuffer(content, dtype)


def _read_pickles(data: bytes) -> tuple[dict[str, Tensor], Storages]:
    stream, references = io.BytesIO(data), _References()
    try:
        magic = load(stream)
    except ValueError:
        magic = None
    if magic != MAGIC:
        raise ValueError("not a file of PyTorch weights")
    protocol, platform = load(stream), load(stream)
    if (
        protocol != PROTOCOL
        or not isinstance(platform, dict)
        or platform.get("little_endian") is not True
    ):
        raise ValueError(f"expected little-endian PyTorch weights with protocol {PROTOCOL}")
    tensors_by_name = tensors(load(stream, references))
    keys = load(stream)
    if not isinstance(keys, list) or set(keys) != set(references.storages):
        raise ValueError("damaged: the storages do not match the weights")
    storages: dict[str | int, Array] = {}
    for key in keys:
        storages[key] = _values(stream, references.storages[key].dtype)
        if len(storages[key]) != references.storages[key].count:
            raise ValueError("damaged: the size of a storage does not match the weights")
    return tensors_by_name, storages


def _read_tar(data: bytes) -> tuple[dict[str, Tensor], Storages]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        members = {
            name: _member(archive, name, len(data)) for name in ("storages", "tensors", "pickle")
        }
    stream, storages = io.BytesIO(members["storages"]), {}
    for _ in range(load(stream)):
        key, _, kind = load(stream)
        storages[key] = _values(stream, kind.dtype)
    for key, root, first, count in load(stream):
        if not 0 <= first <= first + count <= len(storages[root]):
            raise ValueError("damaged: a view extends beyond its storage")
        storages[key] = storages[root][first : first + count]
    stream, by_key = io.BytesIO(members["tensors"]), {}
    for _ in range(load(stream)):
        key, storage_key, _ = load(stream)
        (dimensions,) = struct.unpack("<i4x", stream.read(8))
        if not 0 <= dimensions <= DIMENSIONS_MAXIMUM:
            raise ValueError(f"damaged: a tensor has {dimensions} dimensions")
        numbers = struct.unpack(f"<{2 * dimensions + 1}q", stream.read(8 * (2 * dimensions + 1)))
        values = storages[storage_key]
        storage = Storage(storage_key, values.dtype.str, len(values))
        by_key[key] = rebuild(storage, numbers[-1], numbers[:dimensions], numbers[dimensions:-1])
    return tensors(load(io.BytesIO(members["pickle"]), lambda pid: by_key[int(pid)])), storages


def _member(archive: tarfile.TarFile, name: str, most: int) -> bytes:
    """Return the content of a tar member.

    The function raises ValueError if the member is not a regular file or declares more than `most`
    bytes.
    """
    member = archive.getmember(name)
    file = (
        archive.extractfile(member)
        if member.isreg() and not member.issparse() and member.size <= most
        else None
    )
    if file is None:
        raise ValueError(f"damaged: {name} is not a regular file")
    content = file.read()
    if len(content) != member.size:
        raise ValueError(f"truncated: {name} has {len(content):,} of {member.size:,} bytes")
    return content


def _read_zip(data: bytes) -> tuple[dict[str, Tensor], Storages]:
    references = _References()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pickle_names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickle_names) != 1:
            raise ValueError("the zip file contains no PyTorch weights")
        folder = pickle_names[0].removesuffix("data.pkl")
        if (
            f"{folder}byteorder" in archive.namelist()
            and _entry(archive, f"{folder}byteorder", 16) != b"little"
        ):
            raise ValueError("the PyTorch weights are not little-endian")
        tensors_by_name = tensors(
            load(io.BytesIO(_entry(archive, pickle_names[0], len(data))), references)
        )
        left, storages = len(data), {}
        for key, storage in references.storages.items():
            content = _entry(archive, f"{folder}data/{key}", left)
            left -= len(content)
            storages[key] = np.frombuffer(content, storage.dtype)
            if len(storages[key]) != storage.count:
                raise ValueError("damaged: the size of a storage does not match the weights")
    return tensors_by_name, storages


def _entry(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return the content of a zip member after verifying its checksum.

    The function raises ValueError if the member is compressed, which PyTorch never does, or is
    larger than `most` bytes.
    """
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise ValueError(f"damaged: {name[:60]!r} is missing") from None
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > most:
        raise ValueError(f"damaged: {name[:60]!r} is compressed or too large")
    return archive.read(entry)
