"""Prepares COCO's folders for detection runs without copying or changing the images.

The prepared folder contains:

- the index (`workloads.common.images.index`) of all images with objects for `train` and `val`, and
  of the validation images without objects for `val_empty`. The index stores the COCO id of each
  image as its `label`.
- boxes and classes (`objects.py`)
- `classes.txt` with a line `ID NAME` for class 1, 2, …
- `val_ground_truth.json`, the ground truth of COCO's metric, with all validation images, including
  images without objects
- masks (`masks.py`), if all annotations have masks
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from workloads.common.arrays import Int64s
from workloads.common.coco import annotations as coco
from workloads.common.coco import masks, objects
from workloads.common.coco.annotations import Annotations, merge
from workloads.common.coco.average_precision import GROUND_TRUTH
from workloads.common.images import index
from workloads.common.images.dataset import ImageDataset, fill
from workloads.common.images.jpeg import Header
from workloads.common.manifest import Manifest
from workloads.common.networks.backbones import RESNET34 as BACKBONE
from workloads.files import read_bytes

_ANNOTATION_BYTES = 2 << 30
"""Maximum size of an annotation file. The largest published file, instances_train2017.json, has 448
MiB."""
SPLITS = {"train": "train2017", "val": "val2017"}
"""Image folder of each split. The annotations of an image folder `FOLDER` are in
annotations/instances_FOLDER.json.
"""

Content = dict[str, list[tuple[str, Path, bytes]]]
"""List of (image folder, path of the annotation file, content of the annotation file) by split."""


class CocoFolders(ImageDataset[Content]):
    """Data set in the folder layout of COCO 2017."""

    things = "images or annotations"
    splits = ("train", "val", "val_empty")
    parts: ClassVar[Mapping[str, Mapping[str, str]]] = {
        split: {folder: folder} for split, folder in SPLITS.items()
    }
    """Image folder of each annotation file, by split. The keys of the inner mapping are `NAME` in
    annotations/instances_NAME.json.
    """
    annotations_sha256: ClassVar[tuple[str, ...]] = ()
    """SHA-256 of the published annotation files, in the order of `parts`."""
    archives: ClassVar[Mapping[str, int]] = {}
    """Size in bytes of the published image archive, by split."""

    def look(self, source: Path) -> Content:
        """Read the annotation files in the folder `source`.

        The method raises ValueError if an annotation file or image folder is missing.
        """
        expected = ", ".join(
            dict.fromkeys(folder for parts in self.parts.values() for folder in parts.values())
        )
        return {
            split: [
                _read(source, name, folder, f"{expected} and annotations")
                for name, folder in parts.items()
            ]
            for split, parts in self.parts.items()
        }

    def manifest(self, images: str, content: Content) -> Manifest:
        digest = hashlib.sha256()
        files = [data for parts in content.values() for _, _, data in parts]
        for data in files:
            digest.update(hashlib.sha256(data).digest())
        total = sum(map(len, files))
        return Manifest(
            dataset=self.name,
            source={"name": images, "bytes": total, "sha256": digest.hexdigest()},
            options={"images": images, "subset": self.subset},
            counts={},
        )

    def write(
        self, source: Path, folder: Path, manifest: Manifest, content: Content
    ) -> tuple[Manifest, list[str]]:
        """Check all images and annotations, and write the arrays to `folder`.

        The method returns the complete manifest and a line for each omitted image or annotation.
        """
        annotations = {
            split: merge([coco.parse(path, data, below) for below, path, data in parts])
            for split, parts in content.items()
        }
        train, val = annotations["train"], annotations["val"]
        if train.categories != val.categories:
            raise ValueError(
                f"{val.path}: the categories differ from {train.path}. Both files must belong to"
                " the same data set"
            )
        bad, known_mistakes = (
            train.problems + val.problems,
            train.known_mistakes + val.known_mistakes,
        )
        counts, image_bytes = {"classes": len(train.categories)}, dict[str, int]()
        kept_by_split, usable_by_split = dict[str, Annotations](), dict[str, Annotations]()
        for split, annotated in annotations.items():
            counts |= {f"{split}_images": len(annotated.images)}
            chosen = annotated.take(self.chosen(annotated, split, train))
            usable, sizes, problems = self.checked(source, chosen)
            bad, image_bytes[split] = bad + problems, sum(sizes)
            full = np.flatnonzero(usable.counts())
            kept = usable.take(full)
            empty = np.flatnonzero(usable.counts() == 0)
            counts[f"{split}_empty"] = len(empty)
            counts[split], counts[f"{split}_objects"] = len(kept.images), len(kept.objects)
            if not len(kept.images):
                first = f". The first problem is {bad[0]}" if bad else ""
                raise ValueError(f"{annotated.path}: no image with objects can be used{first}")
            _write_index(folder, split, usable, full, sizes)
            objects.write(folder, split, kept.counts(), kept.objects["box"], kept.objects["label"])
            if split == "val":
                _write_index(folder, "val_empty", usable, empty, sizes)
                _write_ground_truth(folder, usable)
            kept_by_split[split], usable_by_split[split] = kept, usable
        without_mask = {
            f"{split}_without_mask": usable.without_mask()
            for split, usable in usable_by_split.items()
        }
        if any(without_mask.values()):
            counts |= without_mask
        else:
            counts |= _write_masks(folder, "train", kept_by_split["train"])
            _write_run_lengths(folder, "val", usable_by_split["val"])
        if bad and not self.skip_bad:
            raise ValueError(self.refusal(bad))
        classes = "".join(f"{category} {name}\n" for category, name in train.categories)
        (folder / "classes.txt").write_text(classes, encoding="utf-8")
        counts["left_out"] = len(bad)
        compared = self.content if self._is_published(content, image_bytes) else ""
        complete = self.complete(manifest, counts, compared)
        return complete, [f"left out: {line}" for line in [*known_mistakes, *self.named(bad)]]

    def _is_published(self, content: Content, image_bytes: Mapping[str, int]) -> bool:
        """Return True if annotations and images match the published files.

        Annotations are compared by digest. Images are compared by their total size, which must
        match the archive size of each split.
        """
        digests = [
            hashlib.sha256(data).hexdigest() for parts in content.values() for _, _, data in parts
        ]
        filled = (fill(size, [image_bytes[split]]) for split, size in self.archives.items())
        return (
            bool(self.annotations_sha256)
            and digests == list(self.annotations_sha256)
            and all(filled)
        )

    def chosen(self, annotations: Annotations, split: str, train: Annotations) -> Int64s:
        """Return the row indices of the images to keep.

        By default, all images are kept. With `subset`, the method keeps evenly spaced images that
        have objects.
        """
        full = np.flatnonzero(annotations.counts())
        training = int(np.count_nonzero(train.counts()))
        if self.subset is None or self.subset >= training:
            return np.arange(len(annotations.images))
        count = (
            self.subset if split == "train" else max(1, round(self.subset / training * len(full)))
        )
        return full[np.arange(count) * len(full) // count]

    def checked(
        self, source: Path, annotations: Annotations
    ) -> tuple[Annotations, list[int], list[str]]:
        """Return the annotations and the file sizes of usable images, and the problems.

        File sizes are in bytes.
        """
        from workloads.common.images.check import check_files

        listed = annotations.images.tolist()
        paths = [source / folder / name for _, name, _, _, folder in listed]
        headers = check_files(paths, self.full)
        good, sizes, problems = [], [], []
        for row, (path, header, (number, _, width, height, _)) in enumerate(
            zip(paths, headers, listed, strict=True)
        ):
            wrong = _wrong_file(header, width, height)
            if wrong:
                problems.append(f"{path}: image {number}: {wrong}")
            else:
                good.append(row)
                sizes.append(path.stat().st_size)
        return annotations.take(np.array(good, np.int64)), sizes, problems

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        counts, looked = manifest.counts, "decoded" if self.full else "headers and ends checked"
        without_mask = masks.describe_missing(counts)
        return [
            (
                f"{self.name}: {counts['train']:,} training images with {counts['train_objects']:,}"
                f" objects and {counts['val']:,} validation images with {counts['val_objects']:,}"
                f" objects of {counts['classes']:,} classes, {looked}, indexed in {destination}."
                f" The images stay in {manifest.source['name']}"
            ),
            (
                f"images without objects: {counts['train_empty']:,} training images are not used, "
                f"{counts['val_empty']:,} validation images affect only the metric"
            ),
            *(
                [f"{without_mask}: Mask R-CNN cannot use this data set, SSD can"]
                if without_mask
                else []
            ),
            *manifest.notices,
        ]

    def verify_split(self, destination: Path, split: str, count: int) -> None:
        if split in SPLITS:
            kept_objects = objects.read(destination, split, count)
            if split == "train" and (destination / "train_trainable.npy").is_file():
                masks.read(destination, split, len(kept_objects.label))


class UserCoco(CocoFolders):
    """User-provided folders in the layout of COCO 2017."""

    name = kind = "coco"


class Coco2017(CocoFolders):
    """COCO 2017, the data set to which the quality targets of SSD and Mask R-CNN refer."""

    name = "coco2017"
    annotations_sha256 = (
        "610fce4944abdeb15354cc765333805529359d12d88f2f711393ca586901d01d",
        "e8c7f7908f1d7278341fae127d0da654f102f11bd7b21d8aeefa635b8c810b6f",
    )
    """SHA-256 of the files in annotations_trainval2017.zip. COCO publishes no digests. Several
    public projects contain the same digests.
    """
    archives: ClassVar = {"train": 19_336_861_798, "val": 815_585_330}
    """Sizes of train2017.zip and val2017.zip in bytes."""
    content = (
        "annotations by SHA-256, images by width, height and the bytes of train2017.zip and"
        " val2017.zip"
    )

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        needed = (
            f"a reference run of SSD also needs backbone.weights={BACKBONE.file}, from"
            f" {BACKBONE.url}"
        )
        return [*super().lines(manifest, destination), needed]


class Coco2014(CocoFolders):
    """COCO 2014 in the split that round v0.5 used for Mask R-CNN.

    The split contains the images of COCO 2017 with different file names. In addition to the
    downloaded annotations, the split needs instances_valminusminival2014.json and
    instances_minival2014.json.
    """

    name = "coco2014"
    content = "no digest of its annotations is known"
    parts: ClassVar = {
        "train": {"train2014": "train2014", "valminusminival2014": "val2014"},
        "val": {"minival2014": "val2014"},
    }


def _write_index(
    folder: Path, split: str, all_objects: Annotations, rows: Int64s, sizes: list[int]
) -> None:
    """Write the index of the images in `rows`.

    `sizes` (n,) are the file sizes of all images in bytes.
    """
    some = all_objects.images[rows]
    names = [f"{below}/{name}" for below, name in zip(some["folder"], some["name"], strict=True)]
    index.write(
        folder,
        split,
        names,
        some["id"],
        some["width"],
        some["height"],
        [sizes[row] for row in rows],
    )


def _write_ground_truth(folder: Path, all_objects: Annotations) -> None:
    """Write the ground truth of the box metric."""
    truth = json.dumps(coco.ground_truth(all_objects), separators=(",", ":"))
    (folder / GROUND_TRUTH).write_text(truth, encoding="utf-8")


def _write_run_lengths(folder: Path, split: str, all_objects: Annotations) -> None:
    """Write the ground truth of the mask metric."""
    sides = all_objects.sides()
    masks.write_run_lengths(
        folder, split, all_objects.objects["mask"].tolist(), sides["width"], sides["height"]
    )


def _write_masks(folder: Path, split: str, all_objects: Annotations) -> dict[str, int]:
    """Write the masks of the objects, and return the number of trainable objects.

    Crowds, and objects whose box is one pixel wide or high, are not used in training.
    """
    rows, sides = all_objects.objects, all_objects.sides()
    _, inside = objects.corners_inside(
        rows["box"].astype(np.float32), sides["width"], sides["height"]
    )
    trainable = inside & ~rows["crowd"]
    masks.write(folder, split, rows["mask"].tolist(), trainable)
    per_image = np.bincount(rows["image"][trainable], minlength=len(all_objects.images))
    return {
        f"{split}_segmented": int(np.count_nonzero(per_image)),
        f"{split}_segmented_objects": int(per_image.sum()),
        "objects_per_image_most": int(per_image.max()),
    }


def _read(source: Path, name: str, folder: str, expected: str) -> tuple[str, Path, bytes]:
    """Return the image folder, path, and content of an annotation file."""
    path = source / "annotations" / f"instances_{name}.json"
    if not (source / folder).is_dir():
        raise ValueError(f"{source}: no folder {folder}. Expected: {expected}, as downloaded")
    try:
        return folder, path, read_bytes(path, _ANNOTATION_BYTES)
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror}. Expected: {expected} in {source}, as downloaded"
        ) from None


def _wrong_file(header: Header | str, width: int, height: int) -> str:
    """Return a description of the problem with an image file, or an empty string."""
    if isinstance(header, str):
        return header
    if (header.width, header.height) != (width, height):
        return f"{header.width} x {header.height} pixels, but {width} x {height} in the annotations"
    return ""
