"""A training step of Mask R-CNN R50-FPN in plain TensorFlow.

    python -m benchmarks.bare.maskrcnn_tensorflow CORES fp32 STEPS INPUTS.npz

The step is a single tf.function. The function applies non_max_suppression to the best 2,000 boxes
of each level, samples 512 regions with random.shuffle, and pools feature maps and target masks with
crop_and_resize. This program does not import the suite.

The file INPUTS has the arrays `image` uint8 (H, W, 3) RGB, `box` (G, 4), `label` (G,), `mask` (G,
H, W), all `anchors` (A, 4) of levels that end at `level_ends`, the sampled anchors as `anchor`
(256,), `anchor_label`, `anchor_weight`, and `anchor_offset`, and the weights as `weight/NAME` with
torchvision's names.

The output is JSON with the seconds and CPU seconds per step, the maximum resident set size, the
number of regions, the number of positive regions, and the losses of the last step.
"""

import math
import sys

import numpy as np
import tensorflow as tf

from benchmarks.bare.block import print_mean

STRIDES, BLOCKS, CLASSES, PARAMETERS = (4, 8, 16, 32), (3, 4, 6, 3), 81, 44_347_573
BEST, REGIONS, POSITIVES = 2_000, 512, 128
MEANS = (102.9801, 115.9465, 122.7717)  # channel order: blue, green, red

(cores, precision, steps), inputs = sys.argv[1:4], np.load(sys.argv[4])
assert precision == "fp32", precision
tf.config.threading.set_intra_op_parallelism_threads(int(cores))
tf.config.threading.set_inter_op_parallelism_threads(1)
values = {name: inputs[name] for name in inputs.files if not name.startswith("weight/")}
image, objects, classes, drawn = (
    values["image"],
    values["box"],
    values["label"],
    values["mask"][..., None],
)
of_rpn = [
    tf.constant(values[name])
    for name in ("anchor", "anchor_label", "anchor_weight", "anchor_offset")
]
anchors = np.split(values["anchors"], values["level_ends"][:-1])
HEIGHT, WIDTH = image.shape[:2]
weights = {}
for name in inputs.files:
    short, value = (
        name[name.find("/") + 1 :].replace("backbone.", "").replace("roi_heads.", ""),
        inputs[name],
    )
    if name.startswith("weight/"):
        value = (
            value.transpose(2, 3, 1, 0) if value.ndim == 4 else value.T
        )  # a transposed convolution, whose weights have the shape (2, 2, out, in)
        weights[short] = tf.Variable(
            value, trainable=not ("bn" in short or "downsample.1" in short)
        )
learned = {name: value for name, value in weights.items() if value.trainable}
assert sum(value.shape.num_elements() for value in learned.values()) == PARAMETERS
learned = [
    value for name, value in learned.items() if not name.startswith(("body.conv1", "body.layer1."))
]
velocities = [tf.Variable(tf.zeros_like(value)) for value in learned]


def conv(x, name, stride=1):
    y = tf.nn.conv2d(x, weights[f"{name}.weight"], stride, "SAME")
    return tf.nn.bias_add(y, weights[f"{name}.bias"])


def unit(x, name, norm, stride=1):
    """Apply a convolution and a frozen batch norm to x."""
    kernel = weights[f"{name}.weight"]
    before = kernel.shape[0] // 2
    x = tf.pad(x, [[0, 0], [before] * 2, [before] * 2, [0, 0]]) if stride > 1 and before else x
    x = tf.nn.conv2d(x, kernel, stride, "SAME" if stride == 1 else "VALID")
    return x * weights[f"{norm}.weight"] + weights[f"{norm}.bias"]


def dense(x, name):
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def trunk(x):
    x = tf.pad(tf.nn.relu(unit(x, "body.conv1", "body.bn1", 2)), [[0, 0], [1, 1], [1, 1], [0, 0]])
    x, maps = tf.nn.max_pool2d(x, 3, 2, "VALID"), []
    for stage, count in enumerate(BLOCKS, 1):
        for number in range(count):
            name, stride = f"body.layer{stage}.{number}", 2 if stage > 1 and not number else 1
            shortcut = (
                x if number else unit(x, f"{name}.downsample.0", f"{name}.downsample.1", stride)
            )
            for part in (1, 2, 3):
                x = unit(x, f"{name}.conv{part}", f"{name}.bn{part}", stride if part == 1 else 1)
                x = tf.nn.relu(x if part < 3 else x + shortcut)
        maps.append(x)
    return maps


