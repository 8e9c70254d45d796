"""Archives of every packing, with bits changed or cut off: read, or refused in one line."""

import contextlib
import io
import random
import tarfile
import zipfile

import numpy as np
import pytest

from workloads.common.text import sources
from workloads.ncf import ratings
from workloads.zoo.datasets import cifar10

ZIPS = {
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}
MEMBER = "europarl-v7.de-en.de"


def damaged(data, seed):
    """A third of them cut off, all others with one to four bits changed."""
    rng, data = random.Random(seed), bytearray(data)
    if seed % 3 == 0:
        return data[: rng.randrange(len(data))]
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


class OneLine(ValueError):
    """What a reader may raise."""


@contextlib.contextmanager
def one_line_at_most():
    """Any other error than such a ValueError goes on."""
    with contextlib.suppress(OneLine):
        try:
            yield
        except ValueError as error:
            raise (OneLine() if "\n" not in str(error) else AssertionError(str(error))) from error


@pytest.mark.parametrize("method", ZIPS.values(), ids=ZIPS)
def test_zips(tmp_path, method):
    packed = io.BytesIO()
    rows = "".join(f"{user},{item},3.5,1000\n" for user in range(1, 30) for item in range(1, 30))
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("ml-20m/ratings.csv", f"userId,movieId,rating,timestamp\n{rows}")
    for seed in range(30):
        (tmp_path / "x.zip").write_bytes(damaged(packed.getvalue(), seed))
        with one_line_at_most(), ratings.opened(tmp_path / "x.zip") as (stream, _):
            stream.read()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tars(tmp_path, mode):
    packed, content = (
        io.BytesIO(),
        np.random.default_rng(0).integers(0, 256, 20_000, np.uint8).tobytes(),
    )
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", MEMBER):
            member = tarfile.TarInfo(f"below/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    for seed in range(30):
        (tmp_path / "x.tar").write_bytes(damaged(packed.getvalue(), seed))
        with one_line_at_most(), cifar10.opened(tmp_path / "x.tar") as (_, read):
            read("test_batch")
        with one_line_at_most():
            for member in sources.find_members(tmp_path, [MEMBER], "one file").values():
                sources.append(member, io.BytesIO())
