"""Detectron's pickles: arrays equal those that NumPy loads, and no code is executed."""

import pickle

import numpy as np
import pytest

from tests.workloads.common.networks import synthetic_caffe2_files as synthetic
from workloads.common.networks import caffe2_files

ARRAYS = {
    "conv1_w": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),
    "res_conv1_bn_s": np.array([1.5, -2], np.float32),
    "lr": np.float64([[0.25]]),
}


@pytest.mark.parametrize("blobs", [True, False])
@pytest.mark.parametrize("fortran", [True, False])
def test_arrays_equal_those_that_numpy_loads(blobs, fortran):
    data = synthetic.pickled(ARRAYS, blobs, fortran=fortran)
    found, theirs = caffe2_files.decode(data), pickle.loads(data, encoding="latin1")
    theirs = theirs["blobs"] if blobs else theirs
    assert found.keys() == theirs.keys() == ARRAYS.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, theirs[name])
        np.testing.assert_array_equal(value, ARRAYS[name])
        assert value.dtype == ARRAYS[name].dtype
        assert value.flags.writeable
        assert value.flags.c_contiguous
    assert caffe2_files.is_dictionary(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02}q\x01(U\x01acposix\nsystem\nU\x04true\x85Ru.", "names 'posix' 'system'"),
        (b"\x80\x02}q\x01(U\x01acnumpy\nload\nU\x01x\x85Ru.", "names 'numpy' 'load'"),
        (synthetic.pickled({"a": ARRAYS["lr"]}, kind=synthetic.dtype(b"f4")), "does not match"),
        (synthetic.pickled({"a": ARRAYS["lr"]}, shape=(-1, 1)), "lacks a shape"),
        (synthetic.pickled({"a": ARRAYS["lr"]}, shape=(1 << 30, 1 << 30)), "does not match"),
        (synthetic.pickled({"a": ARRAYS["lr"]}, shape=(1,) * 9), "does not match"),
        (synthetic.pickled({"a": ARRAYS["lr"]}, kind=synthetic.dtype(b"O8")), "unsupported type"),
        (
            synthetic.pickled({"a": ARRAYS["lr"]}, kind=synthetic.dtype(b"f8", b">")),
            "not little-endian",
        ),
        (synthetic.pickled(ARRAYS)[:-40], "not enough data"),
        # Python 3 writes arrays through `_codecs.encode`, which is not allowed: Python 2 wrote the
        # published file.
        (pickle.dumps({"a": ARRAYS["lr"]}, protocol=2), "names"),
        (b"\x80\x02]q\x01.", "the file contains no dictionary"),
        (b"plain text", "no newline"),
        (b"", "pickle exhausted"),
    ],
)
def test_unsafe_and_damaged_files_are_rejected(data, message):
    with pytest.raises(ValueError, match=message) as caught:
        caffe2_files.decode(data)
    assert "\n" not in str(caught.value)
