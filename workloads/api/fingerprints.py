"""Fingerprints of the published data sets as the suite prepares them.

Runs with an unlisted fingerprint are open.

The notes and counts of a manifest do not prove that a data set is the published data set, since
users can edit a manifest. The fingerprint proves it: it is a digest of the digests of all prepared
files, which are compared with the files before a run.
"""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED_DATASETS = frozenset(
    (
        *(
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
"""Maps a data set to its fingerprints.

Each maps to the download and the versions used for the preparation
(docs/dev/verify_a_data_set.md).
"""

NOT_VERIFIED = "data set fingerprint not verified"


def is_verified(dataset: str, fingerprint: str) -> bool:
    """Return whether a data set is the published data set of its name.

    True for names that are not published data sets.
    """
    return dataset not in PUBLISHED_DATASETS or fingerprint in FINGERPRINTS.get(dataset, {})
