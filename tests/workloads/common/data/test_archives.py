"""Archives of every compression, truncated or with flipped bits: read, or rejected in one line."""

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
    """Return a damaged copy: truncated for every third seed, otherwise with flipped bits."""
    rng, data = random.Random(seed), bytearray(data)
    if seed % 3 == 0:
        return data[: rng.randrange(len(data))]
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


class SingleLineError(ValueError):
    """Error with a one-line message, which a reader may raise."""


@contextlib.contextmanager
def allow_single_line_errors():
    """Suppress ValueErrors with a one-line message. All other exceptions propagate."""
    with contextlib.suppress(SingleLineError):
        try:
            yield
        except ValueError as error:
            raise (
                SingleLineError() if "\n" not in str(error) else AssertionError(str(error))
            ) from error


@pytest.mark.parametrize("method", ZIPS.values(), ids=ZIPS)
def test_damaged_zips_are_read_or_rejected_in_one_line(tmp_path, method):
    packed = io.BytesIO()
    rows = "".join(f"{user},{item},3.5,1000\n" for user in range(1, 30) for item in range(1, 30))
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("ml-20m/ratings.csv", f"userId,movieId,rating,timestamp\n{rows}")
    for seed in range(30):
        (tmp_path / "x.zip").write_bytes(damaged(packed.getvalue(), seed))
        with allow_single_line_errors(), ratings.opened(tmp_path / "x.zip") as (stream, _):
            stream.read()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_damaged_tars_are_read_or_rejected_in_one_line(tmp_path, mode):
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
        with allow_single_line_errors(), cifar10.opened(tmp_path / "x.tar") as (_, read):
            read("test_batch")
        with allow_single_line_errors():
            for member in sources.find_members(tmp_path, [MEMBER], "one file").values():
                sources.append(member, io.BytesIO())
