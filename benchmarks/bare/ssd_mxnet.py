"""An SSD-ResNet34-300 training step in plain Gluon (MXNet).

    OMP_NUM_THREADS=CORES python -m benchmarks.bare.ssd_mxnet CORES bare fp32 BATCH STEPS

The model consists of ResNet-34 up to its third stage (with stride 1), extra layers, heads, and the
loss. The model is hybridized with static memory. The optimizer is SGD. The images (300 x 300
pixels) and the targets are synthetic floats in memory. The output is JSON with images_per_second
over a block of steps. This program does not import the suite.
"""

import sys

import mxnet as mx
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

from benchmarks.bare.block import mxnet_gigaflops, print_rate

EXTRAS = ((256, 512, 2), (256, 512, 2), (128, 256, 2), (128, 256, 1), (128, 256, 1))


class SSD(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        features, self.extras, self.heads = (
            vision.resnet34_v1().features,
            nn.HybridSequential(),
            nn.HybridSequential(),
        )
        for convolution in (features[6][0].body[0], features[6][0].downsample[0]):
            convolution._kwargs["stride"] = (1, 1)
        self.trunk = features[:7]
        for between, outputs, stride in EXTRAS:
            pair = nn.HybridSequential()
            pair.add(nn.Conv2D(between, 1, activation="relu"))
            pair.add(nn.Conv2D(outputs, 3, stride, stride - 1, activation="relu"))
            self.extras.add(pair)
        for count in (4, 6, 6, 6, 4, 4):
            self.heads.add(nn.Conv2D(4 * count, 3, 1, 1), nn.Conv2D(81 * count, 3, 1, 1))

    def hybrid_forward(self, F, x):
        maps = [self.trunk(x)]
        for extra in self.extras:
            maps.append(extra(maps[-1]))
        boxes = [F.reshape(head(x), (0, 4, -1)) for head, x in zip(self.heads[::2], maps)]
        scores = [F.reshape(head(x), (0, 81, -1)) for head, x in zip(self.heads[1::2], maps)]
        return F.concat(*boxes, dim=2), F.concat(*scores, dim=2)


class Loss(nn.HybridBlock):
    def hybrid_forward(self, F, boxes, scores, wanted, labels):
        positive, entropy = labels > 0, -F.pick(F.log_softmax(scores, axis=1), labels, axis=1)
        count = F.sum(positive, axis=1, keepdims=True)
        order = F.argsort(
            F.where(positive, -F.ones_like(entropy), F.BlockGrad(entropy)), axis=1, is_ascend=False
        )
        counted = F.broadcast_lesser(F.argsort(order, axis=1), 3 * count) + positive
        of_boxes = F.sum(F.smooth_l1(boxes - wanted, scalar=1), axis=1)
        return F.mean(
            F.broadcast_div(of_boxes * positive + entropy * counted, F.maximum(count, 1)).sum(
                axis=1
            )
        )


batch, steps, model, loss_of = int(sys.argv[4]), int(sys.argv[5]), SSD(), Loss()
model.initialize(mx.init.Xavier())
model.hybridize(static_alloc=True, static_shape=True)
loss_of.hybridize(static_alloc=True, static_shape=True)
sgd = mx.gluon.Trainer(
    model.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": 0.9, "wd": 5e-4}
)
images, wanted = (
    mx.nd.random.normal(shape=(batch, 3, 300, 300)),
    mx.nd.random.normal(shape=(batch, 4, 8732)),
)
labels = mx.nd.random.randint(1, 81, (batch, 8732)).astype("float32")
labels = labels * (mx.nd.random.uniform(shape=(batch, 8732)) < 40 / 8732)


def step():
    with mx.autograd.record():
        loss = loss_of(*model(images), wanted, labels)
    loss.backward()
    sgd.step(1)
    return loss


def read(loss):
    mx.nd.waitall()
    return float(loss.asscalar())


print_rate(step, read, batch, steps, mxnet_gigaflops(model, images[:1].shape))
