"""Weights read from PyTorch's files: the three formats, hostile pickles, and damaged files."""

import io
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frameworks_probe import probe
from tests.helpers import examples
from tests.workloads.common.networks import synthetic_torch_files as synthetic
from tests.workloads.common.networks.synthetic_torch_files import Call, Named, Reference
from workloads.common.networks import torch_files, torch_pickle

ARRAYS = synthetic.arrays()
VALUES = list(ARRAYS.values())
FORMS = {
    "pickles": synthetic.pickles(synthetic.state_dict(ARRAYS), VALUES),
    "zip": synthetic.zipped(synthetic.state_dict(ARRAYS, length=5), VALUES),
    "tar": synthetic.tarred(ARRAYS),
}
WRITE = {"pickles": synthetic.pickles, "zip": synthetic.zipped}


def equal(found, wanted):
    return list(found) == list(wanted) and all(
        found[name].dtype == wanted[name].dtype and np.array_equal(found[name], wanted[name])
        for name in wanted
    )


def attempt(data):
    """Return (arrays, "") or, if the file is rejected, (None, message). Other errors propagate."""
    try:
        return torch_files.decode(data), ""
    except ValueError as error:
        text = str(error)
    assert len(text.splitlines()) == 1
    assert len(text) < 300
    return None, text


def reason(data):
    """Return the one-line message with which a file is rejected."""
    found, text = attempt(data)
    assert found is None
    return text


@pytest.mark.parametrize("form", FORMS)
def test_arrays_come_back(form):
    found = torch_files.decode(FORMS[form])
    assert equal(found, ARRAYS)
    assert all(value.flags.writeable and value.flags.c_contiguous for value in found.values())


def test_tensors_and_parameters_of_the_first_version_are_read():
    value = OrderedDict(a=synthetic.tensor("0", VALUES[0], version=1))
    value["b"] = Call(
        "torch._utils", "_rebuild_parameter", synthetic.tensor("1", VALUES[1]), True, OrderedDict()
    )
    state = (True, False, OrderedDict())
    value["c"] = Call(
        "torch.nn.parameter", "Parameter", synthetic.tensor("2", VALUES[2]), state=state
    )
    found = torch_files.decode(synthetic.pickles(value, VALUES[:3]))
    assert equal(found, dict(zip("abc", VALUES, strict=False)))


def test_tensors_that_are_views_of_a_storage_are_read():
    base = np.arange(24, dtype=np.float32)
    value = OrderedDict(
        columns=synthetic.tensor("0", base, 2, (2, 4), (1, 5)),
        view=Call(
            "torch._utils",
            "_rebuild_tensor",
            synthetic.storage("0", base, view=("v", 10, 6)),
            1,
            (5,),
            (1,),
        ),
    )
    found = torch_files.decode(synthetic.pickles(value, [base]))
    assert np.array_equal(found["columns"], [[2, 7, 12, 17], [3, 8, 13, 18]])
    assert np.array_equal(found["view"], [11, 12, 13, 14, 15])


def test_views_of_the_tar_format_are_read():
    base = np.arange(8, dtype=np.float32)
    data = synthetic.tarred({"running": base}, views=[(77, 1000, 2, 3)])
    assert np.array_equal(torch_files.decode(data)["running"], base)
    assert "view extends beyond" in reason(
        synthetic.tarred({"running": base}, views=[(77, 1000, 6, 3)])
    )


@pytest.fixture(scope="module")
def by_torch(tmp_path_factory):
    """Return a folder with files that torch.save wrote and arrays that torch.load read.

    torch.save writes torchvision's ResNet-34. torch.load reads the synthetic files.
    """
    folder = tmp_path_factory.mktemp("torch")
    for form, data in FORMS.items():
        (folder / f"made-{form}.pth").write_bytes(data)
    probe("pytorch", "probes.torch_weights.write", str(folder))
    yield folder
    for path in folder.glob("resnet34*"):
        path.unlink()


@pytest.mark.framework
@pytest.mark.parametrize("form", FORMS)
def test_torch_reads_the_synthetic_files(by_torch, form):
    with np.load(by_torch / f"made-{form}.npz") as found:
        assert equal(dict(found), ARRAYS)


