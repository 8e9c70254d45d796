"""Measure the suite's full-size training step of an image workload.

    python -m benchmarks.image_suite [--workload resnet50] [--framework pytorch] [--precision fp32]
        [--batch 32] [--cores 2] [--steps 4] [--data PREPARED] [--implementation suite]
        [--pixels 0]

The benchmarks image_step.py and image_feeding.py start this script. The workloads are resnet50,
ssd, and networks of the zoo workload, such as `zoo:vgg16`. For a network of the zoo workload,
`--implementation` selects the `suite` or the `stock` implementation. `--pixels` is the height and
width of an image (not for SSD). `--pixels 0` selects the reference's size.

The batches are synthetic, or come from the input pipeline if --data is given. The output is JSON:
* images_per_second: rate over a block of training steps.
* images_per_cpu_second: images per second of CPU time, which concurrent load on the machine affects
  less than elapsed time.
* data_wait_share: share of the time in which training waited for a batch.
* pipeline_images_per_second: with --data, the rate of the pipeline alone, measured before training
  starts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.measuring import parser_with, trainer_of
from suite.catalog.rounds import get_round
from suite.catalog.sets import named_sets
from testing import synthetic
from workloads.api import Batch, DatasetInfo, Json, WorkerContext, Workload
from workloads.common.networks.layer_lists import multiply_adds
from workloads.maskrcnn.workload import MaskRCNN
from workloads.resnet50.workload import ResNet50
from workloads.ssd.workload import SSD
from workloads.zoo.workload import Zoo

KINDS: Mapping[str, tuple[type[Workload], str, str, tuple[int, int], dict[str, int]]] = {
    "resnet50": (ResNet50, "reference", "imagenet", (1_281_167, 50_000), {"classes": 1_000}),
    "zoo": (Zoo, "sgd", "imagenet", (1_281_167, 50_000), {"classes": 1_000}),
    "ssd": (SSD, "nvidia_v0.5_dgx1", "coco2017", (117_266, 4_952), {"classes": 80}),
    "maskrcnn": (
        MaskRCNN,
        "reference",
        "coco2017",
        (117_266, 5_000),
        {"classes": 80, "objects_per_image_most": 93},
    ),
}
"""Maps a workload to its settings.

The settings are the workload class, the hyperparameter set, the data set, the numbers of training
and evaluation images, and additional sizes of the data set (such as the number of classes).
"""
ZOO_RATE = 1e-6
"""Learning rate for networks of the zoo.

At the hyperparameter set's learning rate, the loss of networks without batch norm soon becomes NaN
on random images.
"""
PIPELINE_IMAGES = 512
"""Number of images on which the rate of the pipeline is measured.

Before the measurement, the pipeline reads 10 % of this number of images as a warm-up.
"""


def full_size(
    workload: str, framework: str, precision: str, batch: int, cores: int,
    data: str = "", implementation: str = "suite", pixels: int = 0,
) -> Workload:  # fmt: skip
    """Return a workload of the reference's size on a CPU device.

    The data set's counts are read from the prepared data if `data` is given. Otherwise, they are
    the published counts.
    """
    name, _, model = workload.partition(":")
    kind, chosen, dataset, images, sizes = KINDS[name]
    options: dict[str, Json] = {"model": model, "implementation": implementation} if model else {}
    options |= {"image_size": pixels} if pixels else {}
    values = named_sets(kind)[chosen].plain
    values |= {"learning_rate": ZOO_RATE} if name == "zoo" else {}
    model_parameters = kind.defaults("synthetic", get_round("v0.7", kind), options).model
    settings = synthetic.settings(
        name, framework=framework, profile="synthetic", cores_per_device=cores, precision=precision,
        global_batch_size=batch, stop="steps:10", dataset=dataset, data_dir=data,
        model=model_parameters, hyperparameter_set=chosen, hyperparameters=values,
        options={"evaluation_batch_size": batch, "compile": "auto", **options},
    )  # fmt: skip
    if data:
        settings = replace(settings, profile="reference")
        return kind(settings, kind.load_dataset_info(settings))
    return kind(settings, DatasetInfo(*images, sizes, "synthetic"))


class Watched:
    """Iterator over batches that measures the time spent waiting for batches."""

    def __init__(self, batches: Iterator[list[Batch]]) -> None:
        self.batches, self.seconds = batches, 0.0

    def __iter__(self) -> Iterator[list[Batch]]:
        return self

    def __next__(self) -> list[Batch]:
        begin = time.perf_counter()
        try:
            return next(self.batches)
        finally:
            self.seconds += time.perf_counter() - begin


def pipeline_rate(workload: Workload, worker: WorkerContext, batch: int) -> float:
    """Return the images per second of the input pipeline without concurrent training."""
    data = workload.open_data(worker, 2)
    skipped = max(4, PIPELINE_IMAGES // 10 // batch)
    steps = -(-PIPELINE_IMAGES // batch)
    batches = data.train(0, 1 << 40)
    for _ in range(skipped):
        next(batches)
    begin = time.perf_counter()
    for _ in range(steps):
        next(batches)
    rate = steps * batch / (time.perf_counter() - begin)
    data.close()
    return rate


def main() -> None:
    """Run the benchmark and print its results."""
    args = parser_with(
        __doc__, workload="resnet50", framework="pytorch", precision="fp32",
        batch=32, cores=2, steps=4, data="", implementation="suite", pixels=0,
    ).parse_args()  # fmt: skip
    batch, steps, cores = args.batch, args.steps, args.cores
    network = args.data, args.implementation, args.pixels
    workload = full_size(args.workload, args.framework, args.precision, batch, cores, *network)
    worker = WorkerContext(0, 1, range(1), 1, ("cpu",), cores_per_device=cores)
    found = (
        {"pipeline_images_per_second": pipeline_rate(workload, worker, batch)}
        if workload.settings.data_dir
        else {}
    )
    trainer = trainer_of(workload, worker)
    data = workload.open_data(worker, 1)
    batches = data.train(0, 1 << 40)
    trainer.train([next(batches)], 0)
    watched = Watched(next(batches) for _ in range(steps))
    begin, cpu = time.perf_counter(), time.process_time()
    stats = trainer.train(watched, 1)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    found |= {
        "images_per_second": steps * batch / seconds,
        "images_per_cpu_second": steps * batch / cpu,
    }
    found["data_wait_share"] = watched.seconds / seconds
    if isinstance(workload, Zoo):
        found["gigaflops_per_image"] = round(2e-9 * multiply_adds(workload.network), 3)
    print(json.dumps({**found, "loss": stats.loss}))
    data.close()
    trainer.close()


if __name__ == "__main__":
    main()
