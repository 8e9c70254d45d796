"""Run inside TensorFlow's environment: the `uneven` case in every way that the trainer can compute it; prints JSON.

    RANK=0 WORLD_SIZE=1 python resnet_tensorflow_probe.py

`losses` of three steps, first `logits` (before them), running `variance` of the stem behind them, `traces`, by variant.
"""

import json

from tests.workloads.resnet50 import synthetic_resnet
from workloads.api import Place
from workloads.resnet50.tensorflow import ResNetTrainer

VARIANTS = {
    "fp32": ("fp32", "off"),
    "fp32 compiled": ("fp32", "on"),
    "bf16": ("bf16", "off"),
    "fp16": ("fp16", "off"),
}


def compute(precision, compiled, products=True):
    """One variant."""
    options = {"evaluation_batch_size": 6, "compile": compiled}
    workload = synthetic_resnet.workload("uneven", "tensorflow", precision=precision, options=options)
    trainer = ResNetTrainer(workload, Place(0, 1, range(1), 1, ("cpu",)))
    trainer.build()
    trainer.model.as_products = products
    trainer.setup(synthetic_resnet.weights(workload).items())
    steps = [[synthetic_resnet.batch(workload, number)] for number in range(3)]
    logits = next(trainer.predict(steps[:1]))[1]["logits"]
    losses = [trainer.train([batches], number).loss for number, batches in enumerate(steps)]
    state = trainer.state()
    trainer.close()
    return {
        "losses": losses, "logits": logits.tolist(), "traces": trainer.traces,
        "variance": state["bn1.running_var"].tolist(), "dtypes": sorted({str(value.dtype) for value in state.values()}),
    }  # fmt: skip


if __name__ == "__main__":
    found = {name: compute(*variant) for name, variant in VARIANTS.items()}
    print(json.dumps({**found, "convolutions": compute("fp32", "off", products=False)}))
