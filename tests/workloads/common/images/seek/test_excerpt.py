"""Seek points: a part decoded from an excerpt has the very pixels of the whole file."""

import io

import numpy as np
import pytest
import simplejpeg
from hypothesis import assume, example, given
from hypothesis import strategies as st
from PIL import Image

from tests.helpers import examples
from tests.workloads.common.images import synthetic_jpegs as synthetic
from workloads.common.images import turbo
from workloads.common.images.files import BadImage
from workloads.common.images.jpeg import Reader
from workloads.common.images.seek import cut_excerpt
from workloads.common.images.seek.baseline import parse
from workloads.common.images.seek.huffman import NotBaseline
from workloads.common.images.seek.record_writer import make_record
from workloads.common.images.turbo import CoefficientReader, DecoderWarning

KINDS = ("420", "422", "444", "440", "411", "Gray")


def points_of(data):
    height, width, _, _ = simplejpeg.decode_jpeg_header(bytes(data), strict=False)
    return memoryview(make_record(data, width, height, CoefficientReader()))


@st.composite
def crops(draw):
    """(height, width, box) of an image with several segments."""
    height, width = draw(st.integers(8, 330)), draw(st.integers(70, 400))
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    return height, width, (left, top, draw(st.integers(1, width - left)), draw(st.integers(1, height - top)))


@examples(120)
@given(
    crops(), st.sampled_from(KINDS), st.sampled_from((20, 85, 98, 100)), st.booleans(), st.sampled_from((1, 1, 2, 4, 8))
)
@example((330, 400, (130, 66, 1, 1)), "420", 85, False, 1)
@example((330, 400, (128, 64, 64, 64)), "420", 85, True, 1)
@example((330, 400, (399, 329, 1, 1)), "411", 85, False, 1)
@example((320, 384, (192, 160, 192, 160)), "440", 100, False, 2)
def test_an_excerpt_has_exactly_the_pixels_of_the_whole(crop, subsampling, quality, own_tables, denominator):
    height, width, box = crop
    data = synthetic.jpeg(height * 401 + width, height, width, subsampling, quality)
    if own_tables:
        data = synthetic.optimized(data)
    try:
        points = points_of(data)
    except NotBaseline:
        assume(False)
    reader, content = Reader(), memoryview(data)
    expected = reader.decode_part(content, box, width, height, denominator).copy()
    found = cut_excerpt(content, points, box, width, height, denominator)
    if found is not None:
        moved = (box[0] - found.left, box[1] - found.top, box[2], box[3])
        part = Reader().decode_part(memoryview(found.data), moved, *found.header[:2], denominator)
        np.testing.assert_array_equal(part, expected)
    np.testing.assert_array_equal(reader.decode_part(content, box, width, height, denominator, points), expected)


@pytest.mark.parametrize("subsampling", KINDS)
@pytest.mark.parametrize("own_tables", [False, True])
def test_every_kind_of_photograph_has_seek_points(subsampling, own_tables):
    """What the property test leaves out is rare: tables that lack a symbol."""
    for seed in range(6):
        data = synthetic.jpeg(seed, 300, 400, subsampling)
        points = points_of(synthetic.optimized(data) if own_tables else data)
        assert len(points) > 100


@pytest.mark.parametrize("subsampling", KINDS)
def test_an_excerpt_is_a_file_that_others_read_without_complaint(subsampling):
    data = synthetic.jpeg(7, 300, 400, subsampling)
    found = cut_excerpt(memoryview(data), points_of(data), (260, 170, 60, 60), 400, 300, 1)
    assert found is not None
    assert len(found.data) < len(data) / 3
    pixels = simplejpeg.decode_jpeg(bytes(found.data), strict=True)
    assert pixels.shape == (found.header[1], found.header[0], 3)
    whole = simplejpeg.decode_jpeg(data)[170:230, 260:320]
    left, top = 260 - found.left, 170 - found.top
    np.testing.assert_array_equal(pixels[top : top + 60, left : left + 60], whole)
    with Image.open(io.BytesIO(found.data)) as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), pixels)


