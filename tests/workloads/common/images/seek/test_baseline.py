"""The bits of baseline JPEGs, counted without decoding them: as many as the file has."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples
from tests.workloads.common.images import synthetic_jpegs as synthetic
from workloads.common.images.seek.baseline import parse
from workloads.common.images.seek.bit_counts import ZIGZAG, in_order, unit_bits
from workloads.common.images.seek.huffman import HuffmanTable, NotBaseline
from workloads.common.images.turbo import CoefficientReader

KINDS = ("420", "422", "444", "440", "411", "Gray")


def counted(data):
    """Bits of a file's units, and the bytes of its scan without stuffed ones."""
    jpeg = parse(data)
    bits, _ = unit_bits(jpeg, in_order(jpeg, CoefficientReader().read(data, jpeg.blocks)))
    return int(bits.sum()), len(data[jpeg.data_at : -2].replace(b"\xff\0", b"\xff"))


def test_the_order_of_coefficients_is_the_standards():
    assert ZIGZAG.tolist()[:10] == [0, 1, 8, 16, 9, 2, 3, 10, 17, 24]
    assert ZIGZAG.tolist()[-4:] == [47, 55, 62, 63]
    assert sorted(ZIGZAG) == list(range(64))
    rows, columns = np.divmod(ZIGZAG, 8)
    assert (np.abs(np.diff(rows)) <= 1).all()
    assert (np.abs(np.diff(columns)) <= 1).all()


@examples(60)
@given(
    st.integers(1, 140),
    st.integers(1, 140),
    st.sampled_from(KINDS),
    st.sampled_from((1, 30, 75, 95, 100)),
    st.booleans(),
)
def test_as_many_bits_as_the_file_has(height, width, subsampling, quality, optimized):
    data = synthetic.jpeg(height * 141 + width, height, width, subsampling, quality)
    if optimized:
        data = synthetic.optimized(data)
    bits, size = counted(data)
    assert -(-bits // 8) == size


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (synthetic.pillow(synthetic.pixels(1, 40, 50), progressive=True), "another kind of JPEG"),
        (synthetic.pillow(synthetic.pixels(1, 40, 50), restart_marker_blocks=2), "restart markers"),
        (synthetic.pillow(np.zeros((40, 50, 4), np.uint8), "CMYK"), "another kind of scan"),
        (synthetic.jpeg(1, 40, 50)[:300], "ends too early"),
        (synthetic.pillow(synthetic.pixels(1, 40, 50), kind="PNG"), "."),
        (b"\xff\xd8", "ends too early"),
        (b"", "ends too early"),
    ],
)
def test_other_files_are_told_apart(data, why):
    with pytest.raises(NotBaseline, match=why):
        parse(data)


@examples(100)
@given(st.lists(st.tuples(st.integers(2, 700), st.integers(0, 255)), max_size=5), st.integers(0, 900))
def test_no_damage_leads_to_anything_but_a_reason(changes, length):
    data = bytearray(synthetic.jpeg(3, 40, 50))
    for at, value in changes:
        data[at] = value
    with contextlib.suppress(NotBaseline):
        assert parse(bytes(data[:length])).data_at <= length


class TestHuffmanTable:
    """Codes of annex C, and further ones."""

    TABLE = HuffmanTable.from_counts([0, 1, 2, 1] + [0] * 12, [5, 3, 0, 7])

    def test_an_extended_table_keeps_every_code_and_has_no_prefix(self):
        extended = self.TABLE.extended(range(12))
        assert extended.codes.items() >= self.TABLE.codes.items()
        assert set(extended.codes) == set(range(12))
        words = [format(code, f"0{bits}b") for code, bits in extended.codes.values()]
        assert not any(one != other and other.startswith(one) for one, other in itertools.product(words, words))
        assert not any(set(word) == {"1"} for word in words)
        assert self.TABLE.extended([5, 7]) is self.TABLE

    def test_a_full_table_cannot_be_extended(self):
        with pytest.raises(NotBaseline):
            HuffmanTable.from_counts([2] + [0] * 15, [0, 1]).extended([2])

    def test_too_many_codes_are_refused(self):
        with pytest.raises(NotBaseline):
            HuffmanTable.from_counts([3] + [0] * 15, [0, 1, 2])
