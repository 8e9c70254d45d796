"""SSD's loss and its gradient in plain float64 NumPy, image by image.

The loss of an image is (Σ smooth-L1 of the positives' offsets + Σ cross-entropy of positives and
mined negatives) / positives, and 0 without positives. The result is the mean over the images. Mined
negatives are the background priors with the largest cross-entropy, `negatives` for each positive, 3
by default.
"""

import numpy as np

NEGATIVES_PER_POSITIVE = 3


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the log-softmax over the classes of logits (C + 1, P)."""
    shifted = logits - logits.max(axis=0)
    return shifted - np.log(np.exp(shifted).sum(axis=0))


def smooth_l1(difference: np.ndarray) -> np.ndarray:
    """Return 0.5 d² within ±1, |d| - 0.5 outside."""
    size = np.abs(difference)
    return np.where(size < 1, 0.5 * size**2, size - 0.5)


def mined(entropy: np.ndarray, positive: np.ndarray, negatives: int) -> np.ndarray:
    """Return a mask (P,) of the background priors that count, by cross-entropy (P,).

    Among equal values, the first prior counts.
    """
    wanted = min(negatives * int(positive.sum()), int((~positive).sum()))
    order = np.argsort(-np.where(positive, -np.inf, entropy), kind="stable")
    chosen = np.zeros(len(entropy), bool)
    chosen[order[:wanted]] = True
    return chosen


def loss(logits: np.ndarray, offsets: np.ndarray, labels: np.ndarray, targets: np.ndarray) -> float:
    """Return the loss.

    Args:
        logits: (B, C + 1, P).
        offsets: (B, 4, P).
        labels: (B, P), with 0 for background.
        targets: Offsets to learn, (B, 4, P).
    """
    return loss_and_gradients(logits, offsets, labels, targets)[0]


def loss_and_gradients(
    logits: np.ndarray,
    offsets: np.ndarray,
    labels: np.ndarray,
    targets: np.ndarray,
    negatives: int = NEGATIVES_PER_POSITIVE,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the loss and its derivatives by logits and by offsets."""
    logits, offsets, targets = (
        np.asarray(array, np.float64) for array in (logits, offsets, targets)
    )
    total, by_logits, by_offsets = 0.0, np.zeros_like(logits), np.zeros_like(offsets)
    for image in range(len(logits)):
        positive = labels[image] > 0
        count = int(positive.sum())
        if not count:
            continue
        scores = log_softmax(logits[image])
        everywhere = np.arange(labels.shape[1])
        entropy = -scores[labels[image], everywhere]
        counted = positive | mined(entropy, positive, negatives)
        difference = np.where(positive, offsets[image] - targets[image], 0.0)
        total += (smooth_l1(difference).sum() + entropy[counted].sum()) / count
        one_hot = np.zeros_like(scores)
        one_hot[labels[image], everywhere] = 1
        by_logits[image] = np.where(counted, np.exp(scores) - one_hot, 0.0) / count / len(logits)
        by_offsets[image] = np.clip(difference, -1, 1) / count / len(logits)
    return total / len(logits), by_logits, by_offsets
