"""Fingerprints of the published data sets in the form that the suite prepares.

Runs whose data set has an unlisted fingerprint are in the open division.

The notes and sample counts in a manifest do not prove that a data set is the published data set,
since users can edit a manifest. The fingerprint is the proof: it is a digest of the digests of all
prepared files. The files are compared with their digests before a run.
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
"""Reserved names of published data sets."""

FINGERPRINTS: dict[str, Mapping[str, str]] = {}
"""Fingerprints of each data set.

The value of a fingerprint describes the download and the software versions of the preparation
(docs/dev/verify_a_data_set.md).
"""

NOT_VERIFIED = "data set fingerprint not verified"


def is_verified(dataset: str, fingerprint: str) -> bool:
    """Return whether a data set is the published data set with its name.

    The result is True for names that are not reserved for published data sets.
    """
    return dataset not in PUBLISHED_DATASETS or fingerprint in FINGERPRINTS.get(dataset, {})
