"""The suite's training step of ResNet-50 or SSD on made-up batches that lie ready: what image_step.py compares with bare loops.

    python image_suite.py WORKLOAD FRAMEWORK CORES PRECISION BATCH STEPS [COMPILE]

Prints JSON: images_per_second over a block of steps, as training runs them.
"""

from __future__ import annotations

import json
import os
import sys
import time

from suite.launch.base import free_ports
from suite.registry import load_trainer
from workloads.api import Facts, Place, Settings, Workload
from workloads.resnet50.settings import SETS as RESNET_SETS
from workloads.resnet50.workload import ResNet50
from workloads.ssd.settings import SETS as SSD_SETS
from workloads.ssd.workload import SSD

KINDS = {
    "resnet50": (ResNet50, RESNET_SETS, "nvidia_v0.5_dgx1", "imagenet", (1_281_167, 50_000), 1_000),
    "ssd": (SSD, SSD_SETS, "nvidia_v0.5_dgx1", "coco2017", (117_266, 4_952), 80),
}
"""Workload to its class, sets, the chosen one, data set, training and evaluation images, classes."""


def full_size(name: str, framework: str, precision: str, batch: int, cores: int, compiled: str = "auto") -> Workload:
    """A workload of the reference's sizes on one CPU device."""
    kind, sets, chosen, dataset, images, classes = KINDS[name]
    values = {field: setting.value for field, setting in sets[chosen].items() if field != "batch_size_global"}
    settings = Settings(
        workload=name, framework=framework, profile="synthetic", rules="v0.7", clock="v0.7", device="cpu",
        devices_total=1, nodes=1, cores_per_device=cores, oversubscribe=False, precision=precision,
        batch_size_global=batch, batch_rule="set", lr_scaling="none", seed=0, stop="steps:10", mode="train",
        dataset=dataset, data_dir="", model=kind.defaults("synthetic", "v0.7").model, targets={},
        hyperparameter_set=chosen, hyperparameters=values, hyperparameter_sources={},
        options={"evaluation_batch_size": batch, "compile": compiled},
    )  # fmt: skip
    return kind(settings, Facts(*images, {"classes": classes}, "made up"))


def main() -> None:
    """Measure and print."""
    name, framework, cores, precision, batch, steps = (*sys.argv[1:5], *map(int, sys.argv[5:7]))
    variables = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(free_ports(1)[0]), "MASTER_ADDR": "127.0.0.1"}
    os.environ.update(variables)
    workload = full_size(name, framework, precision, batch, int(cores), *sys.argv[7:8])
    place = Place(0, 1, range(1), 1, ("cpu",), cores_per_device=int(cores))
    trainer = load_trainer(name, framework)(workload, place)
    trainer.setup(workload.initial_weights(1))
    data = workload.open_data(place, 1)
    trainer.train(data.train(0, 1), 0)
    begin = time.perf_counter()
    stats = trainer.train(data.train(1, 1 + steps), 1)
    rate = steps * batch / (time.perf_counter() - begin)
    print(json.dumps({"images_per_second": rate, "loss": stats.loss}))
    trainer.close()


if __name__ == "__main__":
    main()
