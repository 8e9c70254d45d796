"""JPEG decoding: parts equal the whole image, all formats become RGB, and damage is reported."""

import contextlib
import io
import threading
import time

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from tests.helpers import examples
from tests.workloads.common.images import synthetic_jpegs as synthetic
from workloads.common.images.jpeg import BadImage, Reader, read_header, reduced

KINDS = ("420", "422", "444", "440", "411", "Gray")


@st.composite
def crops(draw):
    """Draw (height, width, subsampling, box)."""
    height, width = draw(st.integers(2, 150)), draw(st.integers(2, 150))
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    box = (left, top, draw(st.integers(1, width - left)), draw(st.integers(1, height - top)))
    return height, width, draw(st.sampled_from(KINDS)), box


@examples(150)
@given(crops(), st.sampled_from(("baseline", "progressive", "restarts")))
@example((97, 131, "420", (16, 16, 32, 32)), "baseline")
@example((97, 131, "420", (17, 15, 1, 1)), "baseline")
@example((97, 131, "411", (33, 31, 64, 50)), "baseline")
def test_a_decoded_part_equals_the_part_of_the_whole_image(crop, form):
    height, width, subsampling, (left, top, box_width, box_height) = crop
    data = synthetic.jpeg(height * 151 + width, height, width, subsampling)
    if form != "baseline":
        options = {"progressive": True} if form == "progressive" else {"restart_marker_blocks": 3}
        image = Image.open(io.BytesIO(data))
        buffer = io.BytesIO()
        image.save(
            buffer,
            "JPEG",
            quality=85,
            **({} if image.mode == "L" else {"subsampling": "keep"}),
            **options,
        )
        data = buffer.getvalue()
    whole = simplejpeg.decode_jpeg(data, "RGB")
    box = (left, top, box_width, box_height)
    expected = whole[top : top + box_height, left : left + box_width]
    reader = Reader()
    part = reader.decode_part(memoryview(data), box, width, height)
    np.testing.assert_array_equal(part, expected)
    reader._regions = None
    np.testing.assert_array_equal(
        reader.decode_part(memoryview(data), box, width, height), expected
    )


def test_a_part_is_decoded_without_the_whole_image(monkeypatch):
    data = synthetic.jpeg(1, 300, 400)
    monkeypatch.setattr(simplejpeg, "decode_jpeg", None)
    part = Reader().decode_part(memoryview(data), (50, 60, 100, 90), 400, 300)
    assert part.shape == (90, 100, 3)


@pytest.mark.parametrize("subsampling", KINDS)
@pytest.mark.parametrize("denominator", [2, 4, 8])
def test_scaled_parts_are_equal_with_and_without_the_region_decoder(subsampling, denominator):
    data = memoryview(synthetic.jpeg(3, 333, 517, subsampling))
    reader, box = Reader(), (101, 67, 301, 205)
    part = reader.decode_part(data, box, 517, 333, denominator).copy()
    reader._regions = None
    np.testing.assert_array_equal(reader.decode_part(data, box, 517, 333, denominator), part)
    left, top, width, height = reduced(box, denominator)
    assert part.shape == (height, width, 3)
    exact = reader.decode_part(data, box, 517, 333)
    smooth = cv2.resize(exact, (width, height), interpolation=cv2.INTER_AREA)
    assert np.abs(smooth.astype(int) - part).mean() < 12
    assert (left * denominator, top * denominator) <= box[:2]
    assert (left + width) * denominator >= 101 + 301


def test_whole_images_equal_those_of_libjpeg_with_default_settings():
    for subsampling in KINDS:
        data = synthetic.jpeg(5, 77, 91, subsampling)
        with Image.open(io.BytesIO(data)) as image:
            np.testing.assert_array_equal(
                Reader().decode(memoryview(data)), np.asarray(image.convert("RGB"))
            )


