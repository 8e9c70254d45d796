"""Parses COCO annotation files into arrays and reports unusable images or annotations.

The parser raises ValueError if the file is not a COCO annotation file. A single image or annotation
that cannot be used is omitted and described in `problems`. The caller decides whether a problem is
fatal.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Int64s
from workloads.common.coco import masks
from workloads.common.coco.masks import Mask

TOLERANCE_PIXELS = 1.0
"""Number of pixels by which a box may extend beyond its image. Boxes can exceed the image because
annotators round coordinates.
"""
LARGEST_ID = 2**31 - 1
KNOWN_EMPTY = {918: 200_365, 2_206_849: 550_395}
"""Two boxes of height 0 in the published instances_train2017.json, as image ids by annotation id
(cocoapi issue 355). A model cannot learn these boxes, because log(0) is undefined. The parser omits
the boxes and does not report them as problems.
"""
MAX_TEXT = 80
"""Maximum length in characters of a quoted file value in a message."""


IMAGE = np.dtype(
    [("id", "i8"), ("name", object), ("width", "i8"), ("height", "i8"), ("folder", object)]
)
"""Fields of an image. `name` is the file name without its folder. `width` and `height` are in
pixels.
"""
OBJECT = np.dtype(
    [
        ("image", "i8"),
        ("id", "i8"),
        ("box", "f8", (4,)),
        ("label", "i4"),
        ("area", "f8"),
        ("crowd", "?"),
        ("mask", object),
    ]
)
"""Fields of an annotation.

- `image`: id of the image. In `Annotations`, `image` is the row index in `images`.
- `box`: left, top, width, height in pixels
- `label`: class number, starting at 1
- `mask`: a `Mask`, a string that describes why the mask is invalid, or None
"""
Table = npt.NDArray[Any]


@dataclass
class Annotations:
    """Content of an annotation file.

    Images are ordered by id. Objects are ordered by image, then by annotation id.
    """

    path: Path
    categories: list[tuple[int, str]]
    """Category ids and names, ordered by id. Classes are numbered from 1 in this order."""
    images: Table
    objects: Table
    problems: list[str] = field(default_factory=list)
    known_mistakes: list[str] = field(default_factory=list)
    """Descriptions of the annotations that were omitted because of a documented mistake in the
    published files.
    """

    def counts(self) -> Int64s:
        """Return the number of objects of each image."""
        return np.bincount(self.objects["image"], minlength=len(self.images)).astype(np.int64)

    def without_mask(self) -> int:
        """Return the number of objects that have no mask."""
        return sum(mask is None for mask in self.objects["mask"])

    def take(self, rows: Int64s) -> Annotations:
        """Return the annotations of the images in `rows`. The row indices must be ascending."""
        place = np.full(len(self.images), -1, np.int64)
        place[rows] = np.arange(len(rows))
        objects = self.objects[place[self.objects["image"]] >= 0]
        objects["image"] = place[objects["image"]]
        return Annotations(self.path, self.categories, self.images[rows], objects)

    def sides(self) -> Table:
        """Return the width and height of each object's image, as fields `width` and `height`."""
        return np.asarray(self.images[["width", "height"]][self.objects["image"]])


def parse(path: Path, data: bytes, folder: str = "") -> Annotations:
    """Parse the annotation file `path`, whose content is `data`.

    `folder` contains the images of the annotation file. The function raises ValueError with the
    file's name if the file is not a COCO annotation file.
    """
    with _uncollected():
        content = _load(path, data)
        categories = _categories(path, content["categories"])
        problems: list[str] = []
        known_mistakes: list[str] = []
        images = _images(path, content["images"], folder, problems)
        numbers = {category: number for number, (category, _) in enumerate(categories, 1)}
        objects = _objects(path, content["annotations"], images, numbers, problems, known_mistakes)
        objects = _without_bad_masks(path, objects, images, problems)
        tables = np.array(list(images.values()), IMAGE), np.array(objects, OBJECT)
        return _ordered(path, categories, *tables, problems, known_mistakes)


def merge(parts: Sequence[Annotations]) -> Annotations:
    """Merge the annotations of several files into one data set.

    For example, two files contain the annotations of COCO 2014's training images of round v0.5. The
    function raises ValueError if the categories differ or if two files contain the same image.
    """
    first, *rest = parts
    for part in rest:
        if part.categories != first.categories:
            raise ValueError(
                f"{part.path}: the categories differ from {first.path}. Both files must belong to"
                " the same data set"
            )
        shared = np.intersect1d(first.images["id"], part.images["id"])
        if len(shared):
            raise ValueError(f"{part.path}: image {shared[0]} is also in {first.path}")
    for part in parts:
        part.objects["image"] = part.images["id"][part.objects["image"]]
    images, objects = (
        np.concatenate([getattr(part, kind) for part in parts]) for kind in ("images", "objects")
    )
    lines = (
        [line for part in parts for line in getattr(part, kind)]
        for kind in ("problems", "known_mistakes")
    )
    return _ordered(first.path, first.categories, images, objects, *lines)


