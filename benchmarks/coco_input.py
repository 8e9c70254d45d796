"""Measure the training input of the detection workloads on JPEGs of 640 x 480 pixels.

    python -m benchmarks.coco_input --python PYTHON_WITH_TORCH [--workload ssd|maskrcnn]
        [--images 256] [--rounds 9] [--seconds 2] [--quality 94]

The images have COCO-like boxes and polygons. JPEGs of quality 94 have the file size of COCO's
images. The Python at --python must have torch, torchvision, and pycocotools.

The results are images per second that a single core reads and decodes. The suite's pipeline
(`exact`, `scaled`) and torch's DataLoader with torchvision v2 are measured in alternating rounds.
The DataLoader is measured with two decoders (`pillow`, `torchvision`). The DataLoader has no worker
processes, which is its fastest setting on a single core. The output also contains images per second
of CPU time, because CPU time is less affected by concurrent load than elapsed time. The suite's
pipeline ends a round with as many prefetched batches as it had at the beginning of the round. The
output is JSON with medians and ratios of the medians.

For ssd, images are cropped as in SSD, flipped, resized to 300 x 300 pixels, color-jittered, and
matched to 8,732 priors. Both programs attempt each crop mode once before they draw another mode. In
torchvision, a crop is accepted if any box meets the overlap condition. In the suite, every box must
meet the condition.

For maskrcnn, images are flipped, resized to 800 x 1066, and padded. The suite's pipeline also
returns boxes, polygons, labels, and a sample of 217,413 anchors. The DataLoader returns boxes and
rasterized masks, without anchors. The programs `exact` and `pillow` compute the reference's pixels
exactly, and `scaled` and `torchvision` approximate the pixels. The key `anchors` of the output maps
a number of objects to the CPU milliseconds that an image with this number of objects needs for
anchor labels, sample, and offsets.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL

from benchmarks.contenders import alternate, answer_pipeline, medians, rounded
from benchmarks.measuring import parser_with, show
from benchmarks.photos import COCO_HEIGHT, COCO_WIDTH, write_coco
from workloads.api import Settings, WorkerContext
from workloads.common.coco.dataset import CocoFolders
from workloads.common.images import turbo
from workloads.common.images.counts import COCO2017
from workloads.maskrcnn import anchors
from workloads.maskrcnn.input import rpn_targets
from workloads.maskrcnn.input.data import SampleData
from workloads.maskrcnn.input.dataset_info import load_dataset_info
from workloads.maskrcnn.settings import REFERENCE_MODEL as MASKRCNN
from workloads.ssd import priors
from workloads.ssd.data import DetectionData
from workloads.ssd.settings import REFERENCE_MODEL as SSD

DECODE, LOADERS = ("exact", "scaled"), ("pillow", "torchvision")
BATCHES = {"ssd": 32, "maskrcnn": 2}
TARGET = 2.0
"""Target for the suite's images per second per core, relative to the DataLoader."""
ANCHORS_MILLISECONDS = 25.0
"""Target for the CPU milliseconds of the anchor targets of an image with 20 objects."""


def data_of(workload: str, decode: str, folder: str) -> Any:
    """Return the input pipeline of a workload on prepared images."""
    ssd = workload == "ssd"
    settings = Settings(
        workload=workload, global_batch_size=BATCHES[workload],
        devices=1, nodes=1, cores_per_device=1, data_dir=folder,
        model=SSD if ssd else MASKRCNN, hyperparameters={"max_samples": 1} if ssd else {},
        options={"decode": decode},
    )  # fmt: skip
    worker = WorkerContext(0, 1, range(1), 1, ("cpu",))
    if ssd:
        return DetectionData(settings, COCO2017.read(Path(folder)), worker, 0)
    return SampleData(settings, load_dataset_info(settings), worker, 0)


