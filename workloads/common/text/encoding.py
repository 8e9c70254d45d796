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


def read_vocabulary(path: Path, plain: bool) -> Vocabulary | Subtokeniser:
    """A vocabulary of subwords or, where the text was `plain`, of subtokens. Raises ValueError naming the file."""
    return Subtokeniser.read(path) if plain else Vocabulary.read(path)


def id_type(vocabulary: int) -> npt.DTypeLike:
    """What ids are stored as."""
    return np.uint16 if vocabulary <= 1 << 16 else np.int32


def encode(path: str, vocabulary: str, plain: bool, out: str) -> Encoded:
    """Write the ids of a file's lines to `out` (raw). In a process of its own; raises ValueError naming file and line.

    Lines of subwords have UNK where one is not known, and are never empty. Of plain text nothing is unknown; an empty line has
    no id, and EOS alone in a batch.
    """
    known = read_vocabulary(Path(vocabulary), plain)
    lengths: list[Int32s] = []
    unknown, example = 0, ""
    with open(out, "wb") as ids_file:
        for first, lines in blocks(Path(path)):
            of_lines = [known.encode(line.strip()) for line in lines]
            counts = np.array([len(ids) for ids in of_lines], np.int32)
            ids = np.fromiter(chain.from_iterable(of_lines), np.int32, int(counts.sum()))
            ids.astype(id_type(len(known))).tofile(ids_file)
            lengths.append(counts)
            if plain:
                continue
            if not counts.all():
                empty = first + int(np.argmin(counts))
                raise ValueError(f"{path}:{empty}: an empty line; a sentence pair needs both sides")
            strange = np.flatnonzero(ids == UNK)
            if len(strange) and not example:
                line = int(np.searchsorted(np.cumsum(counts), strange[0], "right"))
                example = f"{lines[line].split()[of_lines[line].index(UNK)]!r} in line {first + line}"
            unknown += len(strange)
    if not lengths:
        raise ValueError(f"{path}: no line of text")
    return Encoded(np.concatenate(lengths), unknown, example)
