"""Token files: the layout of Megatron, written and read by independent code, and damaged files."""

import struct

import numpy as np
import pytest

from workloads.llama31_8b import token_files

DOCUMENTS = ([5, 6, 7], [8], [9, 10])


def write_index(path, lengths, code=4, version=1, offsets=None, magic=b"MMIDIDX\x00\x00"):
    """Write an index by the documented layout, field by field."""
    size = {4: 4, 8: 2}.get(code, 4)
    starts = [size * sum(lengths[:number]) for number in range(len(lengths))]
    content = magic + struct.pack("<Q", version) + struct.pack("<B", code)
    content += struct.pack("<QQ", len(lengths), len(lengths) + 1)
    content += struct.pack(f"<{len(lengths)}i", *lengths)
    content += struct.pack(f"<{len(lengths)}q", *(offsets or starts))
    content += struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1))
    path.write_bytes(content)


def written(folder):
    """Write DOCUMENTS, and return the paths of the index and of the tokens."""
    token_files.write(folder, "train", (np.array(ids, np.int32) for ids in DOCUMENTS))
    return folder / "train.idx", folder / "train.bin"


def test_written_files_have_the_layout_of_megatron(tmp_path):
    index, tokens = written(tmp_path)
    assert tokens.read_bytes() == struct.pack("<6i", 5, 6, 7, 8, 9, 10)
    write_index(tmp_path / "expected.idx", [3, 1, 2])
    assert index.read_bytes() == (tmp_path / "expected.idx").read_bytes()
    assert index.stat().st_size == 42 + 20 * len(DOCUMENTS)


@pytest.mark.parametrize(("code", "kind"), [(4, "<i4"), (8, "<u2")])
def test_tokens_of_both_types_are_read(tmp_path, code, kind):
    write_index(tmp_path / "train.idx", [3, 1, 2], code)
    (tmp_path / "train.bin").write_bytes(np.arange(6).astype(kind).tobytes())
    index = token_files.read_index(tmp_path / "train.idx")
    assert (index.documents, index.tokens) == (3, 6)
    found = token_files.map_tokens(tmp_path / "train.bin", index)
    assert found.tolist() == list(range(6))
    assert not found.flags.writeable


def test_the_index_is_read_without_the_tokens(tmp_path):
    index, tokens = written(tmp_path)
    tokens.unlink()
    assert token_files.read_index(index).tokens == 6
    with pytest.raises(ValueError, match="Copy the file again"):
        token_files.map_tokens(tokens, token_files.read_index(index))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"magic": b"MMIDIDY\x00\x00"}, "expected an index of Megatron"),
        ({"version": 2}, "version 2 and token type 4"),
        ({"code": 5}, "version 1 and token type 5"),
        ({"offsets": [0, 16, 20]}, "do not follow each other"),
        ({"lengths": [3, -1, 2]}, "do not follow each other"),
    ],
)
def test_an_invalid_index_has_a_message_of_one_line(tmp_path, arguments, message):
    write_index(tmp_path / "train.idx", **{"lengths": [3, 1, 2], **arguments})
    with pytest.raises(ValueError, match=message) as error:
        token_files.read_index(tmp_path / "train.idx")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", range(0, 102, 3))
def test_a_truncated_index_is_refused(tmp_path, size):
    index, _ = written(tmp_path)
    index.write_bytes(index.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"train\.idx"):
        token_files.read_index(index)


def test_sizes_of_the_header_are_not_trusted(tmp_path):
    path = tmp_path / "train.idx"
    path.write_bytes(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, 2**61, 2**61 + 1))
    with pytest.raises(ValueError, match="expected"):
        token_files.read_index(path)


@pytest.mark.parametrize("change", [-1, 1])
def test_tokens_of_a_different_size_are_refused(tmp_path, change):
    index, tokens = written(tmp_path)
    tokens.write_bytes(b"\x00" * (24 + change))
    with pytest.raises(ValueError, match="6 tokens in 24 bytes"):
        token_files.map_tokens(tokens, token_files.read_index(index))
