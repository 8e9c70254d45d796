"""Weight files in the three formats of PyTorch, written without PyTorch."""

import contextlib
import io
import pickle
import struct
import sys
import tarfile
import types
import zipfile
from collections import OrderedDict

import numpy as np

NAMES = {
    "torch": (
        "FloatStorage",
        "DoubleStorage",
        "LongStorage",
        "FloatTensor",
        "DoubleTensor",
        "LongTensor",
    ),
    "torch._utils": ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter"),
    "torch.nn": (),
    "torch.nn.parameter": (),
}
KINDS = {"float32": "Float", "float64": "Double", "int64": "Long"}
PLATFORM = {
    "protocol_version": 1001,
    "little_endian": True,
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}


class Parameter:
    """Parameter that PyTorch 0.1 pickles: created without arguments, then restored from a state."""

    def __init__(self, state):
        self.state = state

    def __getstate__(self):
        return self.state


def _modules():
    found = {}
    for module, names in NAMES.items():
        found[module] = types.ModuleType(module)
        for name in names:
            setattr(found[module], name, type(name, (), {"__module__": module}))
    Parameter.__module__ = "torch.nn.parameter"
    found["torch.nn.parameter"].Parameter = Parameter
    return found


MODULES = _modules()


@contextlib.contextmanager
def torch_names():
    """Make the names of a pickle importable: the pickler imports each name that it writes."""
    kept = {name: sys.modules[name] for name in MODULES if name in sys.modules}
    sys.modules.update(MODULES)
    try:
        yield
    finally:
        for module in MODULES:
            del sys.modules[module]
        sys.modules.update(kept)


class Call:
    """Pickled as a call of `module.name(*arguments)`, followed by the state, if any."""

    def __init__(self, module, name, *arguments, state=None):
        self.function, self.arguments, self.state = (module, name), arguments, state

    def __reduce__(self):
        module, name = self.function
        parts = (getattr(MODULES[module], name), self.arguments)
        return parts if self.state is None else (*parts, self.state)


class Reference:
    """Pickled as a persistent id."""

    def __init__(self, pid):
        self.pid = pid


class Named:
    """Pickled as a global name of a module."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if not isinstance(obj, Reference):
            return None
        if isinstance(obj.pid, tuple) and len(obj.pid) > 1 and isinstance(obj.pid[1], Named):
            kind = obj.pid[1]
            return (obj.pid[0], getattr(MODULES[kind.module], kind.name), *obj.pid[2:])
        return obj.pid


def pickled(value, protocol=2):
    """Return the pickle of a value that is built from the classes above."""
    out = io.BytesIO()
    with torch_names():
        _Pickler(out, protocol).dump(value)
    return out.getvalue()


def storage(key, array, count=None, view=None, length=6):
    """Return a reference to the storage of an array."""
    kind = Named("torch", f"{KINDS[array.dtype.name]}Storage")
    pid = ("storage", kind, key, "cpu", array.size if count is None else count, view)
    return Reference(pid[:length])


def tensor(key, array, offset=0, shape=None, stride=None, count=None, version=2, length=6):
    """Return the call that rebuilds an array from its storage.

    Offset, shape, stride, and count replace those of the array, for files that are inconsistent.
    """
    shape = array.shape if shape is None else shape
    stride = tuple(step // array.itemsize for step in array.strides) if stride is None else stride
    arguments = (storage(key, array, count, length=length), offset, shape, stride)
    if version == 1:
        return Call("torch._utils", "_rebuild_tensor", *arguments)
    return Call("torch._utils", "_rebuild_tensor_v2", *arguments, False, OrderedDict())


def state_dict(arrays, **options):
    """Return a dictionary of tensors, each with a separate storage."""
    return OrderedDict(
        (name, tensor(str(number), array, **options))
        for number, (name, array) in enumerate(arrays.items())
    )


def raw(array):
    """Return the length and the values of a storage as bytes."""
    return struct.pack("<q", array.size) + array.tobytes()


def pickles(value, arrays, keys=None, platform=PLATFORM, protocol=1001, payload=None):
    """Return a file in the format of PyTorch before 1.6: a sequence of pickles.

    `payload` replaces the pickle of the value.
    """
    keys = [str(number) for number in range(len(arrays))] if keys is None else keys
    head = [pickled(0x1950A86A20F9469CFC6C), pickled(protocol), pickled(platform)]
    return b"".join(
        [*head, payload or pickled(value), pickled(keys), *(raw(array) for array in arrays)]
    )


def zipped(value, arrays, payload=None, byteorder=b"little", compression=zipfile.ZIP_STORED):
    """Return a file in the zip format of PyTorch 1.6 and later."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr("weights/data.pkl", payload or pickled(value))
        archive.writestr("weights/byteorder", byteorder)
        for number, array in enumerate(arrays):
            archive.writestr(f"weights/data/{number}", array.tobytes())
        archive.writestr("weights/version", "3\n")
    return out.getvalue()


def tarred(arrays, views=(), payload=None, edit=None):
    """Return a file in the tar format of PyTorch 0.1.

    A parameter has a state of five values. A buffer is stored directly. `edit` changes the members
    of the archive.
    """
    with torch_names():
        storages, tensors = pickle.dumps(len(arrays), 2), pickle.dumps(len(arrays), 2)
        for number, array in enumerate(arrays.values()):
            kind = KINDS[array.dtype.name]
            storages += pickle.dumps(
                (1000 + number, "cpu", getattr(MODULES["torch"], f"{kind}Storage")), 2
            )
            storages += raw(array)
            tensors += pickle.dumps(
                (5000 + number, 1000 + number, getattr(MODULES["torch"], f"{kind}Tensor")), 2
            )
            # The number of dimensions has 8 bytes, of which PyTorch 0.1 initialized only 4.
            tensors += struct.pack("<i", array.ndim) + b"\xff\x7f\x00\x00"
            strides = [step // array.itemsize for step in array.strides]
            tensors += struct.pack(f"<{2 * array.ndim + 1}q", *array.shape, *strides, 0)
        storages += pickle.dumps(list(views), 2)
    value = OrderedDict()
    for number, name in enumerate(arrays):
        data = Reference(str(5000 + number))
        is_parameter = "running" not in name and arrays[name].dtype == np.float32
        state = (data, None, None, True, False)
        value[name] = Parameter(state) if is_parameter else data
    members = {
        "sys_info": pickle.dumps(PLATFORM, 2),
        "pickle": payload or pickled(value),
        "tensors": tensors,
    }
    members |= {"storages": storages}
    return tar_of(edit(members) if edit else members)


def tar_of(members):
    """Return a tar archive of members: name to content, or to a TarInfo without content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def arrays():
    """Return a few small weights with four, one, and no dimensions."""
    values = np.random.default_rng(1).standard_normal
    return {
        "conv1.weight": values((4, 3, 2, 2)).astype(np.float32),
        "bn1.weight": values(4).astype(np.float32),
        "bn1.running_var": np.abs(values(4)).astype(np.float32),
        "bn1.num_batches_tracked": np.array(7, np.int64),
    }
