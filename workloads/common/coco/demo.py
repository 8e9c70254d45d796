"""Generated data set of the detection demos, in COCO's layout with boxes and masks.

Each scene contains objects of ten classes. The outline of an object determines its class. Textures
and hues are only correlated with the class. Number, position, size, overlap, background, clutter,
and light vary. Predicting the same boxes for every image therefore fails, but a small network can
learn the task.
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
"""Random seed of the generated data set. The seeds of runs do not change the data set."""
SIZES = {"train": 2000, "val": 300}
"""Number of images per split."""
FIRST_ID = {"train": 1, "val": 100_001}
"""Id of the first image of each split. Ids are unique across splits."""
SHORT_SIDE, LONGEST_SIDE = (144, 160), 192
"""Range of the shorter side and maximum of the longer side of an image, in pixels. The
orientation of an image is random.
"""
OBJECTS = (1, 8)
"""Minimum and maximum number of objects per scene."""
RADIUS = (0.108, 0.253)
"""Minimum and maximum radius of an object, relative to the shorter side of the image. Small objects
are more frequent.
"""
OVERLAP = 0.15
"""Maximum fraction of an object's box that the boxes of the other objects may cover in total."""
ATTEMPTS = 20
"""Maximum number of random sizes and positions that are tried per object. If no attempt fits, the
object is omitted.
"""
TEXTURE_LOYALTY, HUE_LOYALTY = 0.5, 0.3
"""Probabilities that an object has the texture and the hue of its class. Lower probabilities
make the task harder.
"""
CLUTTER = (3, 7)
"""Minimum and maximum number of clutter shapes per scene."""
FLAT = (0.15, 0.35)
"""Range of the ratio height / width of clutter shapes. Objects have a ratio of at least 0.75, so
clutter shapes do not resemble objects.
"""
IMAGES = "images"
"""Folder in COCO's layout, inside the folder of the prepared data."""

Box = tuple[float, float, float, float]
"""Box as (left, top, right, bottom) in pixels."""


@dataclass(frozen=True)
class Placed:
    """Object that has been placed in a scene but not drawn yet."""

    kind: int
    pose: Pose
    box: Box
    """Bounding box of the whole outline, including pixels that later objects will cover."""
    draws: Draws


@dataclass(frozen=True)
class Scene:
    """Image with its objects in drawing order. Later objects cover earlier objects."""

    image: Mask
    """Image of shape (height, width, 3), with channels in the order blue, green, red."""
    placed: list[Placed]
    masks: list[Mask]
    """Mask (height, width) of each object. A pixel is 1 if it mostly shows this object,
    otherwise 0.
    """


def category(kind: int) -> int:
    """Return the COCO category id of class 0 … 9. As in COCO, the ids are not consecutive."""
    return 2 * kind + 1


def image_id(split: str, index: int) -> int:
    """Return the COCO id of image `index` of a split."""
    return FIRST_ID[split] + index


def relative_path(split: str, index: int) -> Path:
    """Return the path of image `index` of a split, relative to the root of the layout."""
    return Path(SPLITS[split], f"{image_id(split, index):012d}.jpg")


def annotation_path(split: str) -> Path:
    """Return the path of a split's annotation file, relative to the root of the layout."""
    return Path("annotations", f"instances_{SPLITS[split]}.json")


def draw(split: str, index: int) -> Scene:
    """Draw scene `index` of a split."""
    draws = Draws(fold(stream(SEED, f"coco-demo {split}"), index))
    height, width = scenes.sides(draws, SHORT_SIDE, LONGEST_SIDE)
    canvas = scenes.background(draws.part(1), height, width)
    _clutter(canvas, draws.part(2), draws.integer(*CLUTTER))
    placed = place(draws.part(3), height, width, draws.integer(*OBJECTS))
    masks: list[Mask] = []
    for placed_object in placed:
        look = scenes.choose_look(
            placed_object.draws, placed_object.kind, TEXTURE_LOYALTY, HUE_LOYALTY
        )
        coverage = scenes.draw_object(
            canvas,
            CLASSES[placed_object.kind],
            placed_object.pose,
            look,
            placed_object.draws.part(0).key,
        )
        mask: Mask = (coverage > 127).astype(np.uint8)
        masks = [earlier & ~mask for earlier in masks] + [mask]
    return Scene(scenes.camera(canvas, draws.part(4)), placed, masks)


def _clutter(canvas: Canvas, draws: Draws, count: int) -> None:
    """Draw `count` strokes and flat textured clutter shapes at random positions."""
    height, width = canvas.shape[1:]
    side = min(height, width)
    for number in range(count):
        item_draws = draws.part(number)
        x, y = item_draws.uniform(0, width), item_draws.uniform(0, height)
        if item_draws.chance(0.4):
            colour = scenes.hsv(
                item_draws.uniform(), item_draws.uniform(), item_draws.uniform(0.2, 0.9)
            )
            scenes.stroke(
                canvas,
                item_draws,
                (x, y),
                item_draws.uniform(0.2, 0.7) * side,
                item_draws.uniform(0.02, 0.05) * side,
                colour,
            )
        else:
            pose = Pose(
                x,
                y,
                item_draws.uniform(0.1, 0.25) * side,
                item_draws.uniform(0, math.pi),
                item_draws.uniform(*FLAT),
            )
            outline = "disc" if item_draws.chance(0.5) else "square"
            scenes.draw_object(
                canvas, outline, pose, scenes.any_look(item_draws), item_draws.part(0).key
            )


