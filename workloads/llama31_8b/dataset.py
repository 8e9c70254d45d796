"""Data sets of tokens: the preprocessed C4 files of the reference, text of the user, and the demo.

The prepared form has four files: `train.bin`, `train.idx`, `validation.bin`, and `validation.idx`
(token_files.py). A sample is a window of `sequence_length + 1` tokens. Windows overlap by one token
and cross the borders of documents, as in the reference.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from workloads.api import DatasetInfo
from workloads.common import manifest as manifests
from workloads.common.arrays import Int32s
from workloads.common.data.downloads import prepared
from workloads.common.data.generated import Generated
from workloads.common.data.published import COUNTS
from workloads.common.manifest import Manifest
from workloads.files import open_stream
from workloads.llama31_8b import grammar, token_files

SPLITS = ("train", "validation")
C4_FILES: Mapping[str, str] = {
    "train": "c4-train.en_6_text_document",
    "validation": "c4-validation-91205-samples.en_text_document",
}
"""Published names of the files, without suffix (REF utils/consolidate_data.sh in
mlcommons/training, small_llm_pretraining/nemo).
"""
C4_BYTES: Mapping[str, int] = {
    "c4-train.en_6_text_document.bin": 83_976_774_280,
    "c4-train.en_6_text_document.idx": 912_172_262,
    "c4-validation-91205-samples.en_text_document.bin": 166_568_364,
    "c4-validation-91205-samples.en_text_document.idx": 1_824_142,
}
"""Sizes of the published files (NVIDIA's expected-mounts-8b.csv in training_results_v5.1)."""
DEMO_SEED = 0
DEMO_TOKENS = {"train": 8_192 * 128 + 200, "validation": 256 * 128 + 200}
"""Fewest tokens of each split of the demo."""
WHOLE_FILE_BYTES = 1 << 30
"""Text files up to this size are converted."""


class TokenFiles(manifests.Prepared):
    """Data set of token files."""

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        """Return the lines that are printed after the preparation."""
        counts = manifest.counts
        return [
            f"{self.name}: {counts['train_documents']:,} training documents,"
            f" {counts['train_tokens']:,} training tokens,"
            f" {counts['validation_tokens']:,} validation tokens,"
            f" in {destination}",
            *manifest.notices,
        ]

    def describe(self, folder: Path, source: Mapping[str, object], compared: str = "") -> Manifest:
        """Return the manifest of the files in a folder, without their digests.

        Args:
            folder: Folder with the prepared files.
            source: Name, size in bytes, and digest of the input.
            compared: Published content that the input matches.

        Raises:
            ValueError: A file is damaged.
        """
        counts: dict[str, int] = {}
        for split in SPLITS:
            index = token_files.read_index(folder / f"{split}.idx")
            token_files.map_tokens(folder / f"{split}.bin", index)
            counts |= {f"{split}_documents": index.documents, f"{split}_tokens": index.tokens}
        notes = manifests.unlike(self.name, counts, compared, "its files have other sizes")
        return Manifest(
            dataset=self.name,
            source=source,
            options={},
            counts=counts,
            notes=notes,
            matches_published=not notes if self.name in COUNTS else None,
            compared=compared,
        )

    def how(self) -> str:
        return f"suite data prepare {self.name} --from FOLDER"


class C4Llama31(TokenFiles):
    """C4 with the tokens of Llama 3.1, as MLCommons publishes it."""

    name: ClassVar[str] = "c4-llama31"

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Link or copy the four published files.

        Files on the same file system as `destination` are linked, so that 85 GB are not copied.
        """
        sizes = {}
        for name in C4_BYTES:
            path = source / name
            sizes[name] = path.stat().st_size if path.is_file() else -1
            if sizes[name] < 0:
                raise ValueError(
                    f"{path}: no such file. Download llama-3-1-8b-preprocessed-c4-dataset from"
                    f" MLCommons, and set --from to the folder with {', '.join(C4_BYTES)}"
                )
        origin = {"name": source.name, "sha256": _digest_of_indexes(source)}
        if already := self.already(destination, lambda: Manifest(self.name, origin, {}, {})):
            return already
        compared = "sizes of the published files" if sizes == dict(C4_BYTES) else ""
        with manifests.workspace(destination) as folder:
            for split, name in C4_FILES.items():
                for suffix in (".bin", ".idx"):
                    _link_or_copy(source / f"{name}{suffix}", folder / f"{split}{suffix}")
            described = self.describe(folder, {**origin, "bytes": sum(sizes.values())}, compared)
            manifest = manifests.publish(folder, destination, described)
        return self.lines(manifest, destination)


class LlamaText(TokenFiles):
    """Text of the user: `train.txt` and `validation.txt`, a document per line, and a tokenizer.

    The tokenizer is a `tokenizer.json` of Hugging Face's library `tokenizers`.
    """

    name: ClassVar[str] = "llama-text"

    def prepare(self, source: Path, destination: Path) -> list[str]:
        paths = [source / f"{split}.txt" for split in SPLITS] + [source / "tokenizer.json"]
        if missing := [path for path in paths if not path.is_file()]:
            raise ValueError(
                f"{missing[0]}: no such file. --from is a folder with train.txt, validation.txt (a"
                " document per line), and tokenizer.json"
            )
        digest = "".join(manifests.sha256(path) for path in paths)
        origin = {"name": source.name, "sha256": digest[:64]}
        if already := self.already(destination, lambda: Manifest(self.name, origin, {}, {})):
            return already
        encode = _encoder(source / "tokenizer.json")
        with manifests.workspace(destination) as folder:
            for split, path in zip(SPLITS, paths[:2], strict=True):
                token_files.write(folder, split, (encode(line) for line in _documents(path)))
            described = self.describe(
                folder, {**origin, "bytes": sum(path.stat().st_size for path in paths)}
            )
            manifest = manifests.publish(folder, destination, described)
        return self.lines(manifest, destination)


class GrammarDemo(Generated, TokenFiles):
    """Generated text of a grammar (grammar.py), in the same files as the real data."""

    name: ClassVar[str] = "llama-demo"

    def generate(self, folder: Path) -> Manifest:
        """Write the token files, which takes two seconds, and return the manifest."""
        for split, tokens in DEMO_TOKENS.items():
            token_files.write(folder, split, grammar.documents(DEMO_SEED, split, tokens))
        return self.describe(folder, {"name": "generated", "bytes": 0, "sha256": ""})


def load_dataset_info(data_dir: str | Path, sequence_length: int, evaluation: int) -> DatasetInfo:
    """Return the sample counts of prepared token files.

    Args:
        data_dir: Folder of the prepared data.
        sequence_length: Tokens of a sample.
        evaluation: Number of validation samples that an evaluation uses.

    Raises:
        ValueError: The data are missing, or have too few tokens. The message contains the remedy.
    """
    folder = Path(data_dir)
    manifest = prepared(folder, C4Llama31.name, source="FOLDER")
    try:
        counts = {
            name: int(manifest.counts[name])
            for name in ("train_tokens", "train_documents", "validation_tokens")
        }
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{folder / manifests.NAME}: expected the manifest of token files, got"
            f" {manifest.dataset}"
        ) from None
    samples = (counts["train_tokens"] - 1) // sequence_length
    available = (counts["validation_tokens"] - 1) // sequence_length
    if samples < 1 or available < evaluation:
        raise ValueError(
            f"{folder}: {samples:,} training and {available:,} validation sequences of"
            f" {sequence_length:,} tokens. An evaluation needs {evaluation:,}"
        )
    return DatasetInfo(samples, evaluation, counts, manifest.fingerprint, manifests.notes(manifest))


def published_dataset_info(sequence_length: int, evaluation: int) -> DatasetInfo:
    """Return the counts of the published C4 files, for runs on synthetic batches."""
    counts = dict(COUNTS[C4Llama31.name])
    samples = (counts["train_tokens"] - 1) // sequence_length
    return DatasetInfo(samples, evaluation, counts, "synthetic")


def _digest_of_indexes(source: Path) -> str:
    """Return a digest of both index files, which identify a preparation of C4."""
    digests = (manifests.sha256(source / f"{name}.idx") for name in C4_FILES.values())
    return "".join(digests)[:64]


def _link_or_copy(source: Path, destination: Path) -> None:
    try:
        os.link(source, destination)
    except OSError:  # a different file system, or no right to link
        shutil.copyfile(source, destination)


def _documents(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file that are not empty.

    The function raises ValueError for an invalid character or a file that is too large.
    """
    if path.stat().st_size > WHOLE_FILE_BYTES:
        raise ValueError(f"{path}: larger than {WHOLE_FILE_BYTES >> 30} GiB. Use a smaller file")
    with open_stream(path) as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}, line {number}: not UTF-8 ({error.reason})") from None
            if text:
                yield text


def _encoder(path: Path) -> Callable[[str], Int32s]:
    """Return a function from text to int32 tokens (n,).

    Raises:
        ValueError: The library is missing, or the file is not a tokenizer.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise ValueError(
            "llama-text needs the library tokenizers. Run: pip install tokenizers==0.22.1"
        ) from None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a plain Exception
        raise ValueError(f"{path}: not a tokenizer of the library tokenizers ({error})") from None

    def encode(text: str) -> Int32s:
        return np.array(tokenizer.encode(text, add_special_tokens=False).ids, np.int32)

    return encode
