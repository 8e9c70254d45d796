"""A ResNet-50 training step in plain Gluon (MXNet).

    OMP_NUM_THREADS=CORES python -m benchmarks.bare.resnet_mxnet CORES bare|stock|stock_v2 fp32
        BATCH STEPS [PIXELS]

* bare: ResNet-50 v1.5 built from plain layers.
* stock: resnet50_v1 of the model zoo. The strides of resnet50_v1 are on the 1×1 convolutions, so
  the model needs 6 % fewer operations than v1.5.
* stock_v2: resnet50_v2 of the model zoo. The strides of resnet50_v2 are on the 3×3 convolutions, as
  in v1.5.

The models are hybridized with static memory, and the optimizer is SGD. The images are synthetic
floats in memory. They have 224 x 224 pixels unless PIXELS is given. The output is JSON with
images_per_second over a block of steps. This program does not import the suite.
"""

import sys

import mxnet as mx
from mxnet.gluon import nn

from benchmarks.bare.block import mxnet_gigaflops, print_rate


def unit(outputs, kernel, stride=1, relu=True):
    found = nn.HybridSequential()
    found.add(nn.Conv2D(outputs, kernel, stride, kernel // 2, use_bias=False), nn.BatchNorm())
    found.add(*[nn.Activation("relu")] * relu)
    return found


class Block(nn.HybridBlock):
    def __init__(self, width, stride, project):
        super().__init__()
        self.body, self.shortcut = (
            nn.HybridSequential(),
            unit(4 * width, 1, stride, relu=False) if project else None,
        )
        self.body.add(unit(width, 1), unit(width, 3, stride), unit(4 * width, 1, relu=False))

    def hybrid_forward(self, F, x):
        return F.Activation(
            self.body(x) + (self.shortcut(x) if self.shortcut else x), act_type="relu"
        )


def resnet():
    found = nn.HybridSequential()
    found.add(unit(64, 7, 2), nn.MaxPool2D(3, 2, 1))
    for stage, (count, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512))):
        found.add(
            *(Block(width, 2 if stage and not number else 1, not number) for number in range(count))
        )
    found.add(nn.GlobalAvgPool2D(), nn.Dense(1000))
    return found


kind, zoo, (batch, steps, pixels) = (
    sys.argv[2],
    mx.gluon.model_zoo.vision,
    map(int, [*sys.argv[4:], 224][:3]),
)
model = {"bare": resnet, "stock": zoo.resnet50_v1, "stock_v2": zoo.resnet50_v2}[kind]()
model.initialize(mx.init.Xavier())
model.hybridize(static_alloc=True, static_shape=True)
loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
sgd = mx.gluon.Trainer(
    model.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9, "wd": 1e-4}
)
images, labels = mx.nd.random.normal(shape=(batch, 3, pixels, pixels)), mx.nd.zeros(batch)


def step():
    with mx.autograd.record():
        loss = loss_of(model(images), labels)
    loss.backward()
    sgd.step(batch)
    return loss


def read(loss):
    mx.nd.waitall()
    return float(loss.mean().asscalar())


print_rate(step, read, batch, steps, mxnet_gigaflops(model, images[:1].shape))
