"""Encode text files as ids. A file contains lines of subwords or of plain text.

Lines of plain text are split into subtokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Int32s
from workloads.common.data.lines import blocks
from workloads.common.text.subtokens import Subtokeniser
from workloads.common.text.vocabulary import UNK, Vocabulary


@dataclass(frozen=True)
class Encoded:
    """Statistics of an encoded text file. The ids are in the file `Task.out`."""

    lengths: Int32s
    """Number (N,) of subwords in each line."""
    unknown: int
    """Number of subwords in the file that the vocabulary does not contain."""
    example: str
    """Example of a subword that the vocabulary does not contain, with its line number. Empty if the
    vocabulary contains all subwords.
    """


@dataclass(frozen=True)
class Task:
    """A text file to encode."""

    path: str
    name: str
    """File name that messages show."""
    has_mark: bool
    """Whether to skip a byte order mark, as in `workloads.common.data.lines.chunks`."""
    vocabulary: str
    """Path of the vocabulary file."""
    plain: bool
    """Whether the file is plain text that must be split into subtokens.

    If False, each line of the file contains subwords.
    """
    out: str
    """Path of the output file, which contains raw ids without a header."""


def read_vocabulary(path: Path, plain: bool, name: str = "") -> Vocabulary | Subtokeniser:
    """Read a vocabulary of subtokens for `plain` text, or a vocabulary of subwords.

    The function raises ValueError if the vocabulary is invalid. The error message contains `name`,
    or the path if `name` is empty.
    """
    return Subtokeniser.read(path, name) if plain else Vocabulary.read(path, name)


def id_type(vocabulary: int) -> npt.DTypeLike:
    """Return the NumPy type in which the ids of a vocabulary of this size are stored."""
    return np.uint16 if vocabulary <= 1 << 16 else np.int32


def encode(task: Task) -> Encoded:
    """Write the ids of all lines of a file, and return the statistics of the file.

    In lines of subwords, an unknown subword becomes UNK, and an empty line is an error. Plain text
    has no unknown subtokens. An empty line of plain text has no ids, so the array row of this line
    in a batch contains only EOS.

    Raises:
        ValueError: The file is empty, is not text, or has an empty line of subwords. The error
            message contains the file name and the line number.
    """
    vocabulary = read_vocabulary(Path(task.vocabulary), task.plain)
    lengths: list[Int32s] = []
    unknown, example = 0, ""
    with open(task.out, "wb") as ids_file:
        for first, lines in blocks(Path(task.path), task.name, task.has_mark):
            line_ids = [vocabulary.encode(line.strip()) for line in lines]
            counts = np.array([len(ids) for ids in line_ids], np.int32)
            ids = np.fromiter(chain.from_iterable(line_ids), np.int32, int(counts.sum()))
            ids.astype(id_type(len(vocabulary))).tofile(ids_file)
            lengths.append(counts)
            if task.plain:
                continue
            if not counts.all():
                empty = first + int(np.argmin(counts))
                raise ValueError(
                    f"{task.name}:{empty}: an empty line. A sentence pair needs both sides"
                )
            unknown_at = np.flatnonzero(ids == UNK)
            if len(unknown_at) and not example:
                line = int(np.searchsorted(np.cumsum(counts), unknown_at[0], "right"))
                example = (
                    f"{lines[line].split()[line_ids[line].index(UNK)]!r} in line {first + line}"
                )
            unknown += len(unknown_at)
    if not lengths:
        raise ValueError(f"{task.name}: no line of text")
    return Encoded(np.concatenate(lengths), unknown, example)
