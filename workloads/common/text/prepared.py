"""Prepared form of a parallel corpus: arrays of ids, a vocabulary, and raw references.

Each split (`train`, `dev`, `test`) has these files for `source` and `target` (SIDE):

    SPLIT_SIDE.npy            (T,) uint16, or int32 for a large vocabulary: ids of all sentences
    SPLIT_SIDE_offsets.npy    (N + 1,) int64: sentence n is ids[offsets[n] : offsets[n + 1]]

The ids of all sentences are concatenated, without special ids. The whole corpus has these files:

    train_length_counts.npy   (2, L) int64: `length_counts` of the training pairs
    vocabulary.txt            one subword per line, or one quoted subtoken per line (`subtokens.py`)
    references.txt            the raw translations of the test set, one per line

Before the clock of a run starts, workers read only the length counts (`DatasetInfo.arrays`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from workloads.common.arrays import Bools, Int32s, Int64s, Integers, UInt16s, mapped
from workloads.common.data import lines
from workloads.common.data.lines import read_lines
from workloads.common.text import encoding, subtokens
from workloads.common.text.encoding import Encoded, id_type, read_vocabulary
from workloads.common.text.subtokens import Subtokeniser
from workloads.common.text.vocabulary import Framing, Vocabulary

SIDES = ("source", "target")
SPLITS = ("train", "dev", "test")
VOCABULARY, REFERENCES, LENGTH_COUNTS = (
    "vocabulary.txt",
    "references.txt",
    "train_length_counts.npy",
)
LONGEST = 254
"""Maximum number of subwords in a training sentence. Pairs that contain a longer sentence are
dropped.

With BOS and EOS, the maximum is 256. No published hyperparameter set uses longer sentences
(Transformer reference, model_params.py).
"""
SUBTOKENS = "subtokens"
"""Value of the manifest option `subwords` if the ids are subtokens of plain text."""
UNKNOWN_SHARE = 0.01
"""Maximum fraction of unknown subwords in the training text.