def _ordered(
    path: Path, categories: list[tuple[int, str]], images: Table, objects: Table, *lines: list[str]
) -> Annotations:
    """Build `Annotations` from unordered rows. The objects refer to image ids."""
    images = images[np.argsort(images["id"])]
    objects["image"] = np.searchsorted(images["id"], objects["image"])
    return Annotations(
        path, categories, images, objects[np.lexsort((objects["id"], objects["image"]))], *lines
    )


def ground_truth(annotations: Annotations) -> dict[str, Any]:
    """Return the ground truth for COCO's box metric.

    The ground truth has the structure of an annotation file without masks.
    """
    category_of_label = [category for category, _ in annotations.categories]
    ids = annotations.images["id"].tolist()
    return {
        "images": [
            {"id": number, "file_name": name, "width": width, "height": height}
            for number, name, width, height, _ in annotations.images.tolist()
        ],
        "annotations": [
            {
                "id": number,
                "image_id": ids[image],
                "category_id": category_of_label[label - 1],
                "bbox": box.tolist(),
                "area": area,
                "iscrowd": int(crowd),
            }
            for image, number, box, label, area, crowd, _ in annotations.objects.tolist()
        ],
        "categories": [{"id": category, "name": name} for category, name in annotations.categories],
    }


def _load(path: Path, data: bytes) -> Mapping[str, list[Any]]:
    """Return the content of an annotation file after checking its three required lists."""
    if not data.strip():
        raise ValueError(f"{path}: empty ({len(data)} bytes). Download the annotations again")
    try:
        # Masks are the largest share of the file. Packed masks need a quarter of the memory of
        # Python numbers.
        content = json.loads(data, object_hook=_with_packed_mask)
    except RecursionError:
        raise ValueError(f"{path}: not COCO annotations (nested too deeply)") from None
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}). Download the annotations again") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: not COCO annotations (a {type(content).__name__} instead of an object)"
        )
    for name in ("images", "annotations", "categories"):
        if not isinstance(content.get(name), list):
            raise ValueError(f"{path}: not COCO annotations (no list {name!r})")
        if not content[name]:
            raise ValueError(f"{path}: no {name}. Download the annotations again")
    return content


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection while millions of objects are created.

    The objects do not form reference cycles. Garbage collection would take 20 % of the parsing
    time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _with_packed_mask(entry: dict[str, Any]) -> dict[str, Any]:
    if "segmentation" in entry:
        entry["segmentation"] = masks.compact(entry["segmentation"])
    return entry


def _categories(path: Path, entries: Sequence[Any]) -> list[tuple[int, str]]:
    """Return the ids and names of the categories, ordered by id.

    The function raises ValueError for an invalid category, because the whole file is then unusable.
    """
    names: dict[int, str] = {}
    for entry in entries:
        number = _id_of(entry)
        if number is None:
            raise ValueError(f"{path}: category without a usable id: {_text(entry)}")
        if number in names:
            raise ValueError(
                f"{path}: category {number} is listed twice ({names[number]},"
                f" {_text(entry.get('name'))})"
            )
        names[number] = _text(entry.get("name"))
    return sorted(names.items())


def _images(
    path: Path, entries: Sequence[Any], folder: str, problems: list[str]
) -> dict[int, tuple[Any, ...]]:
    """Return the fields of `IMAGE` of each usable image by id.

    A line is appended to `problems` for each unusable image.
    """
    images: dict[int, tuple[Any, ...]] = {}
    files: dict[str, int] = {}
    for entry in entries:
        number = _id_of(entry)
        if number is None:
            problems.append(f"{path}: image without a usable id: {_text(entry)}")
            continue
        name, width, height = (entry.get(key) for key in ("file_name", "width", "height"))
        if number in images:
            problems.append(
                f"{path}: image {number} is listed twice ({images[number][1]}, {_text(name)})"
            )
        elif not isinstance(name, str) or not _is_plain(name):
            problems.append(
                f"{path}: image {number}: not a file name without folders: {_text(name)}"
            )
        elif name in files:
            problems.append(
                f"{path}: image {number}: its file {name} is also the file of image {files[name]}"
            )
        elif not (_is_id(width) and _is_id(height) and width and height):
            problems.append(
                f"{path}: image {number}: invalid size {_text(width)} x {_text(height)}"
            )
        else:
            images[number] = (number, name, width, height, folder)
            files[name] = number
    return images


