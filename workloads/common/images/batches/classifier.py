"""What classifiers of images have in common: a label for each image, top-1 accuracy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.api import Arrays, ArraySpec, Batch
from workloads.common.images.workload import ImageWorkload


class ClassifierWorkload(ImageWorkload):
    """Training batches hold `label`, int32 (B,), beside `image`."""

    def target_shapes(self, count: int) -> Mapping[str, ArraySpec]:
        """`label` (B,)."""
        return {"label": ArraySpec((count,), "int32")}

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Whether each image's best class is its own; padding is dropped. `logits` are (B, classes)."""
        correct = np.argmax(outputs["logits"], axis=1) == batch.arrays["label"]
        return {"correct": correct[batch.arrays["valid"]]}

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Top-1 accuracy over every image once. Raises ValueError if the count is not the data set's."""
        correct = np.asarray(results["correct"], dtype=bool)
        if correct.size != self.dataset_info.evaluation_samples:
            raise ValueError(f"evaluation saw {correct.size} images of {self.dataset_info.evaluation_samples}")
        return {"top1": float(np.count_nonzero(correct)) / correct.size}
