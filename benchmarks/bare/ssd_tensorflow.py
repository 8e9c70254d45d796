"""An SSD-ResNet34-300 training step in plain TensorFlow.

    python -m benchmarks.bare.ssd_tensorflow CORES bare fp32|bf16 BATCH STEPS

The step is a single tf.function of plain operators: ResNet-34 up to its third stage (with stride
1), extra layers, heads, the loss, and SGD. The images (300 x 300 pixels) and the targets are
synthetic floats in memory. The output is JSON with images_per_second over a block of steps. This
program does not import the suite.
"""

import sys

import tensorflow as tf

from benchmarks.bare.block import print_rate, tensorflow_gigaflops

(cores, _, precision), (batch, steps), weights, nn = (
    sys.argv[1:4],
    map(int, sys.argv[4:]),
    [],
    tf.nn,
)
narrow = tf.bfloat16 if precision == "bf16" else tf.float32
tf.config.threading.set_intra_op_parallelism_threads(int(cores))
tf.config.threading.set_inter_op_parallelism_threads(1)


def layer(inputs, outputs, size, stride=1, padding=None, norm=False):
    kernel = tf.Variable(tf.random.normal((size, size, inputs, outputs), 0, 0.03))
    bias, scale, mean, variance = (
        tf.Variable(tf.fill(outputs, value)) for value in (0.0, 1.0, 0.0, 1.0)
    )
    weights.extend((kernel, bias, scale) if norm else (kernel, bias))
    side = [size // 2 if padding is None else padding] * 2

    def call(x):
        x = tf.pad(x, [[0, 0], side, side, [0, 0]]) if any(side) else x
        x = nn.conv2d(x, tf.cast(kernel, narrow), stride, "VALID")
        if not norm:
            return nn.bias_add(x, tf.cast(bias, narrow))
        running = {"mean": mean, "variance": variance, "exponential_avg_factor": 0.1}
        y = tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=bias, epsilon=1e-5, **running)
        mean.assign(y.batch_mean), variance.assign(y.batch_variance)
        return y.y

    return call


stem, blocks, inputs = layer(3, 64, 7, 2, norm=True), [], 64
for number, width in enumerate([64] * 3 + [128] * 4 + [256] * 6):
    stride = 2 if number == 3 else 1
    shortcut = tf.identity if inputs == width else layer(inputs, width, 1, stride, norm=True)
    blocks.append(
        (layer(inputs, width, 3, stride, norm=True), layer(width, width, 3, norm=True), shortcut)
    )
    inputs = width
extras = (
    (256, 256, 512, 2),
    (512, 256, 512, 2),
    (512, 128, 256, 2),
    (256, 128, 256, 1),
    (256, 128, 256, 1),
)
extras = [(layer(a, b, 1), layer(b, c, 3, stride, stride - 1)) for a, b, c, stride in extras]
shapes = (256, 4), (512, 6), (512, 6), (256, 6), (256, 4), (256, 4)
heads = [(layer(inputs, 4 * count, 3), layer(inputs, 81 * count, 3)) for inputs, count in shapes]


def ssd(x):
    x = tf.pad(nn.relu(stem(tf.cast(x, narrow))), [[0, 0], [1, 1], [1, 1], [0, 0]])
    x = nn.max_pool2d(x, 3, 2, "VALID")
    for first, second, shortcut in blocks:
        x = nn.relu(second(nn.relu(first(x))) + shortcut(x))
    maps = [x] + [x := nn.relu(second(nn.relu(first(x)))) for first, second in extras]
    boxes = [tf.reshape(box(x), (x.shape[0], -1, 4)) for x, (box, _) in zip(maps, heads)]
    scores = [tf.reshape(score(x), (x.shape[0], -1, 81)) for x, (_, score) in zip(maps, heads)]
    return tf.cast(tf.concat(boxes, 1), tf.float32), tf.cast(tf.concat(scores, 1), tf.float32)


@tf.function
def step(images, labels, wanted):
    with tf.GradientTape() as tape:
        boxes, scores = ssd(images)
        entropy, positive = nn.sparse_softmax_cross_entropy_with_logits(labels, scores), labels > 0
        count = tf.reduce_sum(tf.cast(positive, tf.int32), 1, keepdims=True)
        order = tf.argsort(
            tf.where(positive, -1.0, tf.stop_gradient(entropy)), direction="DESCENDING"
        )
        counted = tf.cast(positive | (tf.argsort(order) < 3 * count), tf.float32)
        of_boxes = 4 * tf.keras.losses.huber(wanted, boxes)
        total = tf.reduce_sum(
            of_boxes * tf.cast(positive, tf.float32) + entropy * counted, 1, keepdims=True
        )
        loss = tf.reduce_mean(total / tf.cast(tf.maximum(count, 1), tf.float32))
    for w, velocity, g in zip(weights, velocities, tape.gradient(loss, weights)):
        options = {"var": w.handle, "accum": velocity.handle, "lr": 1e-3, "momentum": 0.9}
        tf.raw_ops.ResourceApplyMomentum(grad=g + 5e-4 * w, **options)
    return loss


velocities = [tf.Variable(tf.zeros_like(w)) for w in weights]
images, wanted = tf.random.normal((batch, 300, 300, 3)), tf.random.normal((batch, 8732, 4))
labels = tf.where(tf.random.uniform((batch, 8732)) < 40 / 8732, 1 + tf.range(8732) % 80, 0)
print_rate(
    lambda: step(images, labels, wanted), float, batch, steps, tensorflow_gigaflops(ssd, images[:1])
)