@pytest.mark.framework
@pytest.mark.parametrize("name", ["pickles", "zip", "channels_last", "parameters"])
def test_files_written_by_torch_are_read(by_torch, name):
    with np.load(by_torch / "resnet34.npz") as wanted:
        found = torch_files.decode((by_torch / f"resnet34-{name}.pth").read_bytes())
        assert len(found) == (182 if name == "parameters" else 218)
        assert equal(found, {key: wanted[key] for key in found})


# -- Hostile pickles: no code is executed


class Hostile:
    """Object whose pickle calls a function, for example to write a file."""

    def __init__(self, function, *arguments):
        self.parts = (function, arguments)

    def __reduce__(self):
        return self.parts


def globals_of(module, name, arguments=b")"):
    """Return a pickle of protocol 2 that calls `module.name`."""
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + arguments + b"R."


def hostile(mark):
    """Return hostile pickles by name. Those that run a command would create the file `mark`."""
    import os

    shell = f"touch {mark}"
    system, evaluate = Hostile(os.system, shell), Hostile(eval, f"open({str(mark)!r}, 'w')")
    return {
        "os.system": pickle.dumps(system, 2),
        "eval": pickle.dumps(evaluate, 2),
        "protocol 4": pickle.dumps(system, 4),
        "protocol 0": pickle.dumps(system, 0),
        "in a list of a dictionary": pickle.dumps({"conv1.weight": [1, (2, [evaluate])]}, 2),
        "in a parameter": synthetic.pickled(
            {"a": Call("torch.nn.parameter", "Parameter", evaluate)}
        ),
        "in a parameter's state": synthetic.pickled(
            {
                "a": Call(
                    "torch.nn.parameter", "Parameter", state=(evaluate, None, None, True, False)
                )
            }
        ),
        "in hooks": synthetic.pickled(
            {"a": Call("torch._utils", "_rebuild_parameter", 1, True, evaluate)}
        ),
        "torch's own loader": globals_of("torch.storage", "_load_from_bytes"),
        "an attribute of an allowed name": (
            b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.__init__\x93."
        ),
        "copyreg": globals_of("copyreg", "_reconstructor"),
        "python 2's builtins": globals_of("__builtin__", "eval", b"(U\x011tq\x00"),
        "a callable of ours": globals_of("workloads.common.networks.torch_pickle", "load"),
        "old instance": b"\x80\x02(S'" + shell.encode() + b"'\nios\nsystem\n.",
        "object": b"\x80\x02(cos\nsystem\nU\x01xo.",
        "extension": b"\x80\x02\x82\x01.",
    }


@pytest.mark.parametrize("position", [*WRITE, "pickle", "storages", "tensors"])
@pytest.mark.parametrize("name", hostile("mark"))
def test_hostile_pickles_are_rejected(tmp_path, name, position):
    """Check pickles in place of all weights, and in place of a member of a tar archive."""
    mark = tmp_path / "mark"
    payload = hostile(mark)[name]
    in_tar = synthetic.tarred(ARRAYS, edit=lambda members: {**members, position: payload})
    assert "which is not allowed in weights" in reason(
        WRITE[position](None, [], payload=payload) if position in WRITE else in_tar
    )
    assert not mark.exists()


@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize(
    "payload",
    [
        # For these memo numbers the unpickler would allocate up to 4 billion entries.
        b"\x80\x02Nr\xff\xff\xff\xff.",
        b"\x80\x02Nr\x00\x00\x00\x10.",
        b"\x80\x02j\xff\xff\xff\xff.",
        # These announce up to 2**56 bytes.
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x00.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\x00\x00.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02\x8b\xff\xff\xff\x7f.",
        # The hash of this key would overflow the stack.
        b"\x80\x02}" + b")" + b"\x85" * 60_000 + b"Ns.",
        b"\x80\x02" + b"(" * 60_000 + b".",
        b"\x80\x02}q\x00h\x00Ns.",
        b"\x80\x02.",
        b"\x80\x02NNN0.",
        b"\x80\x02ctorch\nFloatStorage\n)R.",
        b"\x80\x02ctorch.nn.parameter\nParameter\n)\x81K\x05b.",
        b"\x80\x02ccollections\nOrderedDict\nK\x05\x85R.",
        b"\x80\x02ctorch\nFloat\xffStorage\n.",
    ],
)
def test_pickles_that_would_exhaust_memory_or_stack_are_rejected(form, payload):
    reason(WRITE[form](None, [], payload=payload))


