"""Runs in TensorFlow's environment: evaluation pixels compared with `tf.image.resize`.

Both resize the same decoded image.
"""

import numpy as np
import simplejpeg
import tensorflow as tf

from tests.workloads.resnet50 import synthetic_images as synthetic
from workloads.common.images.jpeg import Reader
from workloads.common.images.resize import central_into, evaluation_size

SIZES = [(375, 500), (500, 375), (256, 256), (90, 120), (1200, 1601), (333, 1000), (2048, 1363)]


def reference(pixels, shorter, size):
    """Resize an image and return its center, in float32."""
    height, width = evaluation_size(pixels.shape[0], pixels.shape[1], shorter)
    resized = tf.image.resize(pixels, (height, width), method="bilinear", antialias=False).numpy()
    top, left = (height - size) // 2, (width - size) // 2
    return resized[top : top + size, left : left + size]


def sizes():
    """Return `given` sizes (2, N) of 20,000 images, and the sizes `found` for evaluation.

    `found` are the sizes to which the reference resizes the images.
    """
    drawn = np.random.default_rng(3).integers(100, 1_200, (2, 20_000))
    # The reference's `_smallest_size_at_least` (imagenet_preprocessing.py), vectorized.
    sides = tf.cast(drawn, tf.float32)
    ratio = tf.cast(256, tf.float32) / tf.minimum(*sides)
    return {"given": drawn, "found": tf.cast(sides * ratio, tf.int32).numpy()}


def differences():
    """Return `mean` and `largest` absolute difference in 1/255, and `decoding`, for each size.

    `decoding` is the number of values that differ if TensorFlow decodes the same JPEG with its
    accurate DCT.
    """
    found = {"mean": [], "largest": [], "decoding": []}
    for number, (height, width) in enumerate(SIZES):
        data = simplejpeg.encode_jpeg(synthetic.picture(9, number, height, width), 90, "RGB", "420")
        pixels = Reader().decode(memoryview(data))
        out = np.empty((224, 224, 3), np.uint8)
        central_into(pixels, out, 256)
        difference = np.abs(out - reference(pixels, 256, 224))
        theirs = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy()
        values = (difference.mean(), difference.max(), (theirs != pixels).sum())
        for kept, value in zip(found.values(), values, strict=True):
            kept.append(value)
    return found
