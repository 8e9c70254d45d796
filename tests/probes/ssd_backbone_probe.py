"""Run inside a framework's environment: an SSD trainer's state after setup from a converted backbone, as .npz.

python ssd_backbone_probe.py FRAMEWORK DATA_DIR SHA256 OUT.npz
"""

import importlib
import sys

import numpy as np

from tests.workloads.ssd import synthetic_ssd
from workloads.api import Place


def main():
    framework, data_dir, digest, out = sys.argv[1:5]
    options = {"evaluation_batch_size": 6, "compile": "off", "backbone": {"file": "made-up.pth", "sha256": digest}}
    workload = synthetic_ssd.workload("steps", framework, profile="reference", data_dir=data_dir, options=options)
    trainer = importlib.import_module(f"workloads.ssd.{framework}").SSDTrainer(
        workload, Place(0, 1, range(1), 1, ("cpu",))
    )
    trainer.setup(workload.initial_weights(3), warm_up=True)
    np.savez(out, **trainer.state())
    trainer.close()


if __name__ == "__main__":
    main()
