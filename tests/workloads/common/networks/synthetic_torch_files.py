"""Files as PyTorch writes them, in its three forms, made without PyTorch."""

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
    """As PyTorch 0.1 pickles it: created without arguments, then given its state."""

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
    """While the names are there that a pickle may hold: the pickler imports them to see that they
    exist.
    """
    kept = {name: sys.modules[name] for name in MODULES if name in sys.modules}
    sys.modules.update(MODULES)
    try:
        yield
    finally:
        for module in MODULES:
            del sys.modules[module]
        sys.modules.update(kept)


class Call:
    """Pickled as a call of `module.name(*arguments)`, then a state if it is given."""

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
    """Pickled as a name of one of the modules."""

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
    """The pickle of a value made of the classes above."""
    out = io.BytesIO()
    with torch_names():
        _Pickler(out, protocol).dump(value)
    return out.getvalue()


def storage(key, array, count=None, view=None, length=6):
    """Reference to the storage of an array."""
    kind = Named("torch", f"{KINDS[array.dtype.name]}Storage")
    pid = ("storage", kind, key, "cpu", array.size if count is None else count, view)
    return Reference(pid[:length])


def tensor(key, array, offset=0, shape=None, stride=None, count=None, version=2, length=6):
    """Call that rebuilds an array, or what is given instead, from its storage."""
    shape = array.shape if shape is None else shape
    stride = tuple(step // array.itemsize for step in array.strides) if stride is None else stride
    arguments = (storage(key, array, count, length=length), offset, shape, stride)
    if version == 1:
        return Call("torch._utils", "_rebuild_tensor", *arguments)
    return Call("torch._utils", "_rebuild_tensor_v2", *arguments, False, OrderedDict())


def state_dict(arrays, **options):
    """Name to tensor, with a storage each."""
    return OrderedDict(
        (name, tensor(str(number), array, **options))
        for number, (name, array) in enumerate(arrays.items())
    )


def raw(array):
    """A storage's length and values."""
    return struct.pack("<q", array.size) + array.tobytes()


def pickles(value, arrays, keys=None, platform=PLATFORM, protocol=1001, payload=None):
    """The sequence of pickles; `payload` instead of the value's pickle."""
    keys = [str(number) for number in range(len(arrays))] if keys is None else keys
    head = [pickled(0x1950A86A20F9469CFC6C), pickled(protocol), pickled(platform)]
    return b"".join(
        [*head, payload or pickled(value), pickled(keys), *(raw(array) for array in arrays)]
    )


def zipped(value, arrays, payload=None, byteorder=b"little", compression=zipfile.ZIP_STORED):
    """The zip form."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr("weights/data.pkl", payload or pickled(value))
        archive.writestr("weights/byteorder", byteorder)
        for number, array in enumerate(arrays):
            archive.writestr(f"weights/data/{number}", array.tobytes())
        archive.writestr("weights/version", "3\n")
    return out.getvalue()


def tarred(arrays, views=(), payload=None, edit=None):
    """The tar form of PyTorch 0.1: parameters with a state of five, buffers as they are.

    `edit` changes the members.
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
            tensors += (
                struct.pack("<i", array.ndim) + b"\xff\x7f\x00\x00"
            )  # the upper half was never written
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
    """A tar archive of name to content, or to a TarInfo without content."""
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
    """A few small weights: four, one and no dimensions."""
    values = np.random.default_rng(1).standard_normal
    return {
        "conv1.weight": values((4, 3, 2, 2)).astype(np.float32),
        "bn1.weight": values(4).astype(np.float32),
        "bn1.running_var": np.abs(values(4)).astype(np.float32),
        "bn1.num_batches_tracked": np.array(7, np.int64),
    }
