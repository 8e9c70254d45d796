"""Measure time and memory of preparing ImageNet's 1,331,167 files.

    python -m benchmarks.prepare_imagenet [--train 1281167] [--val 50000]

The files are hard links to 1,000 synthetic photographs of 500 x 375 pixels in 1,000 class folders.
All photographs are in host memory, so the measured time does not include disk reads. Peak memory is
the maximum resident set size of any process. The output is JSON.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from pathlib import Path

from benchmarks import photos
from benchmarks.measuring import parser_with, show, suite_command

CLASSES, PHOTOGRAPHS, QUALITY = 1000, 1000, 90


def write_images(root: Path, counts: dict[str, int]) -> None:
    """Write the photographs, and hard links to them in ImageNet's layout."""
    originals = root / "photographs"
    originals.mkdir()
    for number in range(PHOTOGRAPHS):
        (originals / f"{number}.jpg").write_bytes(
            photos.jpeg(number, photos.HEIGHT, photos.WIDTH, QUALITY)
        )
    for split, count in counts.items():
        for label in range(CLASSES):
            (root / "imagenet" / split / f"n{label:08d}").mkdir(parents=True)
        for number in range(count):
            path = (
                root
                / "imagenet"
                / split
                / f"n{number % CLASSES:08d}"
                / f"{split}_{number:08d}.JPEG"
            )
            os.link(originals / f"{number % PHOTOGRAPHS}.jpg", path)


def prepare(source: Path, destination: Path) -> dict[str, object]:
    """Return the seconds, memory, and output lines of `suite data prepare imagenet`."""
    start = time.perf_counter()
    output = suite_command("data", "prepare", "imagenet", "--from", source, "--to", destination)
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "memory_peak_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
        "printed": [line.replace(str(source.parent), "…") for line in output.splitlines()],
    }


def main() -> None:
    """Generate the files, run the benchmark, and print its results."""
    parser = parser_with(__doc__, train=1_281_167, val=50_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_images(root, {"train": args.train, "val": args.val})
        index = prepare(root / "imagenet", root / "index")
        bytes_of_index = sum(path.stat().st_size for path in (root / "index").iterdir())
    show(
        "prepare_imagenet",
        cores=len(os.sched_getaffinity(0)),
        images={"train": args.train, "val": args.val},
        index={**index, "bytes": bytes_of_index},
    )


if __name__ == "__main__":
    main()