@pytest.mark.parametrize("adobe", [True, False])
def test_cmyk_becomes_rgb(adobe):
    """Check inverted inks with Adobe's marker, as Pillow writes them, and inks without the marker.

    Without the marker, the stored values are the amounts of ink.
    """
    image = synthetic.pixels(8, 48, 64)
    inks = np.dstack([255 - image, np.full((48, 64), 40, np.uint8)])
    data = synthetic.pillow(inks, "CMYK", quality=95)
    expected = (255.0 - inks[:, :, :3]) * (255 - 40) / 255
    if not adobe:
        at = data.index(b"\xff\xee\x00\x0eAdobe")
        data = data[:at] + data[at + 16 :]
        stored = 255.0 - inks
        expected = (255 - stored[:, :, :3]) * (255 - stored[:, :, 3:]) / 255
    assert read_header(memoryview(data)).colours == "cmyk"
    found = Reader().decode(memoryview(data))
    assert np.abs(found - expected).mean() < 6
    part = Reader().decode_part(memoryview(data), (10, 20, 30, 20), 64, 48)
    np.testing.assert_array_equal(part, found[20:40, 10:40])


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_a_png_is_decoded_under_any_name(mode):
    image = synthetic.pixels(4, 50, 70)
    source = {"RGB": image, "L": image[:, :, 0], "RGBA": np.dstack([image, image[:, :, 0]])}[mode]
    data = memoryview(synthetic.pillow(np.ascontiguousarray(source), mode, "PNG"))
    expected = image if mode != "L" else np.repeat(image[:, :, :1], 3, axis=2)
    assert read_header(data).kind == "png"
    assert (read_header(data).width, read_header(data).height) == (70, 50)
    np.testing.assert_array_equal(Reader().decode(data), expected)
    np.testing.assert_array_equal(
        Reader().decode_part(data, (5, 6, 20, 30), 70, 50, 2), expected[6:36, 5:25]
    )


def test_exif_orientation_is_not_applied():
    """Check that pixels are returned as they are stored, as in the reference."""
    exif = Image.Exif()
    exif[0x0112] = 6
    image = synthetic.pixels(4, 50, 70)
    for kind in ("JPEG", "PNG"):
        data = memoryview(synthetic.pillow(image, kind=kind, exif=exif))
        assert Reader().decode(data).shape == (50, 70, 3)


DATA = synthetic.jpeg(6, 120, 160)
SCAN = DATA.index(b"\xff\xda")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"empty \(0 bytes\)"),
        (b"hello, I am text", "neither a JPEG nor a PNG file .*hello"),
        (DATA[:2], "damaged JPEG header"),
        (DATA[:100], "damaged JPEG header"),
        (DATA[: len(DATA) // 2], "damaged JPEG .*[Pp]remature end"),
        (DATA[:-2], "damaged JPEG .*[Pp]remature end"),
        (DATA[: SCAN + 500] + b"\xff\xd9", "damaged JPEG"),
        (synthetic.pillow(synthetic.pixels(1, 30, 30), kind="PNG")[:200], "damaged PNG"),
        (synthetic.pillow(synthetic.pixels(1, 30, 30), kind="PNG")[:20], "incomplete PNG header"),
    ],
)
def test_damage_is_reported(data, message):
    with pytest.raises(BadImage, match=message):
        Reader().decode(memoryview(data))


@examples(60)
@given(
    st.lists(st.tuples(st.integers(2, len(DATA) - 1), st.integers(0, 255)), max_size=6),
    st.integers(1, len(DATA)),
)
def test_damaged_files_are_decoded_or_rejected(changes, length):
    data = bytearray(DATA)
    for at, value in changes:
        data[at] = value
    for decode in (
        lambda reader, content: reader.decode(content),
        lambda reader, content: reader.decode_part(content, (20, 30, 90, 70), 160, 120),
        lambda reader, content: reader.decode_part(content, (20, 30, 90, 70), 160, 120, 2),
    ):
        with contextlib.suppress(BadImage):
            assert decode(Reader(), memoryview(bytes(data[:length]))).dtype == np.uint8


