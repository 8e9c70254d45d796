"""Common base of image workloads.

The base class defines options, full batches, dummy batches, and the size of the activations.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workloads.api import (
    ArraySpec,
    Batch,
    DatasetInfo,
    EpochSamples,
    Settings,
    Workload,
    num_steps,
    option,
)
from workloads.common.images import counts

GREY = 128
"""Pixel value of dummy batches."""


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Options of workloads that read images."""

    decode: str = option(
        "exact",
        "JPEG decoding. scaled: decode larger crops than needed at a reduced size, which is faster"
        " and changes pixels",
        choices=("exact", "scaled"),
        key="data.decode",
    )
    skip_bad: bool = option(
        False,
        "leave out unreadable samples, with a line on stderr, instead of ending the run",
        key="data.skip_bad",
    )
    evaluation_batch_size: int = option(64, "images per device and evaluation step", minimum=1)
    compile: str = option(
        "auto",
        "torch.compile, XLA or hybridize. auto: hybridize, and XLA on GPUs, which was not measured"
        " on a GPU",
        choices=("auto", "on", "off"),
    )
    fused_norms: str = option(
        "auto",
        "PyTorch on GPUs: batch norm, sum and ReLU in the same Triton kernels. auto: off, because"
        " it was not measured",
        choices=("auto", "on", "off"),
    )


class ImageWorkload(Workload):
    """Workload with full training batches of `image`, uint8 (B, H, W, 3).

    Batches are never padded, because padding would change the statistics of batch norm.
    """

    sample_unit = "images"

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        counts.check_batch(settings, dataset_info)

    @classmethod
    @abstractmethod
    def activation_values(cls, settings: Settings) -> int:
        """Return the number of activations per image that are stored for the backward pass."""

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return the size of `activation_values` in bytes, in the run's precision."""
        return counts.activation_bytes(cls.activation_values(settings), settings.precision)

    @property
    def epoch_samples(self) -> EpochSamples:
        """Return the samples of an epoch, which contains each image once.

        The last batch of an epoch is completed with images from the start of the same order.
        """
        trained = self.dataset_info.train_samples
        return EpochSamples(
            trained, repeated=self.steps_per_epoch * self.settings.global_batch_size - trained
        )

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of full batches that are needed for all images of an epoch."""
        return num_steps(self.dataset_info.train_samples, self.settings.global_batch_size)

    @property
    def images_per_replica(self) -> int:
        """Return the number of images per device and step.

        Batch norm computes its statistics over these images.
        """
        return self.settings.global_batch_size // self.settings.devices

    @property
    def evaluation_batch_size(self) -> int:
        """Return the number of images per device and evaluation step.

        The number is the value of the option, or the device's share of the images if the share is
        smaller.
        """
        size: int = self.options.evaluation_batch_size
        return min(size, -(-self.dataset_info.evaluation_samples // self.settings.devices))

    @property
    def image_shapes(self) -> Sequence[counts.Shape]:
        """Return the (height, width) of every batch shape, with the largest shape first."""
        return counts.image_shapes(self.settings.model)

    def target_shapes(self, count: int) -> Mapping[str, ArraySpec]:
        """Return the shapes of the arrays in a batch of `count` images, except `image`."""
        return {}

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the shapes of the arrays in a training batch, for each image shape.

        All replicas have the same number of images per step.
        """
        count = self.images_per_replica
        return [
            {"image": ArraySpec((count, height, width, 3), "uint8"), **self.target_shapes(count)}
            for height, width in self.image_shapes
        ]

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the shapes of the arrays in an evaluation batch, for each image shape.

        An evaluation batch has `evaluation_batch_size` images.
        """
        count = self.evaluation_batch_size
        return [
            {"image": ArraySpec((count, height, width, 3), "uint8")}
            for height, width in self.image_shapes
        ]

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Return gray images with target 0.

        Target 0 is the first class or the background.
        """
        batch = super().dummy_batch(specs)
        batch.arrays["image"].fill(GREY)
        return batch
