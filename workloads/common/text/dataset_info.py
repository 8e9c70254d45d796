"""Number of pairs and length distribution of sentence-pair data sets.

The number of pairs and the length distribution determine the batches of an epoch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workloads.api import DatasetInfo, Settings
from workloads.common import manifest as manifests
from workloads.common.arrays import Int64s, UInt16s
from workloads.common.data import downloads, published
from workloads.common.randomness import bits, normal, stream
from workloads.common.text import prepared

LENGTH_COUNTS = "train_length_counts"
"""Key in `DatasetInfo.arrays` for the `prepared.length_counts` of the training pairs."""
END = "end"
"""Key in `DatasetInfo.sizes` for the id of EOS. The key exists only if the id differs from
`vocabulary.EOS`.
"""
COUNTS = ("train", "dev", "test", "vocabulary", "test_longest", "dev_longest")


@dataclass(frozen=True)
class TextFacts:
    """Published sizes of a data set of sentence pairs, for runs on synthetic batches."""

    name: str
    published: Mapping[str, int]
    """Published sizes of the data set by key.

    `train`, `dev` and `test` are numbers of pairs. `vocabulary` is the number of ids. `dev_longest`
    and `test_longest` are the numbers of subwords in the longest sentence.
    """

    def for_settings(self, settings: Settings) -> DatasetInfo:
        """Return the sizes of the prepared data set.

        With `profile=synthetic`, the method reads no data set and returns the published sizes. The
        method raises ValueError if the data set is not prepared. The error message contains the
        command to run.
        """
        return (
            load_dataset_info(Path(settings.data_dir))
            if settings.data_dir
            else _facts(self.published, "synthetic")
        )


WMT16 = TextFacts(
    "wmt16-en-de",
    {
        **published.COUNTS["wmt16-en-de"],
        "train": 3_969_024,
        "vocabulary": 32_317,
        "dev_longest": 123,
        "test_longest": 148,
    },
)
"""Sizes of WMT16 English-German.

The number of training pairs is from the log of NVIDIA's v0.6 submission (pairs per epoch).
`dev_longest` and `test_longest` are the evaluation limits of the reference.
"""


WMT17 = TextFacts(
    "wmt17-en-de",
    {
        **published.COUNTS["wmt17-en-de"],
        "train": 4_590_101, "vocabulary": 33_708, "dev_longest": 128,
        "test_longest": 96,
        END: 1,
    },
)  # fmt: skip
"""Sizes of WMT17 English-German with the published subtokens.

The number of training pairs is from NVIDIA's logs of v0.6. The longest sentence of newstest2014
(`test_longest`) was measured with the published subtokens. The longest sentence of newstest2013
(`dev_longest`) is an assumption.
"""


def load_dataset_info(folder: Path) -> DatasetInfo:
    """Return the sizes in the manifest of the data set prepared in `folder`.

    The function raises ValueError if the data set is not prepared. The error message contains the
    command to run.
    """
    manifest = downloads.prepared(folder, WMT16.name)
    try:
        counts = {
            name: int(manifest.counts[name])
            for name in (*COUNTS, END)
            if name in COUNTS or name in manifest.counts
        }
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{folder / manifests.NAME}: expected a data set of sentence pairs, got"
            f" {manifest.dataset}"
        ) from None
    lengths = folder / prepared.LENGTH_COUNTS
    if not lengths.is_file():
        raise ValueError(f"{lengths}: missing; remove {folder} and prepare the data again")
    return _facts(
        counts,
        manifest.fingerprint,
        manifests.notes(manifest, is_compared=False),
        {LENGTH_COUNTS: str(lengths)},
    )


def _facts(
    counts: Mapping[str, int],
    fingerprint: str,
    notes: tuple[str, ...] = (),
    arrays: Mapping[str, str] | None = None,
) -> DatasetInfo:
    return DatasetInfo(
        train_samples=counts["train"],
        evaluation_samples=counts["test"],
        sizes={name: count for name, count in counts.items() if name not in ("train", "test")},
        fingerprint=fingerprint,
        notes=notes,
        arrays=dict(arrays or {}),
    )


def length_counts(dataset_info: DatasetInfo, pairs: int) -> Int64s:
    """Return the `prepared.length_counts` (2, L) of all `pairs` training pairs.

    For synthetic data, the lengths are drawn from a log-normal distribution.
    """
    if LENGTH_COUNTS in dataset_info.arrays:
        return np.asarray(dataset_info.array(LENGTH_COUNTS))
    return _synthetic_length_counts(pairs)


SYNTHETIC_MEDIAN, SYNTHETIC_SPREAD, SYNTHETIC_RATIO = 23.0, 0.65, 0.2
"""Parameters of the log-normal sentence lengths: median, standard deviation shared by source and
target, and additional standard deviation of each language.

The mean length is close to the mean of WMT, which is 28 subwords.
"""
SYNTHETIC_PAIRS = 1 << 17
"""Number of pairs whose lengths are drawn. A larger synthetic corpus repeats the lengths of these
pairs.
"""


def synthetic_lengths(pairs: int) -> UInt16s:
    """Return lengths (2, pairs) between 1 and `prepared.LONGEST`, drawn by hash."""
    drawn = _drawn_lengths(min(pairs, SYNTHETIC_PAIRS))
    return np.ascontiguousarray(np.tile(drawn, -(-pairs // drawn.shape[1]))[:, :pairs])


@functools.cache
def _synthetic_length_counts(pairs: int) -> Int64s:
    return prepared.length_counts(synthetic_lengths(pairs))


@functools.cache
def _drawn_lengths(pairs: int) -> UInt16s:
    """Return the lengths (2, pairs) that synthetic data repeats.

    A run needs the lengths three times. The lengths are cached, because drawing takes 0.1 s and the
    array has only half a million bytes.
    """
    draws = bits(stream(0, "synthetic sentence lengths"), np.arange(3)[:, None], np.arange(pairs))
    common, *sides = normal(draws, np.float64)
    logs = [
        math.log(SYNTHETIC_MEDIAN) + SYNTHETIC_SPREAD * common + SYNTHETIC_RATIO * side
        for side in sides
    ]
    return np.clip(np.rint(np.exp(logs)), 1, prepared.LONGEST).astype(np.uint16)
