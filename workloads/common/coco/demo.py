"""The generated data set of the detection demos: scenes of ten kinds of objects, with boxes and masks, in COCO's layout.

The kind is the outline; textures and hues lean towards a kind now and then. Number, place, size, overlap, background,
clutter and light vary, so that no constant set of boxes finds anything, while a small network learns to.
"""

from __future__ import annotations

import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from workloads.common.coco.dataset import SPLITS, CocoFolders
from workloads.common.data.generated import Generated
from workloads.common.images.drawing import scenes
from workloads.common.images.drawing.outlines import OUTLINES
from workloads.common.images.drawing.scenes import CLASSES, Canvas, Draws, Mask, Pose
from workloads.common.manifest import Manifest
from workloads.common.randomness import fold, stream

SEED = 1
"""Of the data set; runs have seeds of their own."""
SIZES = {"train": 2000, "val": 300}
"""Images."""
FIRST_ID = {"train": 1, "val": 100_001}
"""Id of a split's first image; ids are those of one data set."""
SHORT_SIDE, LONGEST_SIDE = (144, 160), 192
"""Pixels; images lie or stand by chance."""
OBJECTS = (1, 8)
RADIUS = (0.108, 0.253)
"""Of an object, in short sides; small ones are more frequent."""
OVERLAP = 0.15
"""Less than this share of an object's box lies in the boxes of all others together."""
ATTEMPTS = 20
"""At a size and place for an object; then there is no room and the scene has one fewer."""
TEXTURE_LOYALTY, HUE_LOYALTY = 0.5, 0.3
"""How often an object wears its kind's texture and hue: the knobs of difficulty."""
CLUTTER = (3, 7)
FLAT = (0.15, 0.35)
"""Height over width of clutter; objects have at least 0.75, so that nothing looks like an object without a box."""
IMAGES = "images"
"""Folder of COCO's layout below that of the prepared data."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""


@dataclass(frozen=True)
class Placed:
    """An object before it is drawn."""

    kind: int
    pose: Pose
    box: Box
    """Around the whole outline, whatever will hide it."""
    draws: Draws


@dataclass(frozen=True)
class Scene:
    """An image and what is in it, in the order of drawing: later objects lie over earlier ones."""

    image: Mask
    """(height, width, 3) blue, green, red."""
    placed: list[Placed]
    masks: list[Mask]
    """(height, width) zeros and ones: pixels that show mostly this object."""


def category(kind: int) -> int:
    """COCO's id of class 0 … 9; with gaps, as COCO's ids have them."""
    return 2 * kind + 1


def image_id(split: str, index: int) -> int:
    """COCO's id of image `index` of a split."""
    return FIRST_ID[split] + index


def relative_path(split: str, index: int) -> Path:
    """Where image `index` of a split lies, below the root of COCO's layout."""
    return Path(SPLITS[split], f"{image_id(split, index):012d}.jpg")


def annotation_path(split: str) -> Path:
    """Where the annotations of a split lie, below the root of COCO's layout."""
    return Path("annotations", f"instances_{SPLITS[split]}.json")


def draw(split: str, index: int) -> Scene:
    """Scene `index` of a split."""
    draws = Draws(fold(stream(SEED, f"coco-demo {split}"), index))
    height, width = scenes.sides(draws, SHORT_SIDE, LONGEST_SIDE)
    canvas = scenes.background(draws.part(1), height, width)
    _clutter(canvas, draws.part(2), draws.integer(*CLUTTER))
    placed = place(draws.part(3), height, width, draws.integer(*OBJECTS))
    masks: list[Mask] = []
    for one in placed:
        look = scenes.choose_look(one.draws, one.kind, TEXTURE_LOYALTY, HUE_LOYALTY)
        coverage = scenes.draw_object(canvas, CLASSES[one.kind], one.pose, look, one.draws.part(0).key)
        mask: Mask = (coverage > 127).astype(np.uint8)
        masks = [earlier & ~mask for earlier in masks] + [mask]
    return Scene(scenes.camera(canvas, draws.part(4)), placed, masks)


def _clutter(canvas: Canvas, draws: Draws, count: int) -> None:
    """`count` strokes and flat textured pieces anywhere."""
    height, width = canvas.shape[1:]
    side = min(height, width)
    for number in range(count):
        one = draws.part(number)
        x, y = one.uniform(0, width), one.uniform(0, height)
        if one.chance(0.4):
            colour = scenes.hsv(one.uniform(), one.uniform(), one.uniform(0.2, 0.9))
            scenes.stroke(canvas, one, (x, y), one.uniform(0.2, 0.7) * side, one.uniform(0.02, 0.05) * side, colour)
        else:
            pose = Pose(x, y, one.uniform(0.1, 0.25) * side, one.uniform(0, math.pi), one.uniform(*FLAT))
            outline = "disc" if one.chance(0.5) else "square"
            scenes.draw_object(canvas, outline, pose, scenes.any_look(one), one.part(0).key)


