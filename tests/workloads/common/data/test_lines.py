"""Lines of users' text files: encodings, byte order marks, and line ends."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples
from workloads.common.data import lines as text_lines

MARKS = {
    "utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE, "utf-32-be": codecs.BOM_UTF32_BE,
}  # fmt: skip
TEXT = "Der Zug fährt.\n\ufeffB\u2028c\rd\n\nlast"
LINES = ["Der Zug fährt.", "\ufeffB\u2028c\rd", "", "last"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x"


def all_lines(path, **options):
    return [line for _, some in text_lines.blocks(path, **options) for line in some]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 22])
@pytest.mark.parametrize("encoding", MARKS)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_byte_order_mark_at_the_start_is_skipped(path, monkeypatch, encoding, chunk_bytes, end):
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", chunk_bytes)
    path.write_bytes(MARKS[encoding] + (TEXT + end).encode(encoding))
    assert all_lines(path) == text_lines.read_lines(path) == LINES
    assert text_lines.count_lines(path) == 4


def test_a_byte_order_mark_is_text_in_files_that_the_suite_wrote(path):
    path.write_text("\ufeffa\n", encoding="utf-8")
    assert all_lines(path, has_mark=False) == ["\ufeffa"]
    assert all_lines(path) == ["a"]


@pytest.mark.parametrize("content", [b"", *MARKS.values()], ids=["nothing", *MARKS])
def test_a_file_without_text_has_no_lines(path, content):
    path.write_bytes(content)
    assert all_lines(path) == text_lines.read_lines(path) == []
    assert text_lines.count_lines(path) == 0


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("UTF-16", b"\xff\xfea"),
        ("UTF-16", b"\xfe\xff\xd8\x00\x00a"),
        ("UTF-32", b"\xff\xfe\0\0\xff\xff\xff\xff"),
    ],
)
def test_content_whose_encoding_differs_from_the_mark_is_rejected(path, encoding, content):
    path.write_bytes(content)
    for read in (all_lines, text_lines.read_lines, text_lines.count_lines):
        with pytest.raises(
            ValueError, match=rf"^{path}: not {encoding}, although .*. Save the file as UTF-8$"
        ):
            read(path)


def test_errors_contain_the_name_and_the_line(path):
    path.write_bytes(codecs.BOM_UTF8 + b"a\n\xe4\n")
    for read in (text_lines.read_lines, lambda path, name: all_lines(path, name=name)):
        with pytest.raises(ValueError, match=r"^train\.en:2: not UTF-8 \(byte 0xe4\)"):
            read(path, "train.en")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_entries_of_a_list_end_with_any_line_end(path, end):
    path.write_bytes(codecs.BOM_UTF8 + f"a{end}b c{end}".encode())
    assert text_lines.read_entries(path) == ["a", "b c"]
    assert text_lines.read_entries(path.with_name("x")) == ["a", "b c"]


@examples(100)
@given(
    st.text(st.sampled_from("aä \ufeff\n€𝄞"), max_size=30),
    st.sampled_from([*MARKS]),
    st.integers(1, 9),
)
def test_any_text_is_read_in_any_encoding_and_with_any_chunk_size(
    tmp_path_factory, text, encoding, chunk_bytes
):
    path = tmp_path_factory.mktemp("lines") / "x"
    path.write_bytes(MARKS[encoding] + text.encode(encoding))
    wanted = text.split("\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "CHUNK_BYTES", chunk_bytes)
        assert all_lines(path) == (wanted[:-1] if wanted[-1] == "" else wanted)
