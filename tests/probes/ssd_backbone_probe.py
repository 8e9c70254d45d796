"""Runs in a framework's environment: an SSD trainer's state with a converted backbone."""

from suite.common.registry import load_trainer
from testing import synthetic_ssd
from tests.probes.image_trainers import place_here


def state(framework, data_dir, digest):
    """Return the state after setup.

    `digest` is the SHA-256 of the file that the backbone was converted from.
    """
    options = {
        "evaluation_batch_size": 6,
        "compile": "off",
        "backbone": {"file": "synthetic.pth", "sha256": digest},
    }
    workload = synthetic_ssd.workload(
        "steps", framework, profile="reference", data_dir=data_dir, options=options
    )
    trainer = load_trainer("ssd", framework)(workload, place_here())
    trainer.setup(workload.initial_weights(3), warmup=True)
    found = trainer.state_dict()
    trainer.close()
    return found
