"""Images in ImageNet's folders.

The images of train/ are train/<wnid>/*.JPEG. The folder val/ contains either the same class
folders, or all images and a label file. Classes are numbered in the order of their names (WordNet
ids). Subfolders of a class folder are not searched. Hidden files and folders are skipped
(`workloads.common.data.hidden`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workloads.common.data.hidden import is_hidden
from workloads.files import read_text

SUFFIXES = (".jpeg", ".jpg", ".png")
LABEL_FILES = (
    "val_labels.txt",
    "imagenet_2012_validation_synset_labels.txt",
    "LOC_val_solution.csv",
    "val.txt",
)
"""Possible names of the label file, which is next to val/ or inside of val/."""


@dataclass
class Listing:
    """Images of a split, sorted by class and name.

    Paths are relative to the source folder.
    """

    names: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Size of each image file in bytes."""
    labels: list[int] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Pair (path, description) of each invalid file or folder. With the option --skip-bad, invalid
    files and folders are skipped.
    """

    def take(self, keep: list[int]) -> Listing:
        """Return a listing with only the images at the indices `keep`."""
        names, sizes, labels = (
            [self.names[i] for i in keep],
            [self.sizes[i] for i in keep],
            [self.labels[i] for i in keep],
        )
        return Listing(names, sizes, labels, self.problems)


def classes_of(source: Path) -> list[str]:
    """Return the sorted names of the folders in train/, which are classes 0, 1, and so on.

    Raises:
        ValueError: train/ is missing or has no class folders.
    """
    if not source.is_dir():
        raise ValueError(f"{source}: no such folder")
    train = source / "train"
    if not train.is_dir():
        raise ValueError(f"{source} has no folder train, expected train/<wnid>/*.JPEG and val/")
    names = _folders(train)
    if not names:
        raise ValueError(f"{train} has no class folders, expected {train}/<wnid>/*.JPEG")
    return names


def list_folders(source: Path, split: str, classes: list[str]) -> Listing:
    """Return the images of a split that has one folder per class.

    If a folder is not a class of train/, the folder is added to the problems.
    """
    listing = Listing()
    numbers = {name: number for number, name in enumerate(classes)}
    for name in _folders(source / split):
        if name not in numbers:
            listing.problems.append(
                (f"{split}/{name}", f"is not among the {len(classes):,} classes of train")
            )
            continue
        before = len(listing.names)
        try:
            _list_images(source, f"{split}/{name}", numbers[name], listing)
        except OSError as error:
            listing.problems.append((f"{split}/{name}", f"cannot be read ({error.strerror})"))
            continue
        if len(listing.names) == before:
            listing.problems.append((f"{split}/{name}", "class folder without images"))
    return listing


def list_validation(source: Path, classes: list[str]) -> Listing:
    """Return the images of val/.

    The folder val/ contains either one folder per class, or only images and a label file.

    Raises:
        ValueError: val/ or the label file is missing, or the label file is invalid.
    """
    folder = source / "val"
    if not folder.is_dir():
        raise ValueError(
            f"{source} has no folder val, expected val/<wnid>/*.JPEG, or val/*.JPEG with"
            f" {LABEL_FILES[0]}"
        )
    if _folders(folder):
        return list_folders(source, "val", classes)
    listing = Listing()
    _list_images(source, "val", -1, listing)
    places = (below / name for below in (source, folder) for name in LABEL_FILES)
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise ValueError(
            f"{folder} has no class folders, and no label file was found. Create"
            f" {source / LABEL_FILES[0]} with lines NAME WNID (ILSVRC2012_val_00000001.JPEG"
            " n01751748)"
        )
    wnids = read_labels(path, [Path(name).name for name in listing.names])
    numbers = {name: number for number, name in enumerate(classes)}
    keep = []
    for i, name in enumerate(listing.names):
        wnid = wnids[Path(name).name]
        listing.labels[i] = numbers.get(wnid, -1)
        if wnid in numbers:
            keep.append(i)
        else:
            listing.problems.append(
                (
                    name,
                    (
                        f"its class {wnid} ({path.name}) is not among the {len(classes):,} classes"
                        " of train"
                    ),
                )
            )
    return listing.take(keep)


def read_labels(path: Path, names: list[str]) -> Mapping[str, str]:
    """Return the WordNet id of each image in `names` (sorted) by file name.

    A label file has one of two formats. In the first format, each line is `NAME WNID …`, separated
    by blanks or commas, and the file suffix of the name is optional. In the second format, each
    line is a `WNID`, in the order of the image names.

    Raises:
        ValueError: The label file is invalid. The error message contains the file, and the line
            number if available.
    """
    rows = [line.replace(",", " ").split() for line in read_text(path, "replace").split("\n")]
    rows = [row for row in rows if row and row[0] != "ImageId"]
    if rows and all(len(row) == 1 for row in rows):
        if len(rows) != len(names):
            raise ValueError(
                f"{path}: expected {len(names):,} labels for {len(names):,} images, got"
                f" {len(rows):,}"
            )
        if all(row[0].isdigit() for row in rows):
            raise ValueError(
                f"{path}: expected a WordNet id (n01440764) per line, got numbers, whose order of"
                " classes is not in the file"
            )
        return {name: row[0] for name, row in zip(names, rows, strict=True)}
    wnids = {}
    for number, row in enumerate(rows, 1):
        if len(row) < 2:
            raise ValueError(f"{path}: line {number}: expected NAME WNID, got {row[0][:80]!r}")
        wnids[Path(row[0]).stem] = row[1]
    missing = [name for name in names if Path(name).stem not in wnids]
    if missing:
        raise ValueError(
            f"{path}: no label for {missing[0]} ({len(missing):,} of {len(names):,} images)"
        )
    return {name: wnids[Path(name).stem] for name in names}


def _list_images(source: Path, folder: str, label: int, listing: Listing) -> None:
    """Append the images directly in `folder` to `listing`.

    Hidden files, subfolders, and label files are skipped.
    """
    with os.scandir(source / folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        name = f"{folder}/{entry.name}"
        if is_hidden(entry.name) or entry.name in LABEL_FILES or _is_folder(entry):
            continue
        if not entry.name.lower().endswith(SUFFIXES):
            listing.problems.append((name, f"does not end in {', '.join(SUFFIXES)}"))
            continue
        try:
            size = entry.stat().st_size
        except OSError as error:
            listing.problems.append((name, f"cannot be read ({error.strerror})"))
            continue
        listing.names.append(name)
        listing.sizes.append(size)
        listing.labels.append(label)


def _folders(folder: Path) -> list[str]:
    """Return the sorted names of the folders in `folder` that are not hidden.

    Raises:
        ValueError: `folder` cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name for entry in entries if not is_hidden(entry.name) and _is_folder(entry)
            )
    except OSError as error:
        raise ValueError(f"{folder}: cannot be read ({error.strerror})") from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether a directory entry is a folder.

    A broken or circular link is not a folder.
    """
    try:
        return entry.is_dir()
    except OSError:
        return False
