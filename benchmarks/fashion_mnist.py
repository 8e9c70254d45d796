"""Real images for image classification: the Fashion-MNIST files of a Debian package as JPEGs in ImageNet's folders.

    apt-get install dataset-fashion-mnist
    python benchmarks/fashion_mnist.py FOLDER [--from /usr/share/datasets/fashion-mnist] [--side 96]
    suite data prepare imagenet --from FOLDER --to OTHER_FOLDER

Writes FOLDER/train/<class>/*.JPEG (60,000) and FOLDER/val/<class>/*.JPEG (10,000), ten classes, grey images of 28 × 28
pixels enlarged to SIDE × SIDE (0: left as they are), JPEG quality 95. FOLDER must not exist.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2

from workloads.zoo.datasets.fashion_mnist import CLASSES, PACKAGED, SPLITS, read_split

JPEG_QUALITY = 95


def folder_of(label: int) -> str:
    """A folder name in the form of ImageNet's."""
    return f"n8{label + 1:07d}"


def write_split(source: Path, root: Path, split: str, side: int) -> int:
    """Write one split below `root`; returns the number of images."""
    images, labels = read_split(source, split)
    for label in range(len(CLASSES)):
        (root / split / folder_of(label)).mkdir(parents=True)

    def write(index: int) -> None:
        image = images[index] if side == 0 else cv2.resize(images[index], (side, side), interpolation=cv2.INTER_CUBIC)
        fine, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
        assert fine, "OpenCV could not write a JPEG"
        folder = folder_of(int(labels[index]))
        (root / split / folder / f"{folder}_{index:05d}.JPEG").write_bytes(data.tobytes())

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for _ in pool.map(write, range(len(images))):
            pass
    return len(images)


def main() -> int:
    """Write both splits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="where to write; must not exist")
    parser.add_argument("--from", dest="source", type=Path, default=PACKAGED, help="folder of the four .gz files")
    parser.add_argument("--side", type=int, default=96, help="pixels; 0: the 28 that the images have (default: 96)")
    options = parser.parse_args()
    try:
        if options.folder.exists():
            raise ValueError(f"{options.folder} exists and is never overwritten; name another folder")
        if options.side < 0:
            raise ValueError(f"--side {options.side}: give pixels, or 0 to leave the images as they are")
        counts = {split: write_split(options.source, options.folder, split, options.side) for split in SPLITS}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{options.folder}: {counts['train']:,} training and {counts['val']:,} validation images")
    print("\n".join(f"{folder_of(label)}  {name}" for label, name in enumerate(CLASSES)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