def test_the_limit_of_opcodes_allows_resnet50():
    """Check that a file with 320 tensors, as in ResNet-50, is accepted.

    Such a file has less than half as many opcodes as the limit.
    """
    many = {f"layer4.2.a_long_name_{number}.weight": VALUES[1] for number in range(320)}
    assert (
        len(torch_files.decode(synthetic.pickles(synthetic.state_dict(many), [VALUES[1]] * 320)))
        == 320
    )
    with pytest.raises(ValueError, match="more than 50,000 opcodes"):
        torch_pickle.load(io.BytesIO(pickle.dumps(list(range(60_000)), 2)))


# -- Sizes, types, and references

VALUE = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize(
    "options",
    [
        {"shape": (7,)},
        # The tensor has more values than its storage.
        {"shape": (2, 4), "stride": (0, 1)},
        {"shape": (2**40,), "stride": (0,)},
        {"shape": (2,), "stride": (6,)},
        {"shape": (2,), "stride": (-1,), "offset": 3},
        {"shape": (2,), "stride": (2**62,)},
        {"shape": (-1,)},
        {"shape": (0,)},
        {"shape": (6,), "stride": (1, 1)},
        {"shape": (1,) * 9, "stride": (1,) * 9},
        {"offset": 1},
        {"offset": -1, "shape": (2,)},
        {"shape": (2.5,)},
        {"shape": "6"},
        {"offset": "0"},
        {"count": 5, "shape": (5,)},
        {"count": 7},
        {"count": -1},
        {"count": 2**62},
    ],
)
@pytest.mark.parametrize("form", WRITE)
def test_tensors_that_do_not_fit_their_storage_are_rejected(form, options):
    reason(WRITE[form]({"a": synthetic.tensor("0", VALUE, **options)}, [VALUE]))


def test_tensors_that_share_a_storage_to_fill_the_memory_are_rejected():
    value = {f"a{number}": synthetic.tensor("0", VALUE) for number in range(1_000)}
    big = np.zeros(20_000, np.float32)
    value |= {f"b{number}": synthetic.tensor("1", big) for number in range(3)}
    assert "larger than the file" in reason(synthetic.pickles(value, [VALUE, big]))


FLOATS = Named("torch", "FloatStorage")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "no dictionary"),
        ({"state_dict": {"a": synthetic.tensor("0", VALUE)}}, "'state_dict' is not a tensor"),
        ({1: synthetic.tensor("0", VALUE)}, "is not a tensor"),
        ({"epoch": 5}, "is not a tensor"),
        ({"a": Reference(("storage", FLOATS, "0", "cpu", 6, None))}, "is not a tensor"),
        ({"a": Reference(("module", FLOATS, "0", "cpu", 6, None))}, "does not point to a storage"),
        ({"a": Reference("0")}, "does not point to a storage"),
        ({"a": Reference(("storage", "FloatStorage", "0", "cpu", 6, None))}, "lacks a type"),
        ({"a": Reference(("storage", FLOATS, ("0",), "cpu", 6, None))}, "lacks a type"),
        ({"a": Reference(("storage", FLOATS, "0", "cpu", 6, ("v", "0", 1)))}, "lacks an offset"),
        (
            {
                "a": synthetic.tensor("0", VALUE),
                "b": synthetic.tensor("0", VALUE.astype(np.float64)),
            },
            "two types",
        ),
    ],
)
def test_invalid_references_and_dictionaries_are_rejected(value, message):
    assert message in reason(synthetic.pickles(value, [VALUE]))


