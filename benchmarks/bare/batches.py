"""Batches for the bare loops, as NumPy arrays (user, item, label).

The input file has one of two formats. A file with user_0, item_0, label_0, user_1, … contains
complete batches, over which the loop cycles. A file with train_user, train_item, items, and
batch_size contains the positives of a data set. With a file of positives, every epoch consists of
all positives and four new negatives for each positive, shuffled. Random negatives that equal a
positive are kept, which is cheaper than correct sampling. The last batch of an epoch is dropped if
it is smaller than the batch size, so that its shape need not be compiled. This module does not
import the suite.
"""

import numpy as np


def stream(path):
    """Yield batches (user, item, label) endlessly."""
    arrays = dict(np.load(path))
    size = int(arrays.get("batch_size", 0))
    while size:
        user, item = (np.repeat(arrays[f"train_{name}"], 5) for name in ("user", "item"))
        negative = np.arange(len(user)) % 5 > 0
        item[negative] = np.random.randint(0, arrays["items"], negative.sum(), np.int32)
        label, order = (~negative).astype(np.float32), np.random.permutation(len(user))
        for first in range(0, len(user) - size + 1, size):
            part = order[first : first + size]
            yield user[part], item[part], label[part]
    while True:
        for number in range(len(arrays) // 3):
            yield tuple(arrays[f"{name}_{number}"] for name in ("user", "item", "label"))
