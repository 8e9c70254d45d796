"""Preparation of token files: MLCommons' files, text of the user, and the demo."""

import json

import numpy as np
import pytest

from tests.workloads.llama31_8b.test_llama_token_files import write_index
from workloads.llama31_8b import token_files
from workloads.llama31_8b.dataset import (
    C4_BYTES,
    C4_FILES,
    C4Llama31,
    GrammarDemo,
    LlamaText,
    load_dataset_info,
    published_dataset_info,
)


@pytest.fixture
def published(tmp_path):
    """Return a folder with files that have the published names, but other content."""
    source = tmp_path / "source"
    source.mkdir()
    for name in C4_FILES.values():
        token_files.write(source, name, [np.arange(40, dtype=np.int32)] * 3)
    return source


def test_published_counts_follow_from_the_published_sizes():
    """Check 42 + 20 · N bytes for N documents, and 4 bytes per token."""
    info = published_dataset_info(8_192, 1_024)
    assert info.sizes["train_documents"] == 45_608_611
    for split, name in C4_FILES.items():
        assert C4_BYTES[f"{name}.idx"] == 42 + 20 * info.sizes[f"{split}_documents"]
        assert C4_BYTES[f"{name}.bin"] == 4 * info.sizes[f"{split}_tokens"]
    assert (info.train_samples, info.evaluation_samples) == (2_562_767, 1_024)


def test_files_of_other_sizes_are_prepared_and_not_called_published(published, tmp_path):
    C4Llama31().prepare(published, tmp_path / "data")
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert manifest["counts"]["train_tokens"] == 120
    assert manifest["matches_published"] is False
    info = load_dataset_info(tmp_path / "data", 8, 2)
    assert (info.train_samples, info.evaluation_samples) == ((120 - 1) // 8, 2)


def test_prepared_files_are_verified(published, tmp_path):
    C4Llama31().prepare(published, tmp_path / "data")
    C4Llama31().verify(tmp_path / "data")
    path = tmp_path / "data" / "train.bin"
    content = bytearray(path.read_bytes())
    path.unlink()  # The prepared file may be a hard link to the source.
    content[17] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"train\.bin"):
        C4Llama31().verify(tmp_path / "data")


def test_a_missing_file_has_a_message_with_all_names(published, tmp_path):
    (published / f"{C4_FILES['validation']}.idx").unlink()
    with pytest.raises(ValueError, match=r"no such file\. Download") as error:
        C4Llama31().prepare(published, tmp_path / "data")
    assert all(name in str(error.value) for name in C4_BYTES)
    assert not (tmp_path / "data").exists()


def test_a_damaged_index_leaves_no_data_set(published, tmp_path):
    write_index(published / f"{C4_FILES['train']}.idx", [40, 40, 41])
    with pytest.raises(ValueError, match="Copy the file again"):
        C4Llama31().prepare(published, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_too_few_tokens_have_a_message(published, tmp_path):
    C4Llama31().prepare(published, tmp_path / "data")
    with pytest.raises(ValueError, match="An evaluation needs 1,024"):
        load_dataset_info(tmp_path / "data", 8, 1_024)


def test_the_demo_is_generated(tmp_path):
    GrammarDemo().make_demo(tmp_path / "demo")
    info = load_dataset_info(tmp_path / "demo", 128, 128)
    assert info.train_samples == 8_193
    assert info.sizes["train_tokens"] == 1_048_828


def test_text_without_a_tokenizer_has_a_message(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.txt").write_text("a text\n")
    with pytest.raises(ValueError, match=r"validation\.txt: no such file"):
        LlamaText().prepare(tmp_path / "source", tmp_path / "data")


def test_text_is_tokenized_with_a_tokenizer_file(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "red": 1, "green": 2, "blue": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    source = tmp_path / "source"
    source.mkdir()
    tokenizer.save(str(source / "tokenizer.json"))
    (source / "train.txt").write_text("red green\n\nblue other\n")
    (source / "validation.txt").write_text("blue\n")
    LlamaText().prepare(source, tmp_path / "data")
    index = token_files.read_index(tmp_path / "data" / "train.idx")
    assert (index.documents, index.tokens) == (2, 4)
    found = token_files.map_tokens(tmp_path / "data" / "train.bin", index)
    assert found.tolist() == [1, 2, 3, 0]