WEIGHTS, ZIP_WITHOUT_WEIGHTS = {"a": synthetic.tensor("0", VALUE)}, io.BytesIO()
with zipfile.ZipFile(ZIP_WITHOUT_WEIGHTS, "w") as archive:
    archive.writestr("a/data.txt", "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *(
            (synthetic.pickles(WEIGHTS, [VALUE], keys=keys), "the storages do not match")
            for keys in (["0", "1"], [])
        ),
        *(
            (write(WEIGHTS, [VALUE[:5]]), "the size of a storage does not match")
            for write in WRITE.values()
        ),
        (synthetic.zipped(WEIGHTS, []), "is missing"),
        (
            synthetic.pickles(
                WEIGHTS, [VALUE], platform={**synthetic.PLATFORM, "little_endian": False}
            ),
            "little-endian",
        ),
        (synthetic.pickles(WEIGHTS, [VALUE], protocol=1002), "protocol"),
        (synthetic.zipped(WEIGHTS, [VALUE], byteorder=b"big"), "little-endian"),
        (synthetic.zipped(WEIGHTS, [VALUE], compression=zipfile.ZIP_DEFLATED), "compressed"),
        *(
            (data, "not a file of PyTorch weights")
            for data in (b"", b"<html>", pickle.dumps({"a": 1}, 2), bytes(600))
        ),
        (ZIP_WITHOUT_WEIGHTS.getvalue(), "no PyTorch weights"),
    ],
)
def test_inconsistent_storages_platforms_and_formats_are_rejected(data, message):
    assert message in reason(data)


def test_tar_members_that_are_not_regular_files_are_rejected():
    link = tarfile.TarInfo("storages")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    assert "is not a regular file" in reason(
        synthetic.tarred(ARRAYS, edit=lambda members: {**members, "storages": link})
    )
    sparse = tarfile.TarInfo("storages")
    sparse.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.map": "0,0",
        "GNU.sparse.size": str(2**45),
    }
    sparse.pax_headers |= {"GNU.sparse.minor": "1", "GNU.sparse.numblocks": "1"}
    reason(synthetic.tarred(ARRAYS, edit=lambda members: {**members, "storages": sparse}))
    assert "KeyError" in reason(synthetic.tar_of({"pickle": b"", "storages": pickle.dumps(0, 2)}))


STORAGE, TENSOR = synthetic.raw(VALUES[0])[:8], struct.pack("<i", 4) + b"\xff\x7f"
"""First bytes of the first storage (its number of values) and tensor (its number of dimensions)."""


@pytest.mark.parametrize(
    ("member", "at", "claims", "message"),
    [
        ("storages", STORAGE, struct.pack("<q", 2**62), "damaged (OverflowError)"),
        *(
            ("storages", STORAGE, struct.pack("<q", n), f"truncated: a storage of {n:,} ")
            for n in (2**40, 10**6, 0, -1)
        ),
        *(
            ("tensors", TENSOR, struct.pack("<i", n), f"a tensor has {n} dimensions")
            for n in (2**31 - 1, 9, -1)
        ),
    ],
)
def test_a_tar_with_wrong_sizes_is_rejected(member, at, claims, message):
    def edit(members):
        head, _, tail = members[member].partition(at)
        return {**members, member: head + claims + at[len(claims) :] + tail}

    assert message in reason(synthetic.tarred(ARRAYS, edit=edit))


# -- Damaged files


@pytest.mark.parametrize("form", FORMS)
@examples(50)
@given(share=st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_rejected(form, share):
    data = FORMS[form]
    found, _ = attempt(data[: int(share * len(data))])
    if form == "tar":  # A tar archive ends with empty blocks, which are not needed.
        assert found is None or equal(found, ARRAYS)
    else:
        assert found is None


@pytest.mark.parametrize("form", FORMS)
@examples(80)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=6
    )
)
def test_damaged_files_are_read_or_rejected_in_one_line(form, changes):
    data = bytearray(FORMS[form])
    for position, value in changes:
        data[position % len(data)] = value
    attempt(bytes(data))


@examples(80)
@given(st.binary(max_size=200), st.sampled_from(["pickles", "zip", "tar", "none"]))
def test_arbitrary_bytes_are_read_or_rejected_in_one_line(content, form):
    payload = b"\x80\x02" + content
    written = (
        WRITE[form](None, VALUES, payload=payload)
        if form in WRITE
        else synthetic.tarred(ARRAYS, payload=payload)
    )
    attempt(content if form == "none" else written)
