"""Pickled dictionaries of NumPy arrays, as Python 2 wrote them: the format of Detectron."""

import struct

ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"


def dtype(name=b"f4", order=b"<"):
    return (
        b"cnumpy\ndtype\nU"
        + bytes([len(name)])
        + name
        + b"K\x00K\x01\x87R(K\x03U\x01"
        + order
        + b"NNN"
        + b"J\xff\xff\xff\xff" * 2
        + b"K\x00tb"
    )


def array(value, kind=None, shape=None, fortran=False):
    content = value.tobytes("F" if fortran else "C")
    sides = b"".join(b"J" + struct.pack("<i", side) for side in (shape or value.shape))
    flag = b"\x88" if fortran else b"\x89"
    state = b"(K\x01(" + sides + b"t" + (kind or dtype(value.dtype.str[1:].encode())) + flag
    return ARRAY + state + b"T" + struct.pack("<i", len(content)) + content + b"tb"


def text(value):
    return b"U" + bytes([len(value)]) + value.encode()


def pickled(arrays, blobs=True, **more):
    """Return the pickle of a dictionary of arrays.

    If `blobs` is set, the dictionary is stored under the key `blobs`, next to a configuration
    `cfg`.
    """
    entries = b"".join(text(name) + array(value, **more) for name, value in arrays.items())
    inner = b"}(" + entries + b"u"
    return (
        b"\x80\x02"
        + (b"}(" + text("blobs") + inner + text("cfg") + text("yaml") + b"u" if blobs else inner)
        + b"."
    )
