"""Fingerprints of the published data sets after preparation by the suite.

A run whose data set has an unlisted fingerprint is in the open division.

The notes and sample counts in a manifest do not prove that a data set is the published data set,
because users can edit a manifest. The fingerprint is the proof: it is a hash of the digests of all
prepared files. Before a run, the suite compares the files with their digests.
"""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED_DATASETS = frozenset(
    (
        *(
            "c4-llama31",
            "cifar10",
            "coco2014",
            "coco2017",
            "fashion-mnist",
            "imagenet",
            "ml-100k",
            "ml-1m",
            "ml-20m",
        ),
        *("wmt16-en-de", "wmt17-en-de"),
    )
)
"""Names that are reserved for published data sets."""

FINGERPRINTS: dict[str, Mapping[str, str]] = {}
"""Maps each data set to its fingerprints.

Each fingerprint is mapped to a description of the download and of the software versions of the
preparation (docs/dev/verify_a_data_set.md).
"""

NOT_VERIFIED = "data set fingerprint not verified"


def is_verified(dataset: str, fingerprint: str) -> bool:
    """Return whether a data set is the published data set of this name.

    Returns True for names that are not reserved for published data sets.
    """
    return dataset not in PUBLISHED_DATASETS or fingerprint in FINGERPRINTS.get(dataset, {})
