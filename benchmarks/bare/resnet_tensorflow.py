"""A ResNet-50 training step in plain TensorFlow.

    python -m benchmarks.bare.resnet_tensorflow CORES bare|stock fp32|bf16 BATCH STEPS [PIXELS]

* bare: ResNet-50 v1.5 built from plain operators.
* stock: ResNet50 of Keras applications, which is the architecture of 2015 with biases. The strides
  are on the 1×1 convolutions, so this model needs 6 % fewer operations than v1.5.

The optimizer is SGD. The synthetic images are floats in memory, with 224 x 224 pixels unless PIXELS
is given. The output is JSON with images_per_second over a block of steps. This program does not
import the suite.
"""

import sys

import tensorflow as tf

from benchmarks.bare.block import print_rate, tensorflow_gigaflops

(cores, kind, precision), (batch, steps, pixels) = sys.argv[1:4], map(int, [*sys.argv[4:], 224][:3])
weights = []
narrow = tf.bfloat16 if precision == "bf16" else tf.float32
tf.config.threading.set_intra_op_parallelism_threads(int(cores))
tf.config.threading.set_inter_op_parallelism_threads(1)


def unit(inputs, outputs, size, stride=1):
    scale, shift, mean, variance = (
        tf.Variable(tf.fill(outputs, value)) for value in (1.0, 0.0, 0.0, 1.0)
    )
    weights.extend(
        (tf.Variable(tf.random.normal((size, size, inputs, outputs), 0, 0.05)), scale, shift)
    )
    kernel, sides = weights[-3], [[0, 0], [size // 2] * 2, [size // 2] * 2, [0, 0]]
    norm = {
        "scale": scale,
        "offset": shift,
        "mean": mean,
        "variance": variance,
        "exponential_avg_factor": 0.1,
    }

    def call(x):
        x = tf.nn.conv2d(
            tf.pad(x, sides) if size > 1 else x, tf.cast(kernel, narrow), stride, "VALID"
        )
        y = tf.raw_ops.FusedBatchNormV3(x=x, epsilon=1e-5, **norm)
        mean.assign(y.batch_mean), variance.assign(y.batch_variance)
        return y.y

    return call


stem, blocks, inputs = unit(3, 64, 7, 2), [], 64
for number, width in enumerate([64] * 3 + [128] * 4 + [256] * 6 + [512] * 3):
    stride, outputs = 2 if number in (3, 7, 13) else 1, 4 * width
    branch = unit(inputs, width, 1), unit(width, width, 3, stride), unit(width, outputs, 1)
    blocks.append((*branch, unit(inputs, outputs, 1, stride) if inputs != outputs else tf.identity))
    inputs = outputs
weights.extend(
    (tf.Variable(tf.random.normal((inputs, 1000), 0, 0.01)), tf.Variable(tf.zeros(1000)))
)


def resnet(x, training=True):
    x = tf.pad(tf.nn.relu(stem(tf.cast(x, narrow))), [[0, 0], [1, 1], [1, 1], [0, 0]])
    x = tf.nn.max_pool2d(x, 3, 2, "VALID")
    for first, second, third, shortcut in blocks:
        x = tf.nn.relu(third(tf.nn.relu(second(tf.nn.relu(first(x))))) + shortcut(x))
    return tf.reduce_mean(tf.cast(x, tf.float32), (1, 2)) @ weights[-2] + weights[-1]


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        logits = tf.cast(resnet(images, training=True), tf.float32)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    for w, velocity, g in zip(weights, velocities, tape.gradient(loss, weights), strict=True):
        options = {"var": w.handle, "accum": velocity.handle, "lr": 0.01, "momentum": 0.9}
        tf.raw_ops.ResourceApplyMomentum(grad=g + 1e-4 * w, **options)
    return loss


if kind == "stock":
    tf.keras.config.set_dtype_policy("mixed_bfloat16" if precision == "bf16" else "float32")
    resnet = tf.keras.applications.ResNet50(
        weights=None, classifier_activation=None, input_shape=(pixels, pixels, 3)
    )
    weights = [variable.value for variable in resnet.trainable_variables]
velocities = [tf.Variable(tf.zeros_like(w)) for w in weights]
images, labels = tf.random.normal((batch, pixels, pixels, 3)), tf.zeros(batch, tf.int32)
gigaflops = tensorflow_gigaflops(lambda x: resnet(x, training=False), images[:1])
print_rate(lambda: step(images, labels), float, batch, steps, gigaflops)
