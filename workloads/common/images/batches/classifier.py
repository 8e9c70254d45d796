"""Common base of image classifiers, which have one label per image and top-1 accuracy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.api import Arrays, ArraySpec, Batch
from workloads.common.images.workload import ImageWorkload


class ClassifierWorkload(ImageWorkload):
    """Image classifier whose training batches contain `label`, int32 (B,), and `image`."""

    def target_shapes(self, count: int) -> Mapping[str, ArraySpec]:
        """Return the shape of `label`, (B,)."""
        return {"label": ArraySpec((count,), "int32")}

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Return whether each image is classified correctly. Padding is excluded.

        The array `logits` in `outputs` has the shape (B, classes).
        """
        correct = np.argmax(outputs["logits"], axis=1) == batch.arrays["label"]
        return {"correct": correct[batch.arrays["valid"]]}

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Return the top-1 accuracy over all validation images.

        The method raises ValueError if the number of results differs from the size of the
        validation set.
        """
        correct = np.asarray(results["correct"], dtype=bool)
        if correct.size != self.dataset_info.evaluation_samples:
            raise ValueError(
                f"evaluation saw {correct.size} images of {self.dataset_info.evaluation_samples}"
            )
        return {"top1": float(np.count_nonzero(correct)) / correct.size}