def place(draws: Draws, height: int, width: int, count: int) -> list[Placed]:
    """Up to `count` objects wholly within the image, of which others cover little."""
    placed: list[Placed] = []
    hidden: list[float] = []
    for number in range(count):
        one = draws.part(number)
        for _ in range(ATTEMPTS):
            new = _anywhere(one, height, width)
            shared = [intersection(new.box, other.box) for other in placed]
            totals = [*map(sum, zip(hidden, shared, strict=True)), sum(shared)]
            if all(total < OVERLAP * area(each.box) for total, each in zip(totals, [*placed, new], strict=True)):
                placed.append(new)
                hidden = totals
                break
    return placed


def _anywhere(draws: Draws, height: int, width: int) -> Placed:
    """An object of any kind, size and place."""
    kind, share = draws.integer(0, len(CLASSES) - 1), draws.uniform()
    radius = (RADIUS[0] + (RADIUS[1] - RADIUS[0]) * share * math.sqrt(share)) * min(height, width)
    pose = scenes.choose_pose(draws, 0.0, 0.0, radius)
    corners = pose.corners(OUTLINES[CLASSES[kind]])
    (left, top), (right, bottom) = corners.min(0).tolist(), corners.max(0).tolist()
    x, y = draws.uniform(-left, width - right), draws.uniform(-top, height - bottom)
    return Placed(kind, replace(pose, x=x, y=y), (left + x, top + y, right + x, bottom + y), draws)


def area(box: Box) -> float:
    """Square pixels."""
    return (box[2] - box[0]) * (box[3] - box[1])


def intersection(one: Box, other: Box) -> float:
    """Square pixels that two boxes have in common."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0.0) * max(down, 0.0)


def polygons(mask: Mask) -> list[list[int]]:
    """The edges of a mask's pixels as COCO's polygons, x and y in turn, one for each piece: exact but for holes, which fill.

    On a grid twice as fine the outermost pixels of a piece lie right beside its edges, and rounding moves them there.
    """
    left, top, width, height = cv2.boundingRect(mask)
    fine = mask[top : top + height, left : left + width].repeat(2, axis=0).repeat(2, axis=1)
    pieces, _ = cv2.findContours(fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE, offset=(2 * left, 2 * top))
    return [_without_needless((np.asarray(piece)[:, 0] + 1) // 2).reshape(-1).tolist() for piece in pieces]


def _without_needless(points: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A closed polygon (n, 2) of horizontal and vertical edges without repeated points and points within an edge."""
    points = points[np.any(points != np.roll(points, 1, axis=0), axis=1)]
    before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    return points[np.any((before == 0) != (after == 0), axis=1)]


def entries_of(scene: Scene, image: int) -> list[dict[str, Any]]:
    """A scene's objects as COCO has them: boxes right around the visible pixels."""
    entries: list[dict[str, Any]] = []
    for number, (one, mask) in enumerate(zip(scene.placed, scene.masks, strict=True)):
        left, top, width, height = cv2.boundingRect(mask)
        entries.append(
            {
                "id": 10 * image + number,
                "image_id": image,
                "category_id": category(one.kind),
                "bbox": [left, top, width, height],
                "area": cv2.countNonZero(mask),
                "iscrowd": 0,
                "segmentation": polygons(mask),
            }
        )
    return entries


def write_scenes(root: Path) -> None:
    """COCO's layout below `root`: train2017/*.jpg, val2017/*.jpg and annotations/instances_*.json."""
    (root / "annotations").mkdir(parents=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for split, count in SIZES.items():
            (root / SPLITS[split]).mkdir()
            written = list(pool.map(partial(_write, root, split), range(count)))
            content = {
                "info": {"description": "coco-demo: generated scenes, not photographs"},
                "images": [image for image, _ in written],
                "annotations": [entry for _, entries in written for entry in entries],
                "categories": [{"id": category(kind), "name": name} for kind, name in enumerate(CLASSES)],
            }
            (root / annotation_path(split)).write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


def _write(root: Path, split: str, index: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw and write an image of a split; COCO's entries of it and of its objects."""
    scene, number, path = draw(split, index), image_id(split, index), relative_path(split, index)
    scenes.write_jpeg(root / path, scene.image)
    height, width = scene.image.shape[:2]
    image = {"id": number, "file_name": path.name, "width": width, "height": height}
    return image, entries_of(scene, number)


class CocoDemo(Generated, CocoFolders):
    """The generated data set: COCO's layout like the real one, through the same preparation, beside its arrays."""

    name = "coco-demo"

    def generate(self, folder: Path) -> Manifest:
        """Write `images/` and its arrays; a few seconds."""
        root = folder / IMAGES
        write_scenes(root)
        content = self.look(root)
        complete, _ = self.write(root, folder, self.manifest(IMAGES, content), content)
        return complete

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        counts = manifest.counts
        train = f"{counts['train']:,} training images with {counts['train_objects']:,} objects"
        val = f"{counts['val']:,} validation images with {counts['val_objects']:,} objects"
        return [f"{self.name}: {train} and {val} of {counts['classes']:,} classes, generated in {destination}"]