def test_less_is_decoded(monkeypatch):
    """The decoder gets the excerpt, not the file."""
    data = synthetic.jpeg(9, 375, 500)
    reader, given_ = Reader(), []
    opened = reader._regions.open
    monkeypatch.setattr(reader._regions, "open", lambda data: given_.append(len(data)) or opened(data))
    reader.decode_part(memoryview(data), (200, 200, 100, 100), 500, 375, 1, points_of(data))
    assert len(given_) == 1
    assert given_[0] < len(data) / 3


@pytest.mark.parametrize("box", [(0, 0, 400, 300), (3, 0, 390, 200), (0, 0, 400, 40)])
def test_parts_from_the_top_over_the_whole_width_are_not_worth_it(box):
    data = synthetic.jpeg(2, 300, 400)
    assert cut_excerpt(memoryview(data), points_of(data), box, 400, 300, 1) is None


BOX = (260, 170, 60, 60)
DATA = synthetic.jpeg(7, 300, 400)
SCAN = DATA.index(b"\xff\xda") + 14


def test_metadata_before_the_image_are_no_obstacle():
    exif = Image.Exif()
    exif[0x010E] = "x" * 30_000
    with Image.open(io.BytesIO(DATA)) as image:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality="keep", exif=exif)
    data = memoryview(buffer.getvalue())
    found = Reader().decode_part(data, BOX, 400, 300, 1, points_of(data))
    np.testing.assert_array_equal(found, Reader().decode_part(data, BOX, 400, 300))


def test_points_of_another_file_are_not_used():
    other = synthetic.jpeg(8, 300, 400, quality=86)
    assert cut_excerpt(memoryview(other), points_of(DATA), BOX, 400, 300, 1) is None
    assert cut_excerpt(memoryview(DATA)[:50], points_of(DATA), BOX, 400, 300, 1) is None


def test_a_file_with_the_same_header_and_other_content_is_decoded_whole():
    """The checksum cannot tell them apart; segments that do not end at their markers do."""
    other = synthetic.jpeg(8, 300, 400)
    assert other[:SCAN] == DATA[:SCAN]
    found = Reader().decode_part(memoryview(other), BOX, 400, 300, 1, points_of(DATA))
    np.testing.assert_array_equal(found, Reader().decode_part(memoryview(other), BOX, 400, 300))


def test_damage_in_the_part_is_named():
    wrong = bytearray(DATA)
    first = SCAN + (len(DATA) - SCAN) // 2
    wrong[first : first + 4000] = b"\xff\x01" * 2000
    assert cut_excerpt(memoryview(bytes(wrong)), points_of(DATA), BOX, 400, 300, 1) is not None
    with pytest.raises(BadImage, match="damaged JPEG"):
        Reader().decode_part(memoryview(bytes(wrong)), BOX, 400, 300, 1, points_of(DATA))


