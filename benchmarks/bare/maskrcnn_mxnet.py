"""A training step of Mask R-CNN R50-FPN in plain Gluon (MXNet).

    OMP_NUM_THREADS=CORES python -m benchmarks.bare.maskrcnn_mxnet CORES fp32 STEPS INPUTS.npz

The model has two hybrid blocks. Between the two blocks, contrib.box_nms filters the best 2,000
boxes of each level, NumPy samples 512 regions, and contrib.ROIAlign pools feature maps and target
masks. The file maskrcnn_tensorflow.py describes INPUTS and the output. This program does not import
the suite.
"""

import math
import sys

import mxnet as mx
import numpy as np

from benchmarks.bare.block import print_mean

STRIDES, BLOCKS, CLASSES, PARAMETERS = (4, 8, 16, 32), (3, 4, 6, 3), 81, 44_347_573
BEST, REGIONS, POSITIVES = 2_000, 512, 128
MEANS = (102.9801, 115.9465, 122.7717)  # channel order: blue, green, red

_, precision, steps, path = sys.argv[1:]
assert precision == "fp32", precision
inputs = np.load(path)
values = {name: inputs[name] for name in inputs.files if not name.startswith("weight/")}
image, objects, classes, drawn = (values[name] for name in ("image", "box", "label", "mask"))
of_rpn = [
    mx.nd.array(values[name])
    for name in ("anchor", "anchor_label", "anchor_weight", "anchor_offset")
]
anchors = [mx.nd.array(level) for level in np.split(values["anchors"], values["level_ends"][:-1])]
drawn = mx.nd.array(drawn[:, None])
HEIGHT, WIDTH = image.shape[:2]
FROZEN = ("body_conv1_", "body_layer1_")


