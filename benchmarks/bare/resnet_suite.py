"""The suite's ResNet-50 training step on made-up batches that lie ready: what resnet_step.py compares with bare loops.

    python resnet_suite.py FRAMEWORK CORES PRECISION STEPS [COMPILE]

Batch 32, 224 pixels. Prints JSON: images_per_second, the mean over steps, as training runs them: one block.
"""

import json
import os
import sys
import time

import numpy as np

from suite.launch.base import free_ports
from suite.registry import load_trainer
from workloads.api import Batch, Facts, Place, Settings
from workloads.resnet50.settings import REFERENCE_MODEL, SETS
from workloads.resnet50.workload import ResNet50

BATCH = 32


def main():
    framework, cores, precision, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    compiled = sys.argv[5] if len(sys.argv) > 5 else "auto"
    os.environ.update(
        {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(free_ports(1)[0]), "MASTER_ADDR": "127.0.0.1"}
    )
    values = {name: setting.value for name, setting in SETS["nvidia_v0.5_dgx1"].items() if name != "batch_size_global"}
    settings = Settings(
        workload="resnet50", framework=framework, profile="synthetic", rules="v0.7", clock="v0.7", device="cpu",
        devices_total=1, nodes=1, cores_per_device=cores, oversubscribe=False, precision=precision,
        batch_size_global=BATCH, batch_rule="set", lr_scaling="none", seed=0, stop="steps:10", mode="train",
        dataset="imagenet", data_dir="", model=REFERENCE_MODEL, targets={}, hyperparameter_set="nvidia_v0.5_dgx1",
        hyperparameters=values, hyperparameter_sources={}, options={"evaluation_batch_size": 32, "compile": compiled},
    )  # fmt: skip
    workload = ResNet50(settings, Facts(1_281_167, 50_000, {"classes": 1000}, "made up"))
    place = Place(0, 1, range(1), 1, ("cpu",), cores_per_device=cores)
    trainer = load_trainer("resnet50", framework)(workload, place)
    trainer.setup(workload.initial_weights(1))
    images = np.random.default_rng(1).integers(0, 256, (BATCH, 224, 224, 3), np.uint8)
    batch = Batch({"image": images, "label": np.zeros(BATCH, np.int32)}, BATCH, BATCH, BATCH)
    trainer.train([[batch]], 0)
    begin = time.perf_counter()
    trainer.train([[batch] for _ in range(steps)], 1)
    print(json.dumps({"images_per_second": steps * BATCH / (time.perf_counter() - begin)}))
    trainer.close()


if __name__ == "__main__":
    main()
