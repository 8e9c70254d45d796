"""Runs in MXNet's environment: running statistics of a small ImageTrainer."""

import types

from tests.probes.image_trainers import place_here, under
from tests.workloads.frameworks.mxnet.pictures import CHANNELS, MOMENTUM, SHAPES, Pictures
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layers import ImageModel

STEM = types.SimpleNamespace(
    name="conv",
    norm="norm",
    inputs=3,
    outputs=CHANNELS,
    kernel=1,
    stride=1,
    padding=0,
    has_bias=False,
)  # 1×1, so that the NumPy reference needs no padding


class Stem(ImageModel):
    """A convolution with batch norm."""

    scale, shift = (1 / 64,) * 3, (-1.0,) * 3
    epsilon, momentum = 1e-5, MOMENTUM

    def __init__(self, half, on_cpu):
        super().__init__(
            SHAPES, {f"norm.running_{kind}": (CHANNELS,) for kind in ("mean", "var")}, half, on_cpu
        )

    def __call__(self, images):
        return self.F.mean(self.unit(self.normalised(images), STEM, relu=True), axis=(2, 3))


class PictureTrainer(ImageTrainer):
    """The methods that a workload adds."""

    inputs = ("image",)

    def build_model(self, half, on_cpu):
        return Stem(half, on_cpu)

    def loss(self, model, batch):
        return model.F.sum(model(batch["image"]))

    def outputs(self, model, batch):
        return {"mean": model(batch["image"])}


def statistics(devices, accumulation):
    """Return states after setup and after training.

    `cold/…` and `warm/…` are the states after setup without and with a warm-up. `after 5/…` and
    `after 6/…` are the states after two segments of five steps and one step.
    """
    workload = Pictures(devices, accumulation)
    trainer = PictureTrainer(workload, place_here(devices))
    weights, found = dict(workload.initial_weights(3)), {}
    for kind, warmup in (("cold", False), ("warm", True)):
        trainer.setup(weights.items(), warmup)
        found |= under(kind, trainer.state_dict())
    steps = workload.steps(range(devices))
    for first, stop in ((0, 5), (5, 6)):
        trainer.train(steps[first:stop], first)
        found |= under(f"after {stop}", trainer.state_dict())
    trainer.close()
    return found
