"""COCO's folders to what detection runs read. The images themselves are neither copied nor changed.

Prepared form: the index of `workloads.common.images.index` of all images with objects, for `train` and `val` (its `label` is
the image's COCO id); their boxes and classes (`objects.py`); `classes.txt`, a line `ID NAME` for class 1, 2, …; and
`val_ground_truth.json`, what COCO's metric compares with: all validation images, also those without objects.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from workloads.api import Dataset
from workloads.common import manifest as manifests
from workloads.common.images import index
from workloads.common.images.jpeg import Header
from workloads.common.manifest import Manifest
from workloads.ssd import coco, objects
from workloads.ssd.backbone import PUBLISHED as BACKBONE
from workloads.ssd.coco import Annotations
from workloads.ssd.facts import GROUND_TRUTH, PUBLISHED, PUBLISHED_IMAGES

MOST_NAMED = 20
"""Problems that are named one by one; the others are counted."""
SPLITS = {"train": "train2017", "val": "val2017"}
"""Split to folder; its annotations are annotations/instances_FOLDER.json."""


class CocoFolders(Dataset):
    """A data set in COCO 2017's layout; the attributes may be set before `prepare`."""

    published: ClassVar[dict[str, int] | None] = None
    """Images with objects, and classes, of the published data set."""
    published_images: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        self.subset: int | None = None
        """Keep so many training images, spread evenly, and the same share of the validation images."""
        self.skip_bad = False
        """Leave out what cannot be used, instead of refusing the data set."""
        self.full = False
        """Decode every image, instead of looking at headers and ends."""

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Index and check the folder `source`; see `workloads.api.Dataset`."""
        if self.subset is not None and self.subset < 1:
            raise ValueError(f"--subset {self.subset}: at least one image is needed")
        source = source.resolve()
        present = manifests.read(destination)
        contents = {split: _read(source, folder) for split, folder in SPLITS.items()}
        manifest = self.manifest(str(source), contents)
        if present is not None:
            if not present.same_origin(manifest):
                raise ValueError(
                    f"{destination} holds {present.dataset} prepared from {present.source.get('name')} with other content "
                    f"or options; name another folder with --to, or remove it"
                )
            return [f"{self.name}: already prepared in {destination}"]
        with manifests.workspace(destination) as folder:
            manifest, lines = self.write(source, folder, manifest, contents)
            manifest = manifests.publish(folder, destination, manifest)
        return lines + self.lines(manifest, destination)

    def manifest(self, images: str, contents: dict[str, tuple[Path, bytes]]) -> Manifest:
        """The manifest before anything was checked; `images` is the folder that the names start from."""
        digest = hashlib.sha256()
        for _, data in contents.values():
            digest.update(hashlib.sha256(data).digest())
        total = sum(len(data) for _, data in contents.values())
        return Manifest(
            dataset=self.name,
            source={"name": images, "bytes": total, "sha256": digest.hexdigest()},
            options={"images": images, "subset": self.subset},
            counts={},
        )

    def write(
        self, source: Path, folder: Path, manifest: Manifest, contents: dict[str, tuple[Path, bytes]]
    ) -> tuple[Manifest, list[str]]:
        """Check everything and write the arrays below `folder`; the complete manifest, and lines about what was left out."""
        found = {split: coco.parse(*content) for split, content in contents.items()}
        train, val = found["train"], found["val"]
        if train.categories != val.categories:
            raise ValueError(f"{val.path}: other categories than {train.path}; both must be of one data set")
        bad, known = train.problems + val.problems, train.known + val.known
        counts = {"classes": len(train.categories)}
        for split, of_split in found.items():
            counts |= {f"{split}_images": len(of_split.names)}
            chosen = of_split.take(self.chosen(of_split, split, train))
            usable, sizes, problems = self.checked(source, chosen, SPLITS[split])
            bad += problems
            full = np.flatnonzero(usable.counts())
            counts[f"{split}_empty"] = len(usable.names) - len(full)
            kept = usable.take(full)
            counts[split], counts[f"{split}_objects"] = len(kept.names), len(kept.label)
            if not kept.names:
                first = f"; the first problem is {bad[0]}" if bad else ""
                raise ValueError(f"{of_split.path}: no image with objects can be used{first}")
            names = [f"{SPLITS[split]}/{name}" for name in kept.names]
            index.write(folder, split, names, kept.image_id, kept.width, kept.height, [sizes[row] for row in full])
            objects.write(folder, split, kept.counts(), kept.box, kept.label)
            if split == "val":
                truth = json.dumps(coco.ground_truth(usable), separators=(",", ":"))
                (folder / GROUND_TRUTH).write_text(truth, encoding="utf-8")
        if bad and not self.skip_bad:
            raise ValueError(_refusal(bad))
        classes = "".join(f"{category} {name}\n" for category, name in train.categories)
        (folder / "classes.txt").write_text(classes, encoding="utf-8")
        counts["left_out"] = len(bad)
        complete = replace(manifest, counts=counts, notes=self.notes(counts), matches_published=self.matches(counts))
        return complete, [f"left out: {line}" for line in [*known, *_named(bad)]]

    def chosen(self, annotations: Annotations, split: str, train: Annotations) -> npt.NDArray[np.int64]:
        """Rows of the images to keep: all, or with `subset` some that have objects, spread evenly."""
        full = np.flatnonzero(annotations.counts())
        training = int(np.count_nonzero(train.counts()))
        if self.subset is None or self.subset >= training:
            return np.arange(len(annotations.names))
        count = self.subset if split == "train" else max(1, round(self.subset / training * len(full)))
        return full[np.arange(count) * len(full) // count]

    def checked(self, source: Path, annotations: Annotations, folder: str) -> tuple[Annotations, list[int], list[str]]:
        """The images that can be used, their bytes, and a line for each of the others."""
        from workloads.common.images.check import check_files

        paths = [source / folder / name for name in annotations.names]
        headers = check_files(paths, self.full)
        good, sizes, problems = [], [], []
        for row, (path, header) in enumerate(zip(paths, headers, strict=True)):
            width, height = int(annotations.width[row]), int(annotations.height[row])
            wrong = _wrong_file(header, width, height)
            if wrong:
                problems.append(f"{path}: image {annotations.image_id[row]}: {wrong}")
            else:
                good.append(row)
                sizes.append(path.stat().st_size)
        return annotations.take(np.array(good, np.int64)), sizes, problems

    def notes(self, counts: dict[str, int]) -> list[str]:
        """What a reader of a result must know."""
        found = []
        if self.subset is not None:
            found.append(f"subset of {counts['train']:,} training images")
        if counts["left_out"]:
            found.append(f"{counts['left_out']:,} images or annotations that cannot be used were left out")
        if self.published is not None and self.subset is None:
            expected = {**self.published, **{f"{split}_images": n for split, n in self.published_images.items()}}
            wrong = [
                f"{counts[key]:,} {key.replace('_', ' ')} instead of {number:,}"
                for key, number in expected.items()
                if counts[key] != number
            ]
            if wrong:
                found.append(f"counts differ from the published {self.name}: {', '.join(wrong)}")
        return found

    def matches(self, counts: dict[str, int]) -> bool | None:
        """Whether the counts are the published ones; None if there are none."""
        if self.published is None:
            return None
        return all(counts[key] == number for key, number in self.published.items())

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        """What to tell after a preparation."""
        counts, looked = manifest.counts, "decoded" if self.full else "headers and ends checked"
        return [
            f"{self.name}: {counts['train']:,} training images with {counts['train_objects']:,} objects and {counts['val']:,} "
            f"validation images with {counts['val_objects']:,} objects of {counts['classes']:,} classes, {looked}, "
            f"indexed in {destination}; the images stay in {manifest.source['name']}",
            f"images without objects: {counts['train_empty']:,} of train are not trained on, {counts['val_empty']:,} of val "
            f"count in the metric alone",
            *(f"notice: {note}" for note in manifest.notes),
        ]

    def verify(self, destination: Path) -> list[str]:
        """Compare the arrays with the manifest by content, and the images with the index by size in bytes."""
        manifest = manifests.read(destination)
        if manifest is None:
            raise ValueError(f"no prepared data in {destination}; type: {self.how()}")
        if manifest.dataset != self.name:
            raise ValueError(f"{destination} holds {manifest.dataset}, not {self.name}")
        manifests.verify(destination, manifest)
        root, lines = index.root(destination, manifest), []
        for split in SPLITS:
            images = index.read(destination, split, root, manifest.counts[split])
            objects.read(destination, split, manifest.counts[split])
            for number in range(len(images)):
                _same_bytes(images.path(number), int(images.bytes[number]))
            lines.append(f"{split}: {len(images):,} images, bytes as recorded")
        lines.append(f"{self.name}: sound, fingerprint {manifest.fingerprint}")
        return lines + [f"notice: {note}" for note in manifest.notes]

    def how(self) -> str:
        """The command that prepares this data set."""
        return f"suite data prepare {self.name} --from FOLDER"


class Coco2017(CocoFolders):
    """COCO 2017: what SSD's targets are about."""

    name = "coco2017"
    published: ClassVar = PUBLISHED
    published_images: ClassVar = PUBLISHED_IMAGES

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        """What was found, and what a reference run needs beside it."""
        needed = f"a reference run of SSD also needs backbone.weights={BACKBONE.file}, from {BACKBONE.url}"
        return [*super().lines(manifest, destination), needed]


