"""Counts of the public data sets as a manifest has them: what tells one from other data under its name.

Sources: `train` and `val` of COCO are images with objects (published logs: train_samples, eval_samples); ILSVRC2012 (reference
imagenet_main.py); MovieLens' READMEs, `train` after the leave-one-out split (reference logs); newstest2014 and the references'
validation sets; the pages of CIFAR-10 and Fashion-MNIST.
"""

from __future__ import annotations

from collections.abc import Mapping

_COCO = {"train": 117_266, "val": 4_952, "classes": 80, "train_images": 118_287, "val_images": 5_000}
COUNTS: dict[str, Mapping[str, int]] = {
    "cifar10": {"train": 50_000, "val": 10_000, "classes": 10},
    "coco2014": _COCO,  # in the split of round v0.5: the same images
    "coco2017": _COCO,
    "fashion-mnist": {"train": 60_000, "val": 10_000, "classes": 10},
    "imagenet": {"train": 1_281_167, "val": 50_000, "classes": 1_000},
    "ml-100k": {"ratings": 100_000, "users": 943, "items": 1_682},
    "ml-1m": {"ratings": 1_000_209, "users": 6_040, "items": 3_706},
    "ml-20m": {"ratings": 20_000_263, "users": 138_493, "items": 26_744, "train": 19_861_770},
    "wmt16-en-de": {"dev": 5_168, "test": 3_003},
    "wmt17-en-de": {"dev": 3_000, "test": 3_003},
}
"""Data set to its counts; of others nothing is published."""


def differences(dataset: str, counts: Mapping[str, object]) -> str:
    """How counts differ from those of the public data set of that name; empty: they do not, or there is none."""
    wanted = COUNTS.get(dataset, {})
    return ", ".join(
        f"{_written(counts.get(name))} {name.replace('_', ' ')} instead of {count:,}"
        for name, count in wanted.items()
        if counts.get(name) != count
    )


def _written(count: object) -> str:
    return f"{count:,}" if isinstance(count, int) else "no"
