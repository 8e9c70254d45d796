"""Measure the image pipeline on JPEGs of 500 x 375 pixels with training augmentation.

    python -m benchmarks.image_pipeline [--python PYTHON_WITH_TORCH] [--images 512] [--rounds 9]
        [--quality 90]

The output is JSON with images per second on one core and on two cores, for the suite's pipeline
(`exact`, `scaled`) and for these programs:
* `turbo`: a bare loop that decodes every whole file with libjpeg-turbo.
* `eighth`: a bare loop that decodes every image at 1/8 of its size. The time is little more than
  that of entropy decoding, and about the limit of scaled decoding.
* `pillow`, `torchvision`: a DataLoader with torchvision v2 and the named decoder (only with
  --python).

All programs are processes that wait for their turn, so that their rounds alternate. The output
contains the medians over rounds, and ratios of the medians. On a single core, all threads and
processes of a program are pinned to this core, and the DataLoader has no worker processes, which is
its fastest setting. The output also contains images per second of CPU time, because CPU time is
less affected by concurrent load than elapsed time.

On two cores, `turbo` runs two independent processes. `limit_two_cores` is the sum of their rates,
relative to the rate on a single core. The ratio is below two if the two cores share a clock,
caches, or a host. On two cores, the DataLoader has two worker processes and begins each round with
full queues, which is an advantage over the suite's pipeline. The suite's pipeline ends each round
with as many prefetched batches as it had at the beginning of the round.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import cv2

from benchmarks.contenders import Rates, alternate, answer_pipeline, medians, rounded
from benchmarks.measuring import parser_with, show
from benchmarks.photos import HEIGHT, WIDTH, write_imagenet
from workloads.api import Settings, WorkerContext
from workloads.common.images import turbo
from workloads.common.images.batches.labelled import ImageNetData
from workloads.common.images.counts import IMAGENET
from workloads.resnet50.dataset import ImageFolders

BATCH = 128
LOADERS = ("pillow", "torchvision")
BARE = ("turbo", "eighth")
DECODES = ("exact", "scaled")
TARGETS = {
    "exact_to_turbo": 0.9,
    "scaled_to_turbo": 1.3,
    "exact_to_loader": 1.0,
    "scaled_to_loader": 1.5,
    "two_cores": 1.8,
}


def pipeline(decode: str, folder: str, seconds: float) -> None:
    """Measure a round of the suite's input pipeline for each line on stdin."""
    model = {"image_size": 224, "resize_size": 256, "area_minimum": 0.05}
    settings = Settings(
        workload="resnet50", global_batch_size=BATCH,
        devices=1, nodes=1, cores_per_device=1, data_dir=folder, model=model,
        options={"decode": decode},
    )  # fmt: skip
    answer_pipeline(
        ImageNetData(
            settings, IMAGENET.read(Path(folder)), WorkerContext(0, 1, range(1), 1, ("cpu",)), 0
        ),
        seconds,
    )


def commands(
    folder: Path, prepared: Path, seconds: float, python: str, cores: int
) -> dict[str, list[str]]:
    """Map the name of every measured program to its command."""
    listing, bare = folder / "files.txt", ("-m", "benchmarks.bare.image_loader")
    mine = [sys.executable, "-m", "benchmarks.image_pipeline", "--pipeline"]
    found = {decode: [*mine, decode, str(prepared), str(seconds)] for decode in DECODES}
    found |= {
        kind: [sys.executable, *bare, kind, str(listing), str(seconds), str(cores)] for kind in BARE
    }
    if python:
        workers = "0" if cores == 1 else str(cores)
        found |= {
            kind: [python, *bare, kind, str(listing), str(seconds), workers] for kind in LOADERS
        }
    return found


def measure(cores: set[int], folder: Path, prepared: Path, args: argparse.Namespace) -> Rates:
    """Return the rates of all programs on the given cores in alternating rounds.

    `eighth` is not measured on two cores.
    """
    chosen = commands(folder, prepared, args.seconds, args.python, len(cores))
    if len(cores) > 1:
        del chosen["eighth"]
    return alternate(chosen, cores, args.rounds, LOADERS if len(cores) > 1 else ())


def ratios_of(single: dict[str, float], double: dict[str, float]) -> dict[str, float]:
    """Return the ratios of medians on one core and, if measured, on two cores."""
    ratios = {f"{name}_to_turbo": single[name] / single["turbo"] for name in DECODES}
    ratios["limit_eighth_to_turbo"] = single["eighth"] / single["turbo"]
    for where, found in (("", single), ("_on_two_cores", double)):
        if "pillow" in found:
            fastest = max(found["pillow"], found["torchvision"])
            ratios |= {f"{name}_to_loader{where}": found[name] / fastest for name in DECODES}
    if double:
        ratios |= {f"{name}_two_cores": double[name] / single[name] for name in DECODES}
        ratios["limit_two_cores"] = double["turbo"] / single["turbo"]
    return {name: round(value, 3) for name, value in ratios.items()}


def report(rates: dict[str, Rates], bytes_mean: int) -> dict[str, object]:
    """Return all results with their targets."""
    single, double = (medians(rates.get(where, {}), 0) for where in ("one_core", "two_cores"))
    cpu, cpu_two = (medians(rates.get(where, {}), 1) for where in ("one_core", "two_cores"))
    cpu_two = {name: rate for name, rate in cpu_two.items() if name not in LOADERS}
    ratios = ratios_of(single, double)
    chosen = [name for name in ratios if "on_two" not in name and "limit" not in name]
    targets = {
        name: next(value for end, value in TARGETS.items() if end in name) for name in chosen
    }
    return {
        "file_bytes_mean": bytes_mean,
        "pixels": [HEIGHT, WIDTH],
        "opencv": cv2.__version__,
        "simplejpeg": version("simplejpeg"),
        "crops_while_decoding": turbo.library() is not None,
        "images_per_second": {"one_core": rounded(single), "two_cores": rounded(double)},
        "images_per_second_of_cpu_time": {"one_core": rounded(cpu), "two_cores": rounded(cpu_two)},
        "rounds": {
            w: {n: [round(r[0]) for r in rounds] for n, rounds in found.items()}
            for w, found in rates.items()
        },
        "ratios": ratios,
        "ratios_of_cpu_time": ratios_of(cpu, {}),
        "targets": targets,
        "met": {name: ratios[name] >= target for name, target in targets.items()},
    }


def main() -> None:
    """Generate the images, measure on one core and on two cores, and print the results."""
    parser = parser_with(__doc__, python="", images=512, rounds=9, seconds=1.0, quality=90)
    parser.add_argument("--pipeline", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pipeline:
        return pipeline(args.pipeline[0], args.pipeline[1], float(args.pipeline[2]))
    available = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bytes_mean = write_imagenet(folder / "images", args.images, 1, 1, args.quality)
        files = sorted(map(str, (folder / "images/train").rglob("*.JPEG")))
        (folder / "files.txt").write_text("\n".join(files))
        ImageFolders.name = "benchmark"
        ImageFolders().prepare(folder / "images", folder / "prepared")
        rates = {"one_core": measure({available[0]}, folder, folder / "prepared", args)}
        if len(available) > 1:
            rates["two_cores"] = measure(set(available[:2]), folder, folder / "prepared", args)
    show("image_pipeline", **report(rates, bytes_mean))


if __name__ == "__main__":
    main()
