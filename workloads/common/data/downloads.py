"""Download pages of the public data sets, and the error for unprepared data."""

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
"""Publisher's web page of each data set.

The suite never downloads data, because several publishers require an agreement.
"""


def prepared(folder: Path, default: str, source: str = "FOLDER") -> Manifest:
    """Return the manifest of the data set that is prepared in `folder`.

    Args:
        folder: Folder of the prepared data. The name of the folder is the name of the data set.
        default: Name of the data set if the folder has no name.
        source: Argument of `--from` in the command of the error message.

    Raises:
        ValueError: The folder contains no prepared data. The message contains the download page and
            the command to run.
    """
    manifest = manifests.read(folder)
    if manifest is not None:
        return manifest
    name = folder.name or default
    if name.endswith("-demo"):
        raise ValueError(f"no prepared data in {folder}. Run: suite data make-demo {name}")
    first = f"Download it from {DOWNLOADS[name]} and run" if name in DOWNLOADS else "Run"
    raise ValueError(
        f"no prepared data in {folder}. {first}: suite data prepare {name} --from {source} --to"
        f" {folder}"
    )
