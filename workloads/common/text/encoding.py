"""Text files to ids: lines of subwords, or plain text that subtokens are cut from."""

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
    """What a text file was made into, beside the raw file of its ids."""

    lengths: Int32s
    """(N,) subwords of each line."""
    unknown: int
    example: str
    """An unknown subword, with the number of its line; empty: there is none."""


@dataclass(frozen=True)
class Task:
    """A text file to encode."""

    path: str
    name: str
    """Name of the file in messages."""
    has_mark: bool
    """Whether a byte order mark at its start is no text (`workloads.common.data.lines.chunks`)."""
    vocabulary: str
    """Path of the vocabulary's file."""
    plain: bool
    """Plain text, from which subtokens are cut; else lines of subwords."""
    out: str
    """File to write the ids to, without a header."""


def read_vocabulary(path: Path, plain: bool, name: str = "") -> Vocabulary | Subtokeniser:
    """Return a vocabulary of subwords or, if the text was `plain`, of subtokens. Raises ValueError with `name`, or the path."""
    return Subtokeniser.read(path, name) if plain else Vocabulary.read(path, name)


def id_type(vocabulary: int) -> npt.DTypeLike:
    """What ids are stored as."""
    return np.uint16 if vocabulary <= 1 << 16 else np.int32


def encode(task: Task) -> Encoded:
    """Write the ids of a file's lines. Raises ValueError naming file and line.

    Lines of subwords have UNK in place of an unknown subword, and are never empty. Plain text has nothing unknown; an empty
    line has no id, and EOS alone in a batch.
    """
    vocabulary = read_vocabulary(Path(task.vocabulary), task.plain)
    lengths: list[Int32s] = []
    unknown, example = 0, ""
    with open(task.out, "wb") as ids_file:
        for first, lines in blocks(Path(task.path), task.name, task.has_mark):
            of_lines = [vocabulary.encode(line.strip()) for line in lines]
            counts = np.array([len(ids) for ids in of_lines], np.int32)
            ids = np.fromiter(chain.from_iterable(of_lines), np.int32, int(counts.sum()))
            ids.astype(id_type(len(vocabulary))).tofile(ids_file)
            lengths.append(counts)
            if task.plain:
                continue
            if not counts.all():
                empty = first + int(np.argmin(counts))
                raise ValueError(f"{task.name}:{empty}: an empty line; a sentence pair needs both sides")
            strange = np.flatnonzero(ids == UNK)
            if len(strange) and not example:
                line = int(np.searchsorted(np.cumsum(counts), strange[0], "right"))
                example = f"{lines[line].split()[of_lines[line].index(UNK)]!r} in line {first + line}"
            unknown += len(strange)
    if not lengths:
        raise ValueError(f"{task.name}: no line of text")
    return Encoded(np.concatenate(lengths), unknown, example)
