"""Stage `fed`: compare steps that read the input pipeline with steps on ready batches.

    python -m benchmarks.gpu.fed RUN_FOLDER

The stage measures NCF or SSD. RUN_FOLDER is the folder of a run of stage `fast`, whose settings are
used. The output contains samples per second of the input pipeline alone, of steps that read from
the pipeline, and of steps on ready batches. For NCF, the positives are synthetic and have ML-20M's
counts. Negatives are sampled as in a run. For NCF, an evaluation of all users is also measured. For
SSD, the images are synthetic and have COCO's image size and file size. The images are read,
decoded, cropped, and matched as in a run.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.runs import ready, runs_from_command_line
from benchmarks.photos import write_coco
from suite.common.registry import load_workload
from suite.common.runspec import RunSpec
from workloads.api import DatasetInfo
from workloads.common.coco.dataset import CocoFolders

STEPS, AHEAD = 20, 5
IMAGES, QUALITY = 256, 94
"""Number of images, and the JPEG quality at which the files have COCO's file size."""


def write_positives(folder: Path, facts: DatasetInfo) -> None:
    """Write the arrays of a prepared MovieLens data set with the counts in `facts`."""
    random, users, items = np.random.default_rng(1), facts.sizes["users"], facts.sizes["items"]
    np.save(
        folder / "train_user.npy", np.sort(random.integers(0, users, facts.train_samples, np.int32))
    )
    np.save(folder / "train_item.npy", random.integers(0, items, facts.train_samples, np.int32))
    np.save(folder / "test_item.npy", random.integers(0, items, users, np.int32))


def on_real_input(run: RunSpec, folder: Path) -> Any:
    """Return the workload of a run, changed to read generated data in `folder`.

    The run in the run folder was trained on synthetic batches.
    """
    kind, settings = load_workload(run.settings.workload), run.settings
    if settings.workload == "ncf":
        write_positives(folder, run.dataset_info)
        return kind(
            dataclasses.replace(settings, profile="reference", data_dir=str(folder)),
            run.dataset_info,
        )
    write_coco(folder, IMAGES, QUALITY)
    CocoFolders.name = "photographs"
    CocoFolders().prepare(folder, folder / "prepared")
    settings = dataclasses.replace(settings, profile="reference", data_dir=str(folder / "prepared"))
    return kind(settings, kind.load_dataset_info(settings))


def measured(run: RunSpec, folder: Path) -> dict[str, float]:
    """Return the samples per second, and for NCF also the seconds of an evaluation."""
    workload = on_real_input(run, folder)
    with ready(run, workload) as (trainer, data, items):

        def rate(work: Callable[[], object]) -> float:
            begin = time.perf_counter()
            work()
            trainer.synchronize()
            return round(STEPS * run.settings.global_batch_size / (time.perf_counter() - begin), 1)

        some = list(itertools.islice(items, AHEAD))
        trainer.train(some, 0)
        again = list(itertools.islice(itertools.cycle(some), STEPS))
        found = {"ready": rate(lambda: trainer.train(again, AHEAD))}
        found["input"] = rate(lambda: list(itertools.islice(items, STEPS)))
        found["fed"] = rate(lambda: trainer.train(itertools.islice(items, STEPS), AHEAD))
        if run.settings.workload == "ncf":
            begin = time.perf_counter()
            for batch, outputs in trainer.predict(data.evaluation()):
                workload.eval_batch_metrics(batch, outputs)
            found["evaluation_seconds"] = round(time.perf_counter() - begin, 2)
    return found


if __name__ == "__main__":
    for _, planned in runs_from_command_line(__doc__):
        with tempfile.TemporaryDirectory() as name:
            print(json.dumps(measured(planned, Path(name))))