def _objects(
    path: Path,
    entries: Sequence[Any],
    images: Mapping[int, tuple[Any, ...]],
    numbers: Mapping[int, int],
    problems: list[str],
    known_mistakes: list[str],
) -> list[tuple[Any, ...]]:
    """Return the fields of `OBJECT` of each usable annotation.

    A line is appended to `problems` for each unusable annotation.
    """
    usable: list[tuple[Any, ...]] = []
    seen: set[int] = set()
    for entry in entries:
        number = entry.get("id") if isinstance(entry, dict) else None
        if (
            not isinstance(number, int) or isinstance(number, bool) or number.bit_length() > 63
        ):  # Crowd annotations have large ids.
            problems.append(f"{path}: annotation without a usable id: {_text(entry)}")
            continue
        image, category, box, area = (
            entry.get(name) for name in ("image_id", "category_id", "bbox", "area")
        )
        subject = f"{path}: annotation {number}"
        if number in seen:
            problems.append(f"{subject} is listed twice")
        elif not isinstance(image, int) or image not in images:
            problems.append(
                f"{subject}: its image {_text(image)} is not among the usable images of the file"
            )
        elif not isinstance(category, int) or category not in numbers:
            problems.append(f"{subject} (image {image}): unknown category {_text(category)}")
        elif wrong := _wrong(box, area, *images[image][2:4]):
            if KNOWN_EMPTY.get(number) == image and _is_flat(box):
                known_mistakes.append(
                    f"{subject} (image {image}): {wrong}, as in the published file"
                )
            else:
                problems.append(f"{subject} (image {image}): {wrong}")
        elif (crowd := _as_flag(entry.get("iscrowd"))) is None:
            problems.append(
                f"{subject} (image {image}): iscrowd {_text(entry['iscrowd'])} is invalid (allowed:"
                " 0, 1)"
            )
        else:
            area = box[2] * box[3] if area is None else float(area)
            mask = entry.get("segmentation")
            usable.append((image, number, box, numbers[category], area, crowd, mask))
        seen.add(number)
    return usable


def _without_bad_masks(
    path: Path,
    objects: Sequence[tuple[Any, ...]],
    images: Mapping[int, tuple[Any, ...]],
    problems: list[str],
) -> list[tuple[Any, ...]]:
    """Return the objects (rows of `OBJECT`) whose mask is usable or missing.

    A line is appended to `problems` for each object with an invalid mask.
    """
    wrong = {row: each[-1] for row, each in enumerate(objects) if isinstance(each[-1], str)}
    masked = [row for row, each in enumerate(objects) if isinstance(each[-1], Mask)]
    size = np.array([images[objects[row][0]][2:4] for row in masked], np.int64).reshape(-1, 2)
    crowd = np.array([objects[row][-2] for row in masked], bool)
    masks_to_check = [objects[row][-1] for row in masked]
    problem_of_mask = masks.problems(masks_to_check, size[:, 0], size[:, 1], crowd)
    for row, problem in [
        *wrong.items(),
        *sorted((masked[number], problem) for number, problem in problem_of_mask.items()),
    ]:
        wrong[row] = problem
        image, number, *_ = objects[row]
        problems.append(f"{path}: annotation {number} (image {image}): {problem}")
    return [each for row, each in enumerate(objects) if row not in wrong]


def _wrong(box: Any, area: Any, width: int, height: int) -> str:
    """Return a description of an invalid box or area, or an empty string.

    `width` and `height` are the size of the image. `area` may be None.
    """
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        return f"box {_text(box)} is not a list of four finite numbers"
    left, top, across, down = box
    if across <= 0 or down <= 0:
        return f"box {_text(box)} has no area"
    beyond = max(-left, -top, left + across - width, top + down - height)
    if beyond > TOLERANCE_PIXELS:
        return f"box {_text(box)} reaches {beyond:g} pixels beyond its image of {width} x {height}"
    if area is not None and not (_is_number(area) and area >= 0):
        return f"area {_text(area)} is not a finite number of at least 0"
    return ""


def _is_flat(box: Any) -> bool:
    """Return True if the box is valid except that its width or height is 0."""
    return (
        isinstance(box, list) and len(box) == 4 and all(map(_is_number, box)) and min(box[2:]) == 0
    )


def _is_number(value: Any) -> bool:
    if (
        type(value) is float
    ):  # The most frequent case comes first, because this function is called millions of times.
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= LARGEST_ID if isinstance(value, int) else math.isfinite(value)


def _as_flag(value: Any) -> bool | None:
    """Return the boolean value of a flag, which is 0 or 1 as a number, boolean, or string.

    The function returns False for null, and None for an invalid value.
    """
    if value is None:
        return False
    if isinstance(value, str):
        return {"0": False, "1": True}.get(value)
    return bool(value) if isinstance(value, (bool, int, float)) and value in (0, 1) else None


def _id_of(entry: Any) -> int | None:
    """Return the id of an image or a category, or None if it is missing or invalid."""
    number = entry.get("id") if isinstance(entry, dict) else None
    return number if _is_id(number) else None


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_ID


def _is_plain(name: str) -> bool:
    """Return True if `name` is a printable file name without folders."""
    return name.isprintable() and "/" not in name and name not in ("", ".", "..")


def _text(value: Any) -> str:
    """Return a short, printable string of a value from an annotation file."""
    try:
        text = value if isinstance(value, str) and value.isprintable() else ascii(value)
    except (RecursionError, ValueError):
        text = type(value).__name__
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