def test_a_truncated_file_has_no_points():
    with pytest.raises((NotBaseline, DecoderWarning)):
        points_of(DATA[: len(DATA) // 2])
    with pytest.raises((NotBaseline, DecoderWarning)):
        points_of(DATA[: len(DATA) // 2] + b"\xff\xd9")


@examples(80)
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=8), st.integers(0, 4000))
def test_damaged_points_are_not_used(changes, length):
    points = bytearray(points_of(DATA))
    for at, value in changes:
        if at < len(points):
            points[at] = value
    damaged = memoryview(bytes(points[:length]))
    if damaged != points_of(DATA):
        assert cut_excerpt(memoryview(DATA), damaged, BOX, 400, 300, 1) is None
    part = Reader().decode_part(memoryview(DATA), BOX, 400, 300, 1, damaged)
    np.testing.assert_array_equal(part, Reader().decode_part(memoryview(DATA), BOX, 400, 300))


def changed(data, at, value):
    return data[:at] + bytes([value]) + data[at + 1 :]


FRAME = DATA.index(b"\xff\xc0")
TABLE = DATA.index(b"\xff\xc4")


@pytest.mark.parametrize(
    "data",
    [
        synthetic.without(DATA, 0xC4),
        synthetic.without(DATA, 0xDB),
        DATA[:2] + b"\xff\xd0" + DATA[2:],
        DATA[:2] + b"\xff\x01" + DATA[2:],
        changed(DATA, FRAME + 13, DATA[FRAME + 10]),  # two colours of one name
        changed(DATA, TABLE + 22, DATA[TABLE + 21]),  # two codes of one symbol
        changed(DATA, SCAN - 8, 0x11 + DATA[SCAN - 8]),  # a table that is not there
    ],
)
def test_headers_that_decoders_read_in_their_own_way_have_no_points(data):
    """libjpeg-turbo takes most of them."""
    with pytest.raises((NotBaseline, DecoderWarning)):
        make_record(data, 400, 300, CoefficientReader())


def test_first_coefficients_that_overflow_have_no_points():
    """A grey image whose first coefficients rise without end: libjpeg-turbo cuts them off to 16 bits, and says nothing."""
    data = synthetic.jpeg(1, 304, 400, "Gray")
    table, rest = parse(data).tables[0].codes[11], parse(data).tables[16].codes[0]
    block = format(table[0], f"0{table[1]}b") + "1" * 11 + format(rest[0], f"0{rest[1]}b")
    flat = "".join(format(code, f"0{bits}b") for code, bits in (parse(data).tables[0].codes[0], rest))
    bits = block * 20 + flat * (50 * 38 - 20)
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    rising = data[: parse(data).data_at] + scan + b"\xff\xd9"
    assert Reader().decode(memoryview(rising)).shape == (304, 400, 3)
    with pytest.raises(NotBaseline, match="first coefficient"):
        points_of(rising)


@examples(100)
@given(st.lists(st.tuples(st.integers(SCAN, len(DATA) - 3), st.integers(0, 7)), min_size=1, max_size=3))
def test_damage_before_points_were_made_changes_no_pixel(flips):
    """What decodes at all, with points, decodes to what it is without; a decoder gets over some damage."""
    data = bytearray(DATA)
    for at, bit in flips:
        data[at] ^= 1 << bit
    try:
        points = points_of(data)
    except (NotBaseline, DecoderWarning):
        return
    reader, content = Reader(), memoryview(bytes(data))
    for box in (BOX, (70, 40, 200, 200)):
        expected = reader.decode_part(content, box, 400, 300).copy()
        np.testing.assert_array_equal(reader.decode_part(content, box, 400, 300, 1, points), expected)


def test_a_shorter_file_and_another_size_are_named_with_points_too():
    points = points_of(DATA)
    with pytest.raises(BadImage, match="damaged JPEG"):
        Reader().decode_part(memoryview(DATA)[:5000], BOX, 400, 300, 1, points)
    with pytest.raises(BadImage, match="400 x 300 pixels instead of 1000 x 1000"):
        Reader().decode_part(memoryview(DATA), BOX, 1000, 1000, 1, points)
    with pytest.raises(NotBaseline, match="another size"):
        make_record(DATA, 400, 301, CoefficientReader())


def test_narrow_images_have_none():
    with pytest.raises(NotBaseline, match="narrow"):
        points_of(synthetic.jpeg(4, 211, 31, "420"))


def test_flat_images_whose_segments_share_bytes():
    image = np.full((64, 450, 3), 90, np.uint8)
    image[20:40, 100:300] = 200
    data = memoryview(synthetic.pillow(image, quality=30, optimize=True))
    points, reader = points_of(data), Reader()
    for left in range(3, 440, 7):
        box = (left, 17, 9, 30)
        found = cut_excerpt(data, points, box, 450, 64, 1)
        if found is not None:
            simplejpeg.decode_jpeg(bytes(found.data), strict=True)
        expected = reader.decode_part(data, box, 450, 64).copy()
        np.testing.assert_array_equal(reader.decode_part(data, box, 450, 64, 1, points), expected)


def test_a_failure_while_coefficients_are_copied_is_raised(monkeypatch):
    """Nothing may be raised through the library, and nothing be lost."""

    def interrupt(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(turbo.ctypes, "memmove", interrupt)
    with pytest.raises(KeyboardInterrupt):
        points_of(DATA)