def pyramid(maps):
    inner, found = None, []
    for level in (3, 2, 1, 0):
        lateral = conv(maps[level], f"fpn.inner_blocks.{level}.0")
        inner = (
            lateral
            if inner is None
            else lateral + tf.image.resize(inner, lateral.shape[1:3], "nearest")
        )
        found.insert(0, conv(inner, f"fpn.layer_blocks.{level}.0"))
    return found


def rpn(maps):
    """Apply the RPN, and return the logits (A_l,) and deltas (A_l, 4) of each level."""
    found = []
    for x in (*maps, tf.nn.max_pool2d(maps[-1], 1, 2, "VALID")):
        x = tf.nn.relu(conv(x, "rpn.head.conv.0.0"))
        logits, deltas = conv(x, "rpn.head.cls_logits"), conv(x, "rpn.head.bbox_pred")
        found.append((tf.reshape(logits, [-1]), tf.reshape(deltas, (-1, 4))))
    return list(zip(*found))


def proposals(logits, deltas):
    scores, found = [], []
    for score, delta, anchor in zip(logits, deltas, anchors):
        score, best = tf.math.top_k(score, min(BEST, len(anchor)))
        delta, anchor = tf.gather(delta, best), tf.gather(anchor, best)
        size = anchor[:, 2:] - anchor[:, :2] + 1
        middle = anchor[:, :2] + size / 2 + delta[:, :2] * size
        half = tf.exp(tf.minimum(delta[:, 2:], math.log(1000 / 16))) * size / 2
        box = tf.concat([middle - half, middle + half - 1], 1)
        box = tf.clip_by_value(box, 0, [WIDTH - 1, HEIGHT - 1, WIDTH - 1, HEIGHT - 1])
        kept = tf.image.non_max_suppression(box + tf.constant([0.0, 0, 1, 1]), score, BEST, 0.7)
        found.append(tf.gather(box, kept)), scores.append(tf.gather(score, kept))
    scores, found = tf.concat(scores, 0), tf.concat(found, 0)
    return tf.gather(found, tf.math.top_k(scores, tf.minimum(BEST, tf.size(scores))).indices)


def sample(proposed):
    """Return sampled regions with their targets.

    Returns the regions (512, 4) with positive regions first, their labels and deltas, the number of
    positive regions, and the object index of each positive region.
    """
    box = tf.concat([proposed, objects], 0)
    low, high = (
        tf.maximum(box[:, None, :2], objects[:, :2]),
        tf.minimum(box[:, None, 2:], objects[:, 2:]),
    )
    shared = tf.reduce_prod(tf.maximum(high - low + 1, 0), 2)
    area, of_objects = (
        tf.reduce_prod(corners[:, 2:] - corners[:, :2] + 1, 1) for corners in (box, objects)
    )
    overlap = shared / (area[:, None] + of_objects - shared)
    matched, positive = tf.argmax(overlap, 1), tf.reduce_max(overlap, 1) >= 0.5
    some = tf.random.shuffle(tf.where(positive)[:, 0])[:POSITIVES]
    negative = tf.random.shuffle(tf.where(~positive)[:, 0])[: REGIONS - tf.size(some)]
    chosen, count = tf.concat([some, negative], 0), tf.size(some)
    chosen.set_shape(REGIONS)
    box, matched = tf.gather(box, chosen), tf.gather(matched, chosen)
    label = tf.where(tf.range(REGIONS) < count, tf.gather(classes, matched), 0)
    wanted, size = tf.gather(objects, matched), box[:, 2:] - box[:, :2] + 1
    of_wanted = wanted[:, 2:] - wanted[:, :2] + 1
    move = (wanted[:, :2] + of_wanted / 2 - box[:, :2] - size / 2) / size
    return (
        box,
        label,
        tf.concat([10 * move, 5 * tf.math.log(of_wanted / size)], 1),
        count,
        matched[:count],
    )


def crop(x, box, place, side):
    """Apply ROIAlign with 2 x 2 samples per bin.

    Args:
        x: Feature maps (b, h, w, C).
        box: Boxes (n, 4) in cells of the feature map.
        place: Index of each box's feature map in the batch.
        side: Height and width of the pooled maps, which are returned with the shape (n, side, side,
            C).
    """
    low = box[:, :2]
    step = tf.maximum(box[:, 2:] - low, 1) / (2 * side)
    first, last, cells = (
        low + step / 2,
        low + (2 * side - 0.5) * step,
        [x.shape[2] - 1.0, x.shape[1] - 1.0],
    )
    ends = tf.concat([(first / cells)[:, ::-1], (last / cells)[:, ::-1]], 1)
    return tf.nn.avg_pool2d(
        tf.image.crop_and_resize(x, ends, place, (2 * side, 2 * side)), 2, 2, "VALID"
    )