def place(draws: Draws, height: int, width: int, count: int) -> list[Placed]:
    """Place up to `count` objects inside the image, with little overlap between objects."""
    placed: list[Placed] = []
    hidden: list[float] = []
    for number in range(count):
        object_draws = draws.part(number)
        for _ in range(ATTEMPTS):
            new = _anywhere(object_draws, height, width)
            shared = [intersection(new.box, neighbor.box) for neighbor in placed]
            totals = [*map(sum, zip(hidden, shared, strict=True)), sum(shared)]
            if all(
                total < OVERLAP * area(each.box)
                for total, each in zip(totals, [*placed, new], strict=True)
            ):
                placed.append(new)
                hidden = totals
                break
    return placed


def _anywhere(draws: Draws, height: int, width: int) -> Placed:
    """Return an object of random class, size, and position."""
    kind, share = draws.integer(0, len(CLASSES) - 1), draws.uniform()
    radius = (RADIUS[0] + (RADIUS[1] - RADIUS[0]) * share * math.sqrt(share)) * min(height, width)
    pose = scenes.choose_pose(draws, 0.0, 0.0, radius)
    corners = pose.corners(OUTLINES[CLASSES[kind]])
    (left, top), (right, bottom) = corners.min(0).tolist(), corners.max(0).tolist()
    x, y = draws.uniform(-left, width - right), draws.uniform(-top, height - bottom)
    return Placed(kind, replace(pose, x=x, y=y), (left + x, top + y, right + x, bottom + y), draws)


def area(box: Box) -> float:
    """Return the area of a box in square pixels."""
    return (box[2] - box[0]) * (box[3] - box[1])


def intersection(first: Box, second: Box) -> float:
    """Return the area of the intersection of two boxes, in square pixels."""
    across = min(first[2], second[2]) - max(first[0], second[0])
    down = min(first[3], second[3]) - max(first[1], second[1])
    return max(across, 0.0) * max(down, 0.0)


def polygons(mask: Mask) -> list[list[int]]:
    """Return the outlines of a mask as COCO polygons, one per connected component.

    A polygon is a list of alternating x and y coordinates. The polygons follow the pixel edges
    exactly, except that holes are filled. OpenCV returns the coordinates of border pixels. The
    function therefore scales the mask to twice the resolution, so that border pixels are directly
    inside the edges of a component. Rounding then moves the coordinates of these pixels onto the
    edges.
    """
    left, top, width, height = cv2.boundingRect(mask)
    fine = mask[top : top + height, left : left + width].repeat(2, axis=0).repeat(2, axis=1)
    pieces, _ = cv2.findContours(
        fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE, offset=(2 * left, 2 * top)
    )
    return [
        _without_needless((np.asarray(piece)[:, 0] + 1) // 2).reshape(-1).tolist()
        for piece in pieces
    ]


def _without_needless(points: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Remove repeated vertices and vertices in the middle of an edge.

    `points` (n, 2) is a closed polygon of horizontal and vertical edges.
    """
    points = points[np.any(points != np.roll(points, 1, axis=0), axis=1)]
    before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    return points[np.any((before == 0) != (after == 0), axis=1)]


def entries_of(scene: Scene, image: int) -> list[dict[str, Any]]:
    """Return a scene's objects as COCO annotations.

    The box of an object tightly encloses its visible pixels.
    """
    entries: list[dict[str, Any]] = []
    for number, (placed_object, mask) in enumerate(zip(scene.placed, scene.masks, strict=True)):
        left, top, width, height = cv2.boundingRect(mask)
        entries.append(
            {
                "id": 10 * image + number,
                "image_id": image,
                "category_id": category(placed_object.kind),
                "bbox": [left, top, width, height],
                "area": cv2.countNonZero(mask),
                "iscrowd": 0,
                "segmentation": polygons(mask),
            }
        )
    return entries


def write_scenes(root: Path) -> None:
    """Write scenes in COCO's layout to `root`.

    The files are train2017/*.jpg, val2017/*.jpg, and annotations/instances_*.json.
    """
    (root / "annotations").mkdir(parents=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for split, count in SIZES.items():
            (root / SPLITS[split]).mkdir()
            written = list(pool.map(partial(_write, root, split), range(count)))
            content = {
                "info": {"description": "coco-demo: generated scenes, not photographs"},
                "images": [image for image, _ in written],
                "annotations": [entry for _, entries in written for entry in entries],
                "categories": [
                    {"id": category(kind), "name": name} for kind, name in enumerate(CLASSES)
                ],
            }
            (root / annotation_path(split)).write_text(
                json.dumps(content, separators=(",", ":")), encoding="utf-8"
            )


def _write(root: Path, split: str, index: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw and write an image, and return its COCO image record and its annotations."""
    scene, number, path = draw(split, index), image_id(split, index), relative_path(split, index)
    scenes.write_jpeg(root / path, scene.image)
    height, width = scene.image.shape[:2]
    image = {"id": number, "file_name": path.name, "width": width, "height": height}
    return image, entries_of(scene, number)


class CocoDemo(Generated, CocoFolders):
    """Generated detection data set, which is prepared with the same code as COCO.

    The generated images and annotations are stored next to the prepared arrays.
    """

    name = "coco-demo"

    def generate(self, folder: Path) -> Manifest:
        """Write `images/` and the prepared arrays. The generation takes a few seconds."""
        root = folder / IMAGES
        write_scenes(root)
        content = self.look(root)
        complete, _ = self.write(root, folder, self.manifest(IMAGES, content), content)
        return complete

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        counts = manifest.counts
        train = f"{counts['train']:,} training images with {counts['train_objects']:,} objects"
        val = f"{counts['val']:,} validation images with {counts['val_objects']:,} objects"
        return [
            f"{self.name}: {train} and {val} of {counts['classes']:,} classes, generated in"
            f" {destination}"
        ]
