"""What workloads on images have in common: options of reading, full batches, dummy batches, bytes of activations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workloads.api import ArraySpec, Batch, DatasetInfo, EpochSamples, Settings, Workload, num_steps, option
from workloads.common.images import counts

GREY = 128
"""Of the pixels of dummy batches."""


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Options of workloads that read images."""

    decode: str = option(
        "exact",
        "JPEG decoding; scaled: at reduced size where a crop is larger than needed, which is faster and changes pixels",
        choices=("exact", "scaled"),
        key="data.decode",
    )
    skip_bad: bool = option(
        False, "leave out samples that cannot be read, and say so, instead of ending the run", key="data.skip_bad"
    )
    evaluation_batch_size: int = option(64, "images per device and evaluation step", minimum=1)
    compile: str = option(
        "auto",
        "torch.compile, XLA, hybridize; auto: hybridize, XLA on GPUs, which no measurement on a GPU has chosen",
        choices=("auto", "on", "off"),
    )
    fused_norms: str = option(
        "auto",
        "PyTorch on GPUs: batch norm, sum and ReLU in the same kernels (Triton); auto: off, until measured",
        choices=("auto", "on", "off"),
    )


class ImageWorkload(Workload):
    """Training batches hold `image`, uint8 (B, H, W, 3), and are always full: batch norm would see padding."""

    sample_unit = "images"

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        counts.check_batch(settings, dataset_info)

    @classmethod
    @abstractmethod
    def activation_values(cls, settings: Settings) -> int:
        """Values that one image leaves for the backward pass."""

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Of `activation_values`, in the precision of the run."""
        return counts.activation_bytes(cls.activation_values(settings), settings.precision)

    @property
    def epoch_samples(self) -> EpochSamples:
        """Each image once. The last batch is filled up with images from the start of the same order."""
        trained = self.dataset_info.train_samples
        return EpochSamples(trained, repeated=self.steps_per_epoch * self.settings.global_batch_size - trained)

    @property
    def steps_per_epoch(self) -> int:
        """Full batches that contain each image."""
        return num_steps(self.dataset_info.train_samples, self.settings.global_batch_size)

    @property
    def images_per_replica(self) -> int:
        """Images of one device in one step: what batch norm's statistics are taken over."""
        return self.settings.global_batch_size // self.settings.devices

    @property
    def evaluation_batch_size(self) -> int:
        """Images of one device in one evaluation step: the option, or all that a device has where these are fewer."""
        size: int = self.options.evaluation_batch_size
        return min(size, -(-self.dataset_info.evaluation_samples // self.settings.devices))

    @property
    def image_shapes(self) -> Sequence[counts.Shape]:
        """(height, width) of every shape that batches come in, largest first."""
        return counts.image_shapes(self.settings.model)

    def target_shapes(self, count: int) -> Mapping[str, ArraySpec]:
        """Arrays beside `image` of a training batch of `count` images."""
        return {}

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """One for each size: every replica has the same number of images in every step."""
        count = self.images_per_replica
        return [
            {"image": ArraySpec((count, height, width, 3), "uint8"), **self.target_shapes(count)}
            for height, width in self.image_shapes
        ]

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """One for each size, of `evaluation_batch_size` images."""
        count = self.evaluation_batch_size
        return [{"image": ArraySpec((count, height, width, 3), "uint8")} for height, width in self.image_shapes]

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Grey images, and targets of 0: the first class, background."""
        batch = super().dummy_batch(specs)
        batch.arrays["image"].fill(GREY)
        return batch