def pool(maps, box, side):
    ratio = tf.sqrt(tf.reduce_prod(box[:, 2:] - box[:, :2] + 1, 1)) / 224
    level = tf.clip_by_value(tf.floor(4 + tf.math.log(ratio + 1e-6) / math.log(2)), 2, 5) - 2
    places, parts = [], []
    for number, (x, stride) in enumerate(zip(maps, STRIDES)):
        here = tf.where(level == number)[:, 0]
        places.append(here)
        parts.append(crop(x, tf.gather(box, here) / stride, tf.zeros_like(here, tf.int32), side))
    return tf.gather(tf.concat(parts, 0), tf.argsort(tf.concat(places, 0)))


def masks(x, label):
    """Return the mask logits (n, 28, 28) for each region's class."""
    for number in range(4):
        x = tf.nn.relu(conv(x, f"mask_head.{number}.0"))
    up, size = "mask_predictor.conv5_mask", (tf.shape(x)[0], 28, 28, 256)
    x = tf.nn.relu(
        tf.nn.conv2d_transpose(x, weights[f"{up}.weight"], size, 2) + weights[f"{up}.bias"]
    )
    return tf.gather(
        conv(x, "mask_predictor.mask_fcn_logits"), label[:, None, None], axis=3, batch_dims=1
    )[:, :, :, 0, 0]


def smooth_l1(difference, beta):
    size = tf.abs(difference)
    return tf.reduce_sum(tf.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta), -1)


def losses(image):
    x = tf.cast(image[None, :, :, ::-1], tf.float32) - MEANS
    maps = pyramid(trunk(tf.pad(x, [[0, 0], [0, -HEIGHT % 32], [0, -WIDTH % 32], [0, 0]])))
    logits, deltas = rpn(maps)
    anchor, is_object, used, offset = of_rpn
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(
        is_object, tf.gather(tf.concat(logits, 0), anchor)
    )
    of_anchors = smooth_l1(tf.gather(tf.concat(deltas, 0), anchor) - offset, 1 / 9) * is_object
    box, label, delta, count, matched = sample(tf.stop_gradient(proposals(logits, deltas)))
    x = tf.reshape(tf.transpose(pool(maps, box, 7), (0, 3, 1, 2)), (REGIONS, -1))
    x = tf.nn.relu(dense(tf.nn.relu(dense(x, "box_head.fc6")), "box_head.fc7"))
    moves = tf.reshape(dense(x, "box_predictor.bbox_pred"), (REGIONS, CLASSES, 4))
    of_boxes = smooth_l1(tf.gather(moves, label, batch_dims=1)[:count] - delta[:count], 1)
    of_classes = tf.nn.sparse_softmax_cross_entropy_with_logits(
        label, dense(x, "box_predictor.cls_score")
    )
    target = tf.round(
        crop(tf.cast(drawn, tf.float32), box[:count], tf.cast(matched, tf.int32), 28)[..., 0]
    )
    found = masks(pool(maps, box[:count], 14), label[:count])
    return {
        "objectness": tf.reduce_sum(entropy * used) / tf.reduce_sum(used),
        "rpn_box": tf.reduce_sum(of_anchors * used) / tf.reduce_sum(used),
        "class": tf.reduce_mean(of_classes),
        "box": tf.reduce_sum(of_boxes) / REGIONS,
        "mask": tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(target, found)),
    }, count


@tf.function
def train(image):
    with tf.GradientTape() as tape:
        parts, positives = losses(image)
        loss = tf.add_n(list(parts.values()))
    for w, velocity, g in zip(learned, velocities, tape.gradient(loss, learned)):
        options = {"var": w.handle, "accum": velocity.handle, "lr": 1e-4, "momentum": 0.9}
        tf.raw_ops.ResourceApplyMomentum(grad=g + 1e-4 * w, **options)
    return parts, positives


def step():
    parts, positives = train(tf.constant(image))
    found = {name: float(value) for name, value in parts.items()}
    return {"regions": REGIONS, "positives": int(positives), "losses": found}


print_mean(step, int(steps))