def test_damage_within_a_part_is_reported():
    with pytest.raises(BadImage, match="damaged JPEG"):
        Reader().decode_part(memoryview(DATA[: len(DATA) // 2]), (0, 60, 160, 60), 160, 120)
    wrong = bytearray(DATA)
    wrong[SCAN + 300 : SCAN + 316] = b"\xff\x01" * 8
    with pytest.raises(BadImage, match="damaged JPEG"):
        Reader().decode_part(memoryview(bytes(wrong)), (0, 0, 160, 120), 160, 120)


def test_a_size_that_differs_from_the_index_is_reported():
    with pytest.raises(BadImage, match="160 x 120 pixels instead of 160 x 121"):
        Reader().decode_part(memoryview(DATA), (0, 0, 10, 10), 160, 121)


def test_harmless_bytes_before_the_end_are_accepted():
    data = DATA[:-2] + b"\0" * 9 + DATA[-2:]
    expected = simplejpeg.decode_jpeg(DATA)
    np.testing.assert_array_equal(Reader().decode(memoryview(data)), expected)
    part = Reader().decode_part(memoryview(data), (3, 30, 100, 90), 160, 120)
    np.testing.assert_array_equal(part, expected[30:120, 3:103])


def sized(width, height):
    """Return a JPEG whose header contains a wrong size."""
    at = DATA.index(b"\xff\xc0") + 5
    return memoryview(
        DATA[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + DATA[at + 4 :]
    )


def test_too_large_images_are_rejected():
    assert read_header(sized(20_000, 375)).width == 20_000
    assert read_header(sized(20_000, 5_000)).height == 5_000
    with pytest.raises(
        BadImage, match="20,000 x 5,001 pixels, more than the maximum of 100,000,000"
    ):
        read_header(sized(20_000, 5_001))
    with pytest.raises(
        BadImage, match="20,000 x 199 pixels, more than the maximum aspect ratio of 100"
    ):
        read_header(sized(20_000, 199))


def test_a_file_is_read_if_its_size_is_unchanged(tmp_path):
    reader, path = Reader(), tmp_path / "a b.jpg"
    path.write_bytes(b"x" * 400_000)
    assert bytes(reader.read(path)) == b"x" * 400_000
    assert len(reader.read(path, 400_000)) == 400_000
    with pytest.raises(BadImage, match="400,000 bytes, but 12 when it was prepared"):
        reader.read(path, 12)
    with pytest.raises(BadImage, match="No such file"):
        reader.read(tmp_path / "nowhere")
    with pytest.raises(BadImage, match="not a regular file"):
        reader.read(tmp_path)


@pytest.mark.slow
def test_decoding_lets_other_threads_run():
    """Check that a thread that only counts makes progress during single calls of the decoder."""
    data, counted, stop = (
        memoryview(synthetic.jpeg(1, 2400, 3200, quality=95)),
        [0],
        threading.Event(),
    )

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        reader = Reader()

        def within(call):
            before = counted[0]
            call()
            return counted[0] - before

        # The median of three calls is used, because on a busy machine the counting thread may not
        # run during a single call.
        part = [
            within(lambda: reader.decode_part(data, (0, 0, 3200, 2400), 3200, 2400))
            for _ in range(3)
        ]
        whole = [within(lambda: reader.decode(data)) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert min(sorted(part)[1], sorted(whole)[1]) > 10


def test_a_file_without_huffman_tables_does_not_use_tables_of_an_earlier_file():
    """Check a JPEG without Huffman tables, as in Motion JPEG, after a file with tables.

    The library keeps the last tables of a handle.
    """
    content = memoryview(synthetic.without(DATA, 0xC4))
    reader, box = Reader(), (20, 30, 90, 70)
    with_tables = synthetic.pillow(synthetic.pixels(9, 120, 160), quality=30, optimize=True)
    reader.decode_part(memoryview(with_tables), box, 160, 120)
    part = reader.decode_part(content, box, 160, 120).copy()
    np.testing.assert_array_equal(part, simplejpeg.decode_jpeg(DATA)[30:100, 20:110])