class Part(mx.gluon.HybridBlock):
    """A hybrid block with the weights whose names begin with any of `beginnings`.

    The names of the block's parameters have underscores instead of dots.
    """

    def __init__(self, *beginnings):
        super().__init__()
        for name in inputs.files:
            short = (
                name[name.find("/") + 1 :]
                .replace("backbone.", "")
                .replace("roi_heads.", "")
                .replace(".", "_")
            )
            if name.startswith("weight/") and short.startswith(beginnings):
                norm = "bn" in short or "downsample_1" in short
                self.add(short, inputs[name], fixed=norm or short.startswith(FROZEN))
                if norm and short.endswith("bias"):
                    for kind, value in (("mean", 0), ("var", 1)):
                        self.add(
                            short.replace("bias", kind),
                            np.full(inputs[name].shape, value),
                            fixed=True,
                        )

    def add(self, name, value, fixed):
        options = {
            "grad_req": "null" if fixed else "write",
            "differentiable": not name.endswith(("mean", "var")),
        }
        setattr(self, name, self.params.get(name, shape=value.shape, **options))
        getattr(self, name).initialize(mx.init.Zero())
        getattr(self, name).set_data(mx.nd.array(value))

    def conv(self, F, x, name, size, outputs, stride=1, bias=True):
        arrays = [self.now[f"{name}_{kind}"] for kind in ("weight", "bias")[: 1 + bias]]
        options = {
            "kernel": (size, size),
            "stride": (stride, stride),
            "pad": (size // 2, size // 2),
        }
        return F.Convolution(x, *arrays, num_filter=outputs, no_bias=not bias, **options)


class First(Part):
    """First hybrid block: trunk, feature pyramid, and RPN.

    Returns the feature maps, and for each level the logits (1, A_l) and deltas (1, A_l, 4).
    """

    def unit(self, F, x, name, norm, size, outputs, stride=1, relu=True):
        x = self.conv(F, x, name, size, outputs, stride, bias=False)
        arrays = [self.now[f"{norm}_{kind}"] for kind in ("weight", "bias", "mean", "var")]
        x = F.BatchNorm(x, *arrays, fix_gamma=False, use_global_stats=True, eps=1e-5)
        return F.Activation(x, act_type="relu") if relu else x

    def trunk(self, F, x):
        x = self.unit(F, x, "body_conv1", "body_bn1", 7, 64, 2)
        x, maps = F.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max"), []
        for stage, count in enumerate(BLOCKS, 1):
            width = 32 << stage
            for number in range(count):
                name, stride, y = (
                    f"body_layer{stage}_{number}",
                    2 if stage > 1 and not number else 1,
                    x,
                )
                for part, (size, outputs) in enumerate(((1, width), (3, width), (1, 4 * width)), 1):
                    options = (size, outputs, stride if part == 1 else 1, part < 3)
                    y = self.unit(F, y, f"{name}_conv{part}", f"{name}_bn{part}", *options)
                if not number:
                    names = (f"{name}_downsample_0", f"{name}_downsample_1")
                    x = self.unit(F, x, *names, 1, 4 * width, stride, relu=False)
                x = F.Activation(x + y, act_type="relu")
            x = F.BlockGrad(x) if stage == 1 else x
            maps.append(x)
        return maps

    def hybrid_forward(self, F, x, **weights):
        self.now = weights
        stages, inner, maps = self.trunk(F, x), None, []
        for level in (3, 2, 1, 0):
            lateral = self.conv(F, stages[level], f"fpn_inner_blocks_{level}_0", 1, 256)
            inner = (
                lateral
                if inner is None
                else lateral + F.UpSampling(inner, scale=2, sample_type="nearest")
            )
            maps.insert(0, self.conv(F, inner, f"fpn_layer_blocks_{level}_0", 3, 256))
        logits, deltas = [], []
        for x in (*maps, F.Pooling(maps[-1], kernel=(1, 1), stride=(2, 2), pool_type="max")):
            x = F.Activation(self.conv(F, x, "rpn_head_conv_0_0", 3, 256), act_type="relu")
            of_level = F.transpose(self.conv(F, x, "rpn_head_cls_logits", 1, 3), (0, 2, 3, 1))
            logits.append(F.reshape(of_level, (0, -1)))
            of_level = F.transpose(self.conv(F, x, "rpn_head_bbox_pred", 1, 12), (0, 2, 3, 1))
            deltas.append(F.reshape(of_level, (0, -1, 4)))
        return (*maps, *logits, *deltas)


class Second(Part):
    """Second hybrid block: box head and mask head, applied to pooled feature maps.

    Returns class logits, deltas of each class, and mask logits for the classes in `label`.
    """

    def dense(self, F, x, name, outputs):
        return F.FullyConnected(
            x, *(self.now[f"{name}_{kind}"] for kind in ("weight", "bias")), num_hidden=outputs
        )

    def hybrid_forward(self, F, boxes, x, label, **weights):
        self.now = weights
        for name in ("box_head_fc6", "box_head_fc7"):
            boxes = F.Activation(self.dense(F, boxes, name, 1024), act_type="relu")
        logits = self.dense(F, boxes, "box_predictor_cls_score", CLASSES)
        deltas = F.reshape(self.dense(F, boxes, "box_predictor_bbox_pred", 4 * CLASSES), (0, -1, 4))
        for number in range(4):
            x = F.Activation(self.conv(F, x, f"mask_head_{number}_0", 3, 256), act_type="relu")
        arrays = (weights[f"mask_predictor_conv5_mask_{kind}"] for kind in ("weight", "bias"))
        x = F.Deconvolution(x, *arrays, kernel=(2, 2), stride=(2, 2), num_filter=256, no_bias=False)
        x = self.conv(
            F, F.Activation(x, act_type="relu"), "mask_predictor_mask_fcn_logits", 1, CLASSES
        )
        return (
            logits,
            deltas,
            F.pick(
                F.reshape(x, (0, 0, -1)),
                F.broadcast_axis(F.reshape(label, (-1, 1)), axis=1, size=28 * 28),
                axis=1,
            ),
        )


def proposals(logits, deltas):
    scores, found = [], []
    for score, delta, anchor in zip(logits, deltas, anchors):
        best = mx.nd.topk(score[0], k=min(BEST, len(anchor)), dtype="int32")
        score, delta, anchor = (
            mx.nd.take(score[0], best),
            mx.nd.take(delta[0], best),
            mx.nd.take(anchor, best),
        )
        size = anchor[:, 2:] - anchor[:, :2] + 1
        middle = anchor[:, :2] + size / 2 + delta[:, :2] * size
        half = mx.nd.exp(mx.nd.minimum(delta[:, 2:], math.log(1000 / 16))) * size / 2
        low, high = mx.nd.maximum(middle - half, 0), middle + half - 1
        box = mx.nd.concat(low, high, dim=1)
        box = mx.nd.broadcast_minimum(box, mx.nd.array([[WIDTH - 1, HEIGHT - 1] * 2]))
        rows = mx.nd.concat(score.reshape((-1, 1)), box[:, :2], box[:, 2:] + 1, dim=1)
        options = {"overlap_thresh": 0.7, "valid_thresh": -1e9, "score_index": 0, "coord_start": 1}
        kept = mx.nd.contrib.box_nms(rows, **options).asnumpy()
        kept = kept[kept[:, 3] > 0]
        scores.append(kept[:, 0]), found.append(kept[:, 1:] - np.array([0, 0, 1, 1], np.float32))
    return np.concatenate(found)[np.argsort(-np.concatenate(scores))[:BEST]]


def sample(proposed):
    """Return sampled regions with their targets.

    Returns the regions (512, 4) with positive regions first, their labels and deltas, the number of
    positive regions, and the object index of each positive region.
    """
    box = np.concatenate([proposed, objects])
    low, high = (
        np.maximum(box[:, None, :2], objects[:, :2]),
        np.minimum(box[:, None, 2:], objects[:, 2:]),
    )
    shared = np.maximum(high - low + 1, 0).prod(2)
    area, of_objects = ((corners[:, 2:] - corners[:, :2] + 1).prod(1) for corners in (box, objects))
    overlap = shared / (area[:, None] + of_objects - shared)
    matched, positive = overlap.argmax(1), overlap.max(1) >= 0.5
    some = np.random.permutation(np.flatnonzero(positive))[:POSITIVES]
    negative = np.random.permutation(np.flatnonzero(~positive))[: REGIONS - len(some)]
    chosen, count = np.concatenate([some, negative]), len(some)
    box, matched = box[chosen], matched[chosen]
    label = np.where(np.arange(REGIONS) < count, classes[matched], 0)
    wanted, size = objects[matched], box[:, 2:] - box[:, :2] + 1
    of_wanted = wanted[:, 2:] - wanted[:, :2] + 1
    move = (wanted[:, :2] + of_wanted / 2 - box[:, :2] - size / 2) / size
    return (
        box,
        label,
        np.concatenate([10 * move, 5 * np.log(of_wanted / size)], 1),
        count,
        matched[:count],
    )


def pool(maps, box, side):
    level = (
        np.clip(
            np.floor(4 + np.log2(np.sqrt((box[:, 2:] - box[:, :2] + 1).prod(1)) / 224 + 1e-6)), 2, 5
        )
        - 2
    )
    rows, parts = np.concatenate([np.zeros((len(box), 1)), box], 1), []
    options = {"pooled_size": (side, side), "sample_ratio": 2}
    for number, (x, stride) in enumerate(zip(maps, STRIDES)):
        if (level == number).any():
            of_level = mx.nd.array(rows[level == number])
            parts.append(mx.nd.contrib.ROIAlign(x, of_level, spatial_scale=1 / stride, **options))
    return mx.nd.take(
        mx.nd.concat(*parts, dim=0), mx.nd.array(np.argsort(np.argsort(level, kind="stable")))
    )


def entropy(logits, wanted):
    return mx.nd.Activation(logits, act_type="softrelu") - logits * wanted


def smooth_l1(difference, root):
    return mx.nd.sum(mx.nd.smooth_l1(difference, scalar=root), axis=1)


def losses(image):
    x = image.astype(np.float32)[None, :, :, ::-1] - np.float32(MEANS)
    x = np.pad(x.transpose(0, 3, 1, 2), [(0, 0), (0, 0), (0, -HEIGHT % 32), (0, -WIDTH % 32)])
    found = first(mx.nd.array(x))
    maps, logits, deltas = found[:4], found[4:9], found[9:]
    anchor, is_object, used, offset = of_rpn
    of_anchors = entropy(mx.nd.take(mx.nd.concat(*logits, dim=1)[0], anchor), is_object)
    of_moves = (
        smooth_l1(mx.nd.take(mx.nd.concat(*deltas, dim=1)[0], anchor) - offset, 3) * is_object
    )
    with mx.autograd.pause():
        box, label, delta, count, matched = sample(proposals(logits, deltas))
        rows = mx.nd.array(np.concatenate([matched[:, None], box[:count]], 1))
        options = {"pooled_size": (28, 28), "spatial_scale": 1.0, "sample_ratio": 2}
        target = mx.nd.round(mx.nd.contrib.ROIAlign(drawn, rows, **options)).reshape((0, -1))
    label, of_masks = mx.nd.array(label), mx.nd.array(label[:count])
    logits, moves, masks = second(pool(maps, box, 7), pool(maps, box[:count], 14), of_masks)
    moves = mx.nd.pick(moves, mx.nd.broadcast_to(label.reshape((-1, 1)), (REGIONS, 4)), axis=1)
    of_classes = -mx.nd.pick(mx.nd.log_softmax(logits), label)
    of_boxes = smooth_l1(moves[:count] - mx.nd.array(delta[:count]), 1)
    return {
        "objectness": mx.nd.sum(of_anchors * used) / mx.nd.sum(used),
        "rpn_box": mx.nd.sum(of_moves * used) / mx.nd.sum(used),
        "class": mx.nd.mean(of_classes),
        "box": mx.nd.sum(of_boxes) / REGIONS,
        "mask": mx.nd.mean(entropy(masks, target)),
    }, count


first, second = First("body_", "fpn_", "rpn_"), Second("box_", "mask_")
parameters = first.collect_params()
parameters.update(second.collect_params())
first.hybridize(static_alloc=True, static_shape=True)
second.hybridize()
sgd = mx.gluon.Trainer(parameters, "sgd", {"learning_rate": 1e-4, "momentum": 0.9, "wd": 1e-4})
trained = [
    weight for name, weight in parameters.items() if "bn" not in name and "downsample_1" not in name
]
assert sum(int(np.prod(weight.shape)) for weight in trained) == PARAMETERS


def step():
    with mx.autograd.record():
        parts, positives = losses(image)
        loss = mx.nd.add_n(*parts.values())
    loss.backward()
    sgd.step(1)
    found = {name: float(value.asscalar()) for name, value in parts.items()}
    mx.nd.waitall()
    return {"regions": REGIONS, "positives": positives, "losses": found}


print_mean(step, int(steps))
