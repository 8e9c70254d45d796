"""Measure the cost of reading images: compare training on files and on synthetic data.

    python -m benchmarks.image_feeding [--workload resnet50] [--frameworks pytorch,tensorflow,mxnet]
        [--precisions fp32] [--batch 0] [--cores 2] [--rounds 3] [--steps 4]

The full-size models run on CPU cores, and share the cores with the input pipeline. The images are
generated JPEGs in the layout of the data set: 500 x 375 pixels for ResNet-50, 640 x 480 pixels with
boxes for SSD. In the output, `share` is the training rate with the input pipeline divided by the
training rate on synthetic batches. The ratio is computed within each round, and `share` is the
median over rounds. The target for `share` is 0.95 if the pipeline alone is faster than training. At
the end of a timed block of steps, the pipeline has as many prefetched batches as at its beginning.
The output is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks import image_step, photos
from benchmarks.measuring import in_turns
from suite.common import registry

IMAGES, CLASSES, QUALITY = 640, 10, 90
TARGET = 0.95


def prepared(workload: str, scratch: Path) -> Path:
    """Generate and prepare images for a workload, and return their folder."""
    source, name = scratch / "images", "coco2017" if workload == "ssd" else "imagenet"
    if workload == "ssd":
        photos.write_coco(source, IMAGES, QUALITY)
    else:
        photos.write_imagenet(source, IMAGES, CLASSES, CLASSES, QUALITY)
    registry.load_dataset(name).prepare(source, scratch / name)
    return scratch / name


def measure(
    args: argparse.Namespace, framework: str, precision: str, data: Path
) -> dict[str, object]:
    """Return the rates of all rounds, and the median of `share`.

    The order of the two measurements (files, synthetic data) alternates from round to round.
    """

    def run(name: str) -> dict[str, float]:
        return image_step.run(
            args, framework, precision, "suite", str(data) if name == "fed" else ""
        )

    return summary(
        **in_turns(
            ["synthetic", "fed"], args.rounds, run, "images_per_second", f"{framework} {precision}"
        )
    )


def summary(synthetic: list[dict[str, float]], fed: list[dict[str, float]]) -> dict[str, object]:
    """Return medians, and whether the target is met.

    If the pipeline alone is slower than training, the target does not apply, and None is returned
    for it.
    """
    rates = [[row["images_per_second"] for row in rounds] for rounds in (synthetic, fed)]
    pipeline = statistics.median(row["pipeline_images_per_second"] for row in fed)
    share = statistics.median(
        row / synthetic_rate for synthetic_rate, row in zip(*rates, strict=True)
    )
    training = statistics.median(rates[0])
    return {
        "synthetic_images_per_second": round(training, 2),
        "fed_images_per_second": round(statistics.median(rates[1]), 2),
        "pipeline_alone_images_per_second": round(pipeline, 1),
        "rounds": {
            name: [round(rate, 2) for rate in of]
            for name, of in zip(("synthetic", "fed"), rates, strict=True)
        },
        "data_wait_share": round(statistics.median(row["data_wait_share"] for row in fed), 4),
        "share": round(share, 3),
        "met": share >= TARGET if pipeline > training else None,
    }


def main() -> None:
    """Run the benchmark and print its results."""
    args = image_step.options(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        data = prepared(args.workload, Path(scratch))

        def measured(framework: str, precision: str) -> object:
            return measure(args, framework, precision, data)

        image_step.show_all("image_feeding", args, measured, images="synthetic", target=TARGET)


if __name__ == "__main__":
    main()
