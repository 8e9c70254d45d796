"""Where the public data sets are downloaded by hand, and the line that asks for one that is not prepared."""

from __future__ import annotations

from pathlib import Path

from workloads.common import manifest as manifests
from workloads.common.manifest import Manifest

DOWNLOADS = {
    "cifar10": "https://www.cs.toronto.edu/~kriz/cifar.html",
    "coco2014": "https://cocodataset.org/#download",
    "coco2017": "https://cocodataset.org/#download",
    "fashion-mnist": "https://github.com/zalandoresearch/fashion-mnist",
    "imagenet": "https://image-net.org/download.php",
    "ml-20m": "https://grouplens.org/datasets/movielens/20m/",
    "wmt16-en-de": "https://www.statmt.org/wmt16/translation-task.html",
    "wmt17-en-de": "https://www.statmt.org/wmt17/translation-task.html",
}
"""Data set to its publisher's page. Nothing is fetched from there: several ask for an agreement first."""


def prepared(folder: Path, default: str, source: str = "FOLDER") -> Manifest:
    """The manifest of the data set that is prepared in `folder`, which has the data set's name.

    Args:
        default: the name where the folder has none.
        source: what `--from` takes.

    Raises:
        ValueError: there is none; where to download it and what to type.
    """
    manifest = manifests.read(folder)
    if manifest is not None:
        return manifest
    name = folder.name or default
    if name.endswith("-demo"):
        raise ValueError(f"no prepared data in {folder}; type: suite data make-demo {name}")
    first = f"download it from {DOWNLOADS[name]} and type" if name in DOWNLOADS else "type"
    raise ValueError(f"no prepared data in {folder}; {first}: suite data prepare {name} --from {source} --to {folder}")
