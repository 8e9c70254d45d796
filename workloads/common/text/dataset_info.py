"""The counts of prepared or published data sets of sentence pairs, and of their lengths, from which epochs follow."""

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
"""Name of the array of facts that `prepared.length_counts` makes of the training pairs."""
END = "end"
"""Of the sizes: the id of EOS, where it is not `vocabulary.EOS`."""
COUNTS = ("train", "dev", "test", "vocabulary", "test_longest", "dev_longest")


@dataclass(frozen=True)
class TextFacts:
    """The published counts of a data set of sentence pairs, for runs on synthetic batches."""

    name: str
    published: Mapping[str, int]
    """`train`, `dev`, `test` pairs, `vocabulary`, `dev_longest`, `test_longest`: the most subwords of a sentence."""

    def for_settings(self, settings: Settings) -> DatasetInfo:
        """Counts of the prepared data set, or under profile=synthetic the published ones. Raises ValueError: what to type."""
        return load_dataset_info(Path(settings.data_dir)) if settings.data_dir else _facts(self.published, "synthetic")


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
"""WMT16 English-German as NVIDIA's v0.6 entry trains on it (pairs of an epoch, from its log), reference's evaluation limits."""


WMT17 = TextFacts(
    "wmt17-en-de",
    {
        **published.COUNTS["wmt17-en-de"], "train": 4_590_101, "vocabulary": 33_708, "dev_longest": 128, "test_longest": 96,
        END: 1,
    },
)  # fmt: skip
"""WMT17 English-German with the published subtokens: pairs as NVIDIA's logs of v0.6 count them, newstest2014 as encoded here;
the longest sentence of newstest2013 is presumed."""


def load_dataset_info(folder: Path) -> DatasetInfo:
    """Counts of the data set prepared in `folder`, from its manifest alone. Raises ValueError that says what to type."""
    manifest = downloads.prepared(folder, WMT16.name)
    try:
        counts = {
            name: int(manifest.counts[name]) for name in (*COUNTS, END) if name in COUNTS or name in manifest.counts
        }
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{folder / manifests.NAME} is not of a data set of sentence pairs ({manifest.dataset})"
        ) from None
    lengths = folder / prepared.LENGTH_COUNTS
    if not lengths.is_file():
        raise ValueError(f"{lengths}: missing; remove {folder} and prepare the data again")
    return _facts(
        counts, manifest.fingerprint, manifests.notes(manifest, is_compared=False), {LENGTH_COUNTS: str(lengths)}
    )


def _facts(
    counts: Mapping[str, int], fingerprint: str, notes: tuple[str, ...] = (), arrays: Mapping[str, str] | None = None
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
    """(2, L) as `prepared.length_counts` makes them of all `pairs`; of synthetic data from a formula."""
    if LENGTH_COUNTS in dataset_info.arrays:
        return np.asarray(dataset_info.array(LENGTH_COUNTS))
    return _synthetic_length_counts(pairs)


SYNTHETIC_MEDIAN, SYNTHETIC_SPREAD, SYNTHETIC_RATIO = 23.0, 0.65, 0.2
"""Log-normal lengths with a mean near WMT's 28 subwords, and the log-normal spread of one side over the other."""
SYNTHETIC_PAIRS = 1 << 17
"""So many lengths are drawn, then they repeat."""


def synthetic_lengths(pairs: int) -> UInt16s:
    """(2, pairs) lengths drawn by hash, 1 … `prepared.LONGEST`; the same in every process."""
    drawn = _drawn_lengths(min(pairs, SYNTHETIC_PAIRS))
    return np.ascontiguousarray(np.tile(drawn, -(-pairs // drawn.shape[1]))[:, :pairs])


@functools.cache
def _synthetic_length_counts(pairs: int) -> Int64s:
    return prepared.length_counts(synthetic_lengths(pairs))


@functools.cache
def _drawn_lengths(pairs: int) -> UInt16s:
    """What then repeats: a run asks for it three times, half a million bytes that take 0.1 s to draw."""
    draws = bits(stream(0, "synthetic sentence lengths"), np.arange(3)[:, None], np.arange(pairs))
    common, *own = normal(draws, np.float64)
    logs = [math.log(SYNTHETIC_MEDIAN) + SYNTHETIC_SPREAD * common + SYNTHETIC_RATIO * each for each in own]
    return np.clip(np.rint(np.exp(logs)), 1, prepared.LONGEST).astype(np.uint16)