A higher fraction means that the vocabulary does not match the text.
"""

Ids = Integers


class DropReason(Enum):
    """Reason for dropping a sentence pair.

    The value of the enum is printed after the number of pairs that were dropped for this reason.
    """

    EMPTY = "with an empty side"
    MANY_WORDS = "over 80 words"
    LOPSIDED = "with one side more than 9 times as long as the other"
    LONG_WORD = "with a word of over 1,000 characters"
    NOT_LATIN1 = "not in latin-1"
    MANY_SUBWORDS = "with too many subwords"


@dataclass(frozen=True)
class Processed:
    """Text files to encode, with one sentence per line.

    A sentence is a list of subwords separated by spaces, or plain text.
    """

    files: dict[tuple[str, str], Path]
    """Path of the text file for each (split, side), where the side is `source` or `target`."""
    vocabulary: Path
    references: Path
    """File with the raw translations of the test set."""
    subtokens: bool = False
    """Whether the files are plain text that must be split into the subtokens of the vocabulary.

    Plain text files may have empty lines.
    """
    longest: int = LONGEST
    """Maximum number of subwords in a training sentence.

    Pairs that contain a longer sentence are dropped.
    """
    names: Mapping[Path, str] = field(default_factory=dict)
    """File names that messages show for files that the suite created. For each created file, the
    name is the name of the user's original file.
    """
    dropped: Mapping[str, Counter[DropReason]] = field(default_factory=dict)
    """Number of pairs that were dropped before the files were written, by split and reason."""

    def name(self, path: Path) -> str:
        """Return the file name that messages show."""
        return self.names.get(path, str(path))


@dataclass(frozen=True)
class Side:
    """The sentences of one language in a split."""

    ids: Ids
    """Concatenated ids (T,) of all sentences."""
    offsets: Int64s
    """Offset (N + 1,) of each sentence in `ids`. The last offset is the end of the last
    sentence.
    """

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self, sentences: Int64s) -> Int64s:
        """Return the number of subwords of each sentence in `sentences` (n,)."""
        return np.asarray(self.offsets[sentences + 1] - self.offsets[sentences])

    def sentence(self, number: int) -> Int32s:
        """Return the ids (n,) of one sentence."""
        return np.asarray(self.ids[self.offsets[number] : self.offsets[number + 1]], np.int32)

    def fill(self, sentences: Int64s, out: Int32s) -> Int64s:
        """Write sentences (n,) to the rows of `out` (n, W) and return their lengths (n,).

        Sentences of more than W subwords are truncated to W subwords.
        """
        starts, lengths = self.offsets[sentences], self.lengths(sentences)
        lengths = np.minimum(lengths, out.shape[1])
        columns = np.arange(int(lengths.max(initial=0)))
        row, column = np.nonzero(columns < lengths[:, None])
        out[row, column] = self.ids[starts[row] + column]
        return lengths


@dataclass(frozen=True)
class Parallel:
    """The sentence pairs of a split."""

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self) -> UInt16s:
        """Return the number of subwords of each pair's source and target as (2, N).

        The lengths must fit into 16 bits, which is guaranteed only for training pairs.
        """
        return np.stack(
            [np.diff(side.offsets).astype(np.uint16) for side in (self.source, self.target)]
        )


# -- writing
# --------------------------------------------------------------------------------------------------


def write(processed: Processed, folder: Path) -> dict[str, int]:
    """Write the prepared data of text files to `folder`, and return the manifest's counts.

    The function raises ValueError if a file is invalid. The error message is one line with the
    file, the line number, and the problem.
    """
    vocabulary = read_vocabulary(
        processed.vocabulary, processed.subtokens, processed.name(processed.vocabulary)
    )
    references = read_lines(processed.references, processed.name(processed.references))
    tasks = [
        encoding.Task(
            path=str(path),
            name=processed.name(path),
            has_mark=path not in processed.names,
            vocabulary=str(processed.vocabulary),
            plain=processed.subtokens,
            out=str(folder / f"{split}_{side}.ids"),
        )
        for (split, side), path in processed.files.items()
    ]
    workers = min(cores(), len(tasks))
    large = any(
        path.stat().st_size > lines.CHUNK_BYTES
        for path in processed.files.values()
        if path.is_file()
    )
    if workers > 1 and large:
        with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
            results = list(pool.map(encoding.encode, tasks))
    else:
        results = [encoding.encode(task) for task in tasks]
    encoded = dict(zip(processed.files, results, strict=True))
    counts = {
        "vocabulary": len(vocabulary),
        **({"end": subtokens.END} if processed.subtokens else {}),
    }
    for split in SPLITS:
        names = [processed.name(processed.files[split, side]) for side in SIDES]
        sides = {side: encoded[split, side] for side in SIDES}
        lengths = [sides[side].lengths for side in SIDES]
        lines.check_equal(names[0], names[1], list(map(len, lengths)))
        keep = (
            np.maximum(*lengths) <= processed.longest
            if split == "train"
            else np.ones(len(lengths[0]), bool)
        )
        reasons = Counter(processed.dropped.get(split, {}))
        reasons[DropReason.MANY_SUBWORDS] = int(np.count_nonzero(~keep))
        check_any_left(split, names, int(keep.sum()), reasons)
        counts |= _write_split(folder, split, sides, keep, len(vocabulary))
    counts |= _unknown(processed, encoded)
    if len(references) != counts["test"]:
        raise ValueError(
            f"{processed.name(processed.references)}: {len(references):,} lines, but "
            f"{processed.name(processed.files['test', 'source'])} has {counts['test']:,}. "
            "Each sentence needs exactly one reference"
        )
    vocabulary.write(folder / VOCABULARY)
    (folder / REFERENCES).write_text("".join(f"{line}\n" for line in references), encoding="utf-8")
    return counts


def check_any_left(
    split: str, names: Sequence[str], left: int, dropped: Counter[DropReason], hint: str = ""
) -> None:
    """Raise ValueError if no sentence pair of a split is left.

    Args:
        split: Name of the split.
        names: Names of the split's source file and target file, for messages.
        left: Number of remaining pairs.
        dropped: Number of dropped pairs for each reason.
        hint: Probable cause and remedy.
    """
    if left:
        return
    kind = {"train": "training", "dev": "validation", "test": "test"}[split]
    reasons = ", ".join(f"{count:,} {reason.value}" for reason, count in dropped.items() if count)
    total = dropped.total()
    what = f"all {total:,} {kind} pairs were" if total > 1 else f"the only {kind} pair was"
    raise ValueError(
        f"{' and '.join(names)}: no {kind} pair is left: {what} dropped ({reasons})"
        + (f". Probable cause: {hint}" if hint else "")
    )


def _unknown(processed: Processed, encoded: dict[tuple[str, str], Encoded]) -> dict[str, int]:
    """Count the unknown subwords of the training text.

    The function raises ValueError if too many subwords are unknown, because the vocabulary does not
    match the text.
    """
    total = 0
    for side in SIDES:
        text, path = encoded["train", side], processed.files["train", side]
        subwords = int(text.lengths.sum(dtype=np.int64))
        if text.unknown > UNKNOWN_SHARE * subwords:
            raise ValueError(
                f"{processed.name(processed.vocabulary)} does not fit {processed.name(path)}: it"
                f" lacks {text.unknown:,} of {subwords:,} subwords ({text.example}). Use the"
                " vocabulary that was created with these files"
            )
        total += text.unknown
    return {"train_unknown": total}


def _write_split(
    folder: Path, split: str, sides: dict[str, Encoded], keep: Bools, vocabulary: int
) -> dict[str, int]:
    """Write the arrays of a split, and return the counts of the split.

    The function reads and removes the temporary files of raw ids.

    Args:
        folder: Folder of the prepared data.
        split: Name of the split.
        sides: Encoded sentences of the source and the target language.
        keep: Flags (N,) of the pairs to keep.
        vocabulary: Number of ids of the vocabulary.
    """
    kept = int(keep.sum())
    counts = {split: kept, f"{split}_too_long": len(keep) - kept}
    for side in SIDES:
        raw, lengths = folder / f"{split}_{side}.ids", sides[side].lengths
        ids = np.fromfile(raw, id_type(vocabulary))
        raw.unlink()
        if kept < len(keep):
            ids = ids[np.repeat(keep, lengths)]
        offsets = np.zeros(kept + 1, np.int64)
        np.cumsum(lengths[keep], out=offsets[1:])
        np.save(folder / f"{split}_{side}.npy", ids, allow_pickle=False)
        np.save(folder / f"{split}_{side}_offsets.npy", offsets, allow_pickle=False)
        counts[f"{split}_{side}_subwords"] = int(offsets[-1])
        counts[f"{split}_longest"] = max(
            counts.get(f"{split}_longest", 0), int(lengths[keep].max())
        )
    if split == "train":
        pair_lengths = np.stack([sides[side].lengths[keep] for side in SIDES])
        np.save(folder / LENGTH_COUNTS, length_counts(pair_lengths), allow_pickle=False)
    return counts


def length_counts(lengths: Integers) -> Int64s:
    """Return the number of pairs and of subwords (2, L) for each sentence length.

    `lengths` (2, N) are the lengths of the pairs. Column n of the result describes the pairs whose
    longer sentence has n subwords. Row 0 contains the number of these pairs. Row 1 contains the
    number of source and target subwords of these pairs.
    """
    longer = np.maximum(lengths[0], lengths[1])
    tokens = np.bincount(longer, weights=lengths[0].astype(np.float64) + lengths[1])
    return np.stack([np.bincount(longer), tokens.astype(np.int64)])


# -- reading
# --------------------------------------------------------------------------------------------------


def read(folder: Path, split: str, count: int) -> Parallel:
    """Return the `count` sentence pairs of a split as memory-mapped arrays.

    The function raises ValueError if a file is missing or invalid. The error message contains the
    file name.
    """
    sides = []
    for side in SIDES:
        offsets = mapped(folder / f"{split}_{side}_offsets.npy", "int64", count + 1)
        sides.append(
            Side(
                mapped(folder / f"{split}_{side}.npy", ("uint16", "int32"), int(offsets[-1])),
                offsets,
            )
        )
    return Parallel(*sides)


def vocabulary_of(folder: Path, options: Mapping[str, Any]) -> Vocabulary | Subtokeniser:
    """Read the vocabulary of prepared data.

    `options` are the options in the manifest of the prepared data.
    """
    return read_vocabulary(folder / VOCABULARY, options.get("subwords") == SUBTOKENS)


def read_references(folder: Path, count: int) -> list[str]:
    """Return the raw translations of the test set.

    The function raises ValueError if the file is missing or invalid. The error message contains the
    file name.
    """
    references = read_lines(folder / REFERENCES)
    if len(references) != count:
        raise ValueError(
            f"{folder / REFERENCES}: expected {count:,} lines, got {len(references):,}. Prepare the"
            " data again"
        )
    return references


def framed(
    side: Side, sentences: Int64s, width: int, framing: Framing, begin: bool, end: bool
) -> tuple[Int32s, Int32s]:
    """Return sentences (n,) with special ids as rows (n, width), and their lengths (n,).

    Rows are padded with 0. Sentences that do not fit are truncated before EOS is added.

    Args:
        side: Sentences of one language.
        sentences: Sentence numbers (n,).
        width: Length of an array row.
        framing: Special ids at the beginning and the end of a sentence.
        begin: Whether to begin each sentence with the special id `framing.begin`, if it is defined.
        end: Whether to end each sentence with the special id `framing.end`.
    """
    first = 1 if begin and framing.begin is not None else 0
    rows = np.zeros((len(sentences), width), np.int32)
    lengths = side.fill(sentences, rows[:, first : width - (1 if end else 0)]) + first
    if first:
        rows[:, 0] = framing.begin or 0
    if end:
        rows[np.arange(len(rows)), lengths] = framing.end
        lengths += 1
    return rows, lengths.astype(np.int32)


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))