def anchor_milliseconds() -> dict[str, float]:
    """Return the CPU milliseconds of anchor targets at 800 x 1333, by number of objects.

    The CPU time includes the anchor labels, the sample, and the offsets. The minimum of five
    measurements is returned.
    """
    levels, found = anchors.levels(MASKRCNN, 800, 1344), {}
    for count in (1, 7, 20, 60):
        random = np.random.default_rng(count)
        size = np.exp(random.uniform(np.log(16), np.log(600), (count, 2)))
        corner = random.random((count, 2)) * (np.array([1332, 799]) - size)
        box = np.concatenate([corner, corner + size], axis=1).astype(np.float32)
        seconds = []
        for key in range(6):
            begin = time.thread_time()
            labels = rpn_targets.label(levels, box, 800, 1333)
            rpn_targets.sample(labels, levels, box, 256, np.uint64(key))
            seconds.append(time.thread_time() - begin)
        found[str(count)] = round(1000 * min(seconds), 2)
    return found


def measure(folder: Path, args: argparse.Namespace) -> dict[str, object]:
    """Return the results of the suite's pipeline and of the DataLoader."""
    seconds = str(args.seconds)
    mine = [
        sys.executable,
        "-m",
        "benchmarks.coco_input",
        "--workload",
        args.workload,
        "--pipeline",
    ]
    bare = [args.python, "-m", "benchmarks.bare.coco_input", args.workload]
    commands = {decode: [*mine, decode, str(folder / "prepared"), seconds] for decode in DECODE}
    commands |= {kind: [*bare, kind, str(folder), seconds] for kind in LOADERS}
    rates = alternate(commands, {min(os.sched_getaffinity(0))}, args.rounds)
    found = [medians(rates, clock) for clock in (0, 1)]
    ratios, of_cpu = (
        {
            f"{decode}_to_{kind}": round(of[decode] / of[kind], 2)
            for decode in DECODE
            for kind in LOADERS
        }
        for of in found
    )
    return {
        "images_per_second": rounded(found[0]),
        "images_per_second_of_cpu_time": rounded(found[1]),
        "rounds": {name: [round(rate[0]) for rate in rounds] for name, rounds in rates.items()},
        "ratios": ratios,
        "ratios_of_cpu_time": of_cpu,
        "target": TARGET,
        "met": {
            decode: min(ratios[f"{decode}_to_{kind}"] for kind in LOADERS) >= TARGET
            for decode in DECODE
        },
    }


def main() -> None:
    """Generate the images, run the benchmark, and print its results."""
    parser = parser_with(
        __doc__, python=sys.executable, images=256, rounds=9, seconds=2.0, quality=94
    )
    parser.add_argument("--workload", default="ssd", choices=sorted(BATCHES))
    parser.add_argument("--pipeline", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pipeline:
        decode, prepared, seconds = args.pipeline
        return answer_pipeline(data_of(args.workload, decode, prepared), float(seconds))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bytes_mean = write_coco(folder, args.images, args.quality)
        CocoFolders.name = "benchmark"
        CocoFolders().prepare(folder, folder / "prepared")
        np.save(folder / "priors.npy", np.ascontiguousarray(priors.build(SSD).centres.T))
        found = measure(folder, args)
    if args.workload == "maskrcnn":
        milliseconds = anchor_milliseconds()
        found |= {
            "anchors_ms_by_objects": milliseconds,
            "anchors_ms_target_of_20": ANCHORS_MILLISECONDS,
        }
        found["anchors_met"] = milliseconds["20"] <= ANCHORS_MILLISECONDS
    context = {
        "workload": args.workload,
        "file_bytes_mean": bytes_mean,
        "pixels": [COCO_HEIGHT, COCO_WIDTH],
    }
    context |= {
        "opencv": cv2.__version__,
        "pillow": PIL.__version__,
        "crops_while_decoding": turbo.library() is not None,
    }
    show("coco_input", 1, **context, **found)


if __name__ == "__main__":
    main()
