"""Measure the suite's training step of Mask R-CNN for maskrcnn_step.py.

    python -m benchmarks.maskrcnn_suite [--framework pytorch] [--precision fp32] [--cores 2]
        [--steps 2] [--inputs INPUTS.npz]

The model has full size, and a step processes a single image of 800×1333 pixels. The output is JSON
with the seconds and CPU seconds per step, the maximum resident set size, the number of regions, the
number of positive regions, and the loss. For PyTorch, the output also contains `parts`: the seconds
of each phase of a step. With --inputs, the script only writes the weights and inputs of the plain
loops to INPUTS.npz.
"""

from __future__ import annotations

import json
import resource
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.image_suite import full_size
from benchmarks.measuring import parser_with, trainer_of
from workloads.api import Batch, WorkerContext
from workloads.maskrcnn import anchors
from workloads.maskrcnn.regions import host
from workloads.maskrcnn.workload import MaskRCNN

HEIGHT, WIDTH = 800, 1333
RATE = 1e-4
"""Learning rate. At the reference's learning rate, training from random weights would diverge."""


def workload(framework: str, cores: int, precision: str) -> MaskRCNN:
    """Return the reference-size workload on a CPU device, with one image per batch."""
    full = full_size("maskrcnn", framework, precision, 1, cores)
    model = {**full.settings.model, "padded_shapes": [[800, 1344]]}
    values = {
        **full.settings.hyperparameters,
        "learning_rate": RATE,
        "warmup_steps": 0,
        "num_image_candidates": 2_000,
    }
    return MaskRCNN(replace(full.settings, model=model, hyperparameters=values), full.dataset_info)


def batch_of(task: MaskRCNN, worker: WorkerContext) -> Batch:
    """Return a synthetic batch with an image of 800×1333 pixels in the padded shape."""
    data = task.open_data(worker, 1)
    ((batch,),) = (next(data.train(0, 1)),)
    data.close()
    return replace(batch, arrays={**batch.arrays, "size": np.array([[HEIGHT, WIDTH]], np.int32)})


def write_inputs(task: MaskRCNN, batch: Batch, path: str) -> None:
    """Write the image, objects, sampled anchors, and weights for the plain loops.

    The weights have torchvision's names.
    """
    from pycocotools import mask as tool

    from testing.synthetic_maskrcnn import torchvision_name

    arrays = batch.arrays
    count = int(np.count_nonzero(arrays["label"][0]))
    ends = [0, *arrays["polygon_ends"].tolist()]
    polygons = [arrays["points"][first:last].reshape(-1).tolist() for first, last in pairwise(ends)]
    drawn = tool.decode(tool.frPyObjects(polygons, HEIGHT, WIDTH))
    levels = anchors.level_anchors(task.settings.model, *arrays["image"].shape[1:3])
    written: dict[str, Any] = {
        "image": arrays["image"][0, :, :WIDTH],
        "box": arrays["box"][0, :count],
        "label": arrays["label"][0, :count],
        "mask": np.ascontiguousarray(drawn.transpose(2, 0, 1)),
        "anchors": np.concatenate(levels),
        "level_ends": np.cumsum([len(level) for level in levels]),
        **{
            name: arrays[name][0]
            for name in ("anchor", "anchor_label", "anchor_weight", "anchor_offset")
        },
    }
    written |= {
        f"weight/{torchvision_name(name)}": value for name, value in task.initial_weights(1)
    }
    np.savez(path, **written)


class Clock:
    """Measures the seconds spent in each of several functions.

    The time of a nested call is included in the time of its caller.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Replace a method with a timed version that adds its seconds to `seconds[part]`."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[part] += time.perf_counter() - begin

        object.__setattr__(owner, name, timed)


def watched(trainer: Any) -> Clock:
    """Return a clock that measures the phases of a trainer's step."""
    clock = Clock()
    for owner, name, part in (
        (trainer.model, "stage_maps", "trunk"),
        (trainer.model, "pyramid", "pyramid"),
        (trainer.model, "first_half", "first_half"),
        (trainer, "proposals", "proposals"),
        (trainer, "learned", "host"),
        (trainer.model, "boxes", "box_head"),
        (trainer.model, "masks", "mask_head"),
        (trainer, "loss", "forward"),
        (trainer, "_backward", "forward_and_backward"),
        (trainer.optimizer, "step", "optimizer"),
    ):
        clock.watch(owner, name, part)
    return clock


def count_regions() -> dict[str, int]:
    """Return a dictionary with the numbers of `regions` and `positives` of a step.

    Every training step updates the returned dictionary.
    """
    found: dict[str, int] = {}
    sampled = host.sampled

    def counted(*arguments: Any, **options: Any) -> dict[str, Any]:
        sample = sampled(*arguments, **options)
        found.update(
            regions=int(sample["weight"].sum()), positives=int(np.count_nonzero(sample["label"]))
        )
        return sample

    host.sampled = counted
    return found


def parts(clock: Clock, steps: int) -> dict[str, float]:
    """Return the seconds per step of phases that do not overlap."""
    each = {name: seconds / steps for name, seconds in clock.seconds.items()}
    each["rpn_and_input"] = each.pop("first_half") - each["trunk"] - each["pyramid"]
    each["sampling_and_masks"] = each.pop("host") - each["proposals"]
    each["backward"] = each.pop("forward_and_backward") - each["forward"]
    inside = (
        "trunk",
        "pyramid",
        "rpn_and_input",
        "proposals",
        "sampling_and_masks",
        "box_head",
        "mask_head",
    )
    each["losses"] = each.pop("forward") - sum(each[name] for name in inside)
    return {name: round(seconds, 4) for name, seconds in each.items()}


def measured(trainer: Any, batch: Batch, steps: int, eager: bool) -> dict[str, Any]:
    """Measure a training step.

    If `eager` is true, the phases of the step are also timed individually.
    """
    regions, clock = count_regions(), watched(trainer) if eager else None
    wall, cpu = time.perf_counter(), time.process_time()
    stats = trainer.train([[batch]] * steps, 1)
    found = {
        "seconds": (time.perf_counter() - wall) / steps,
        "cpu_seconds": (time.process_time() - cpu) / steps,
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    timed = {"parts": parts(clock, steps)} if clock else {}
    return {**found, **timed, "peak_bytes": peak, **regions, "loss": stats.loss}


def main() -> None:
    """Write the inputs, or run the benchmark and print its results."""
    args = parser_with(
        __doc__, framework="pytorch", precision="fp32", cores=2, steps=2, inputs=""
    ).parse_args()
    worker = WorkerContext(0, 1, range(1), 1, ("cpu",), cores_per_device=args.cores)
    task = workload(args.framework, args.cores, args.precision)
    batch = batch_of(task, worker)
    if args.inputs:
        write_inputs(task, batch, args.inputs)
        print(json.dumps({"written": args.inputs}))
        return
    trainer = trainer_of(task, worker, warmup=False)
    trainer.train([[batch]], 0)
    print(json.dumps(measured(trainer, batch, args.steps, args.framework == "pytorch")))
    trainer.close()


if __name__ == "__main__":
    main()
