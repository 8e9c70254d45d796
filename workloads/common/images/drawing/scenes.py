"""Scenes of the demo data sets: textured objects on a smooth background.

Clutter and camera noise are added to each scene.

A canvas is (3, height, width) float32, with planes red, green, blue and values 0 … 255.
`draw_object` draws a single object and returns its mask. The caller composes the scene. Every
random choice is a hash of coordinates. The drawing code uses only integer polygon filling and
correctly rounded operations, so the images are identical on every machine.
"""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from workloads.common.arrays import Float32s, Float64s, UInt8s
from workloads.common.images.drawing.outlines import OUTLINES
from workloads.common.images.drawing.textures import TEXTURES, field
from workloads.common.randomness import Draws as Draws
from workloads.common.randomness import bits, integers, normal

Canvas = Float32s
Mask = UInt8s
Colour = tuple[float, float, float]

CLASSES = tuple(OUTLINES)
MARGIN = 2
"""Number of pixels around a polygon's bounding box for soft edges."""
FINER = 4
"""Oversampling factor per axis. An outline is filled on a finer pixel grid, and the result is
averaged.
"""
SUBPIXEL_BITS = 6
"""Number of fractional bits of vertex coordinates: the coordinates are rounded to 1/64 of a
pixel of the finer grid.
"""
_LEVELS: Mask = (np.arange(FINER * FINER + 1) * 255 // (FINER * FINER)).astype(np.uint8)
NOISE_LEVELS = 256
JPEG_QUALITY = 90


@dataclass(frozen=True)
class Pose:
    """Position and shape of an outline.

    The center and the radius are in pixels. The rotation is in radians.
    """

    x: float
    y: float
    radius: float
    rotation: float = 0.0
    squeeze: float = 1.0
    """Ratio height / width of the squeezed outline, at most 1."""
    shear: float = 0.0

    def matrix(self) -> Float64s:
        """Return the (2, 2) matrix from the unit disc to pixels, rounded to 2⁻¹⁶.

        The matrix applies shear, then squeeze, then rotation.
        """
        cosine, sine = math.cos(self.rotation), math.sin(self.rotation)
        scaled = [
            (cosine, cosine * self.shear - sine * self.squeeze),
            (sine, sine * self.shear + cosine * self.squeeze),
        ]
        return np.asarray(np.rint(np.array(scaled) * self.radius * 65536) / 65536, np.float64)

    def corners(self, outline: Float64s) -> Float64s:
        """Return the vertices (n, 2) of an outline in pixels."""
        (a, b), (c, d) = self.matrix().tolist()
        x, y = outline[:, 0], outline[:, 1]
        return np.stack([a * x + b * y + self.x, c * x + d * y + self.y], axis=1)


@dataclass(frozen=True)
class Look:
    """Texture of an object and its two colors (red, green, blue in 0 … 255)."""

    texture: str
    first: Colour
    second: Colour
    scale: float = 1.0
    """Scale of the texture, relative to the usual scale on an object of the same radius."""


def hsv(hue: float, saturation: float, value: float) -> Colour:
    """Return the color with components in 0 … 255. The hue wraps around."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1.0, saturation, value)
    return 255 * red, 255 * green, 255 * blue


def choose_pose(draws: Draws, x: float, y: float, radius: float) -> Pose:
    """Return a random pose: rotation ±30°, squeeze 0.75–1, shear ±0.2."""
    turn = math.pi / 6
    return Pose(
        x, y, radius, draws.uniform(-turn, turn), draws.uniform(0.75, 1.0), draws.uniform(-0.2, 0.2)
    )


def choose_look(draws: Draws, kind: int, texture_loyalty: float, hue_loyalty: float) -> Look:
    """Return a random look for class `kind` (0 … 9).

    With probability `texture_loyalty`, the look has the texture of its class. With probability
    `hue_loyalty`, the look has the hue of its class. Otherwise, the texture or hue is random.
    """
    names = tuple(TEXTURES)
    texture = (
        names[kind] if draws.chance(texture_loyalty) else names[draws.integer(0, len(names) - 1)]
    )
    hue = (
        kind / len(CLASSES) + draws.uniform(-0.04, 0.04)
        if draws.chance(hue_loyalty)
        else draws.uniform()
    )
    return _colours(draws, texture, hue, saturation=0.45)


def any_look(draws: Draws) -> Look:
    """Return a look that does not depend on the class.

    The colors are muted, so that clutter is less conspicuous than objects.
    """
    texture = tuple(TEXTURES)[draws.integer(0, len(TEXTURES) - 1)]
    return _colours(draws, texture, draws.uniform(), saturation=0.1)


def _colours(draws: Draws, texture: str, hue: float, saturation: float) -> Look:
    """Return a look with two colors near `hue`.

    The saturation has a minimum, and the texture scale is 0.8 to 1.3. The HSV values (brightness)
    of the two colors differ by 0.3–0.6.
    """
    apart = draws.uniform(0.3, 0.6)
    dark = draws.uniform(0.15, 1.0 - apart)
    values = (dark, dark + apart) if draws.chance(0.5) else (dark + apart, dark)
    first = hsv(hue, draws.uniform(saturation, 1.0), values[0])
    second = hsv(hue + draws.uniform(-0.1, 0.1), draws.uniform(saturation, 1.0), values[1])
    return Look(texture, first, second, draws.uniform(0.8, 1.3))


def polygon_mask(corners: Float64s, height: int, width: int) -> tuple[slice, slice, Mask]:
    """Return (rows, columns, coverage) of a polygon within the canvas.

    Rows and columns are the slices of the polygon's bounding box. Coverage is an array with a value
    of 0 … 255 for each pixel of the box.
    """
    low = np.maximum(np.floor(corners.min(0)).astype(int) - MARGIN, 0)
    high = np.minimum(np.ceil(corners.max(0)).astype(int) + MARGIN, (width, height))
    (left, top), (right, bottom) = low.tolist(), high.tolist()
    mask = np.zeros((max(bottom - top, 0), max(right - left, 0)), np.uint8)
    if mask.size:
        fine = np.zeros((mask.shape[0] * FINER, mask.shape[1] * FINER), np.uint8)
        # The integer coordinates of OpenCV refer to pixel centers.
        points = np.rint(((corners - low) * FINER - 0.5) * (1 << SUBPIXEL_BITS)).astype(np.int32)
        cv2.fillPoly(fine, [points], (1,), shift=SUBPIXEL_BITS)
        mask = _shares(fine)
    return slice(top, top + mask.shape[0]), slice(left, left + mask.shape[1]), mask


def _shares(fine: Mask) -> Mask:
    """Return the coverage 0 … 255 of each square of FINER × FINER mask values (0 or 1)."""
    rows = fine[0::FINER] + fine[1::FINER] + fine[2::FINER] + fine[3::FINER]
    counts = rows[:, 0::FINER] + rows[:, 1::FINER] + rows[:, 2::FINER] + rows[:, 3::FINER]
    levels: Mask = _LEVELS[counts]
    return levels


def draw_object(canvas: Canvas, outline: str, pose: Pose, look: Look, key: int) -> Mask:
    """Draw an object and return its coverage (height, width), uint8 0 … 255.

    Objects that are drawn later do not reduce the returned coverage.
    """
    height, width = canvas.shape[1:]
    rows, columns, mask = polygon_mask(pose.corners(OUTLINES[outline]), height, width)
    coverage = np.zeros((height, width), np.uint8)
    coverage[rows, columns] = mask
    if mask.size:
        pixels = pose.radius * look.scale
        share = TEXTURES[look.texture](
            *_object_coordinates(pose, rows, columns, pixels), pixels, key
        )
        alpha = mask * np.float32(1 / 255)
        _blend(canvas[:, rows, columns], look, share, alpha)
    return coverage


def _object_coordinates(
    pose: Pose, rows: slice, columns: slice, unit: float
) -> tuple[Canvas, Canvas]:
    """Return coordinates u, v of a box's pixels along the object's rotated axes.

    The coordinates are in multiples of `unit` pixels.
    """
    cosine = round(math.cos(pose.rotation) * 65536) / 65536 / unit
    sine = round(math.sin(pose.rotation) * 65536) / 65536 / unit
    x = np.arange(columns.start, columns.stop) + (0.5 - pose.x)
    y = (np.arange(rows.start, rows.stop) + (0.5 - pose.y))[:, None]
    u, v = x * cosine + y * sine, y * cosine - x * sine
    return u.astype(np.float32), v.astype(np.float32)


def _blend(box: Canvas, look: Look, share: Canvas, alpha: Canvas) -> None:
    """Blend the two colors of a look over the canvas section `box` (3, h, w) in place.

    `share` is the fraction of the second color, and `alpha` is the opacity.
    """
    for plane, first, second in zip(box, look.first, look.second, strict=True):
        paint = share * np.float32(second - first)
        paint += np.float32(first)
        paint -= plane
        paint *= alpha
        plane += paint


def paint_polygon(canvas: Canvas, corners: Float64s, colour: Colour) -> None:
    """Draw a polygon (n, 2) with a single color."""
    rows, columns, mask = polygon_mask(corners, *canvas.shape[1:])
    alpha = mask * np.float32(1 / 255)
    for plane, value in zip(canvas[:, rows, columns], colour, strict=True):
        plane += (np.float32(value) - plane) * alpha


def sides(draws: Draws, short_side: tuple[int, int], longest: int) -> tuple[int, int]:
    """Return the height and width in pixels of an image with random orientation.

    The longer side is at most 5/4 of the shorter side.
    """
    short = draws.integer(*short_side)
    long = draws.integer(short, min(longest, short + short // 4))
    return (short, long) if draws.chance(0.5) else (long, short)


def background(draws: Draws, height: int, width: int) -> Canvas:
    """Return a smooth random background of muted colors.

    The colors are interpolated from a grid of 3–8 cells per side.
    """
    cells = draws.integer(3, 8)
    base = np.array(hsv(draws.uniform(), draws.uniform(0.0, 0.5), draws.uniform(0.3, 0.8)))
    spread = draws.integer(20, 90)
    offsets = (
        integers(bits(draws.part(1).key, np.arange(3 * cells * cells)), 2 * spread + 1) - spread
    )
    corners = np.clip(
        offsets.reshape(3, cells, cells) + np.rint(base).astype(np.int64)[:, None, None], 0, 255
    )
    return field(corners, height, width).astype(np.float32)


def clutter(canvas: Canvas, draws: Draws, count: int) -> None:
    """Draw `count` strokes, blobs, and boxes at random positions.

    Blobs and boxes have random textures.
    """
    height, width = canvas.shape[1:]
    side = min(height, width)
    for number in range(count):
        item_draws = draws.part(number)
        x, y = item_draws.uniform(0, width), item_draws.uniform(0, height)
        kind, turn = item_draws.integer(0, 2), item_draws.uniform(0, math.pi)
        if kind == 0:
            colour = hsv(
                item_draws.uniform(), item_draws.uniform(0.0, 1.0), item_draws.uniform(0.2, 0.9)
            )
            stroke(
                canvas,
                item_draws,
                (x, y),
                item_draws.uniform(0.2, 0.7) * side,
                item_draws.uniform(0.02, 0.05) * side,
                colour,
            )
        else:
            pose = Pose(
                x, y, item_draws.uniform(0.08, 0.2) * side, turn, item_draws.uniform(0.4, 1.0)
            )
            draw_object(
                canvas,
                "disc" if kind == 1 else "square",
                pose,
                any_look(item_draws),
                item_draws.part(0).key,
            )


def occluders(canvas: Canvas, draws: Draws, count: int) -> None:
    """Draw `count` thin lines across the scene."""
    height, width = canvas.shape[1:]
    side = min(height, width)
    for number in range(count):
        line_draws = draws.part(number)
        colour = hsv(
            line_draws.uniform(), line_draws.uniform(0.0, 0.6), line_draws.uniform(0.1, 0.95)
        )
        middle = (line_draws.uniform(0.2, 0.8) * width, line_draws.uniform(0.2, 0.8) * height)
        stroke(
            canvas,
            line_draws,
            middle,
            line_draws.uniform(0.6, 1.4) * side,
            line_draws.uniform(0.015, 0.04) * side,
            colour,
        )


def stroke(
    canvas: Canvas,
    draws: Draws,
    middle: tuple[float, float],
    length: float,
    thickness: float,
    colour: Colour,
) -> None:
    """Draw a straight bar in a random direction. `length` and `thickness` are in pixels."""
    pose = Pose(*middle, length / 1.6, draws.uniform(0, math.pi), thickness / length)
    paint_polygon(canvas, pose.corners(OUTLINES["square"]), colour)


def camera(canvas: Canvas, draws: Draws) -> UInt8s:
    """Apply random contrast, brightness, and Gaussian noise (σ 1–6) to a canvas.

    The canvas is converted to 8 bits. The function returns an image (height, width, 3) with
    channels blue, green, red.
    """
    contrast, brightness, sigma = (
        draws.uniform(0.75, 1.2),
        draws.uniform(-25, 25),
        draws.uniform(1, 6),
    )
    noise = (
        bits(draws.part(1).key, np.arange(-(-canvas.size // 8)))
        .astype("<u8", copy=False)
        .view(np.uint8)
    )
    image = np.take(_noise_table() * np.float32(sigma), noise[: canvas.size]).reshape(canvas.shape)
    image += canvas * np.float32(contrast)
    image += np.float32(127.5 - 127.5 * contrast + brightness)
    np.clip(image, 0, 255, out=image)
    planes = np.rint(image, out=image).astype(np.uint8)
    return np.ascontiguousarray(planes[::-1].transpose(1, 2, 0))


def write_jpeg(path: Path, image: UInt8s) -> None:
    """Write an image (height, width, 3) with channels blue, green, red as a JPEG file."""
    fine, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    assert fine, "OpenCV could not encode a JPEG"
    path.write_bytes(data.tobytes())


@cache
def _noise_table() -> Float32s:
    """Return standard normal quantiles at the centers of 256 equally likely intervals.

    A random byte thus selects a normally distributed number with a magnitude of at most 2.9.
    """
    cells = np.arange(NOISE_LEVELS, dtype=np.uint64) << np.uint64(56)
    return np.asarray(normal(cells + np.uint64(1 << 55), np.float32), np.float32)