def _read(source: Path, folder: str) -> tuple[Path, bytes]:
    """Path and content of a split's annotation file."""
    path = source / "annotations" / f"instances_{folder}.json"
    if not (source / folder).is_dir():
        raise ValueError(
            f"{source}: no folder {folder}; expected are train2017, val2017 and annotations, as downloaded"
        )
    try:
        return path, path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror}; expected are train2017, val2017 and annotations below {source}, as downloaded"
        ) from None


def _wrong_file(header: Header | str, width: int, height: int) -> str:
    """What is wrong with an image's file; empty: nothing."""
    if isinstance(header, str):
        return header
    if (header.width, header.height) != (width, height):
        return f"{header.width} x {header.height} pixels, but {width} x {height} in the annotations"
    return ""


def _named(bad: Sequence[str]) -> list[str]:
    """A line for each of the first problems, and one that counts the others."""
    return [*bad[:MOST_NAMED], *([f"… and {len(bad) - MOST_NAMED:,} more"] if len(bad) > MOST_NAMED else [])]


def _refusal(bad: Sequence[str]) -> str:
    """One line for one problem; several are listed."""
    if len(bad) == 1:
        return f"{bad[0]}; repair it, or type --skip-bad to leave it out"
    hint = "repair them, or type --skip-bad to leave them out"
    return "\n".join([f"{len(bad):,} images or annotations cannot be used; {hint}", *_named(bad)])


def _same_bytes(path: str, expected: int) -> None:
    try:
        found = os.stat(path).st_size
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; prepare the data again") from None
    if found != expected:
        raise ValueError(f"{path}: {found:,} bytes instead of {expected:,}; prepare the data again")
