"""Published sample counts of the public data sets, for comparison with a manifest.

Data with different sample counts are not the public data set with the same name.

Sources:

- COCO: `train` and `val` are images with objects (published logs: train_samples, eval_samples).
- ILSVRC2012: reference imagenet_main.py.
- MovieLens: the READMEs. `train` is the number of ratings after the leave-one-out split (reference
  logs).
- WMT: newstest2014 and the validation sets of the references.
- CIFAR-10 and Fashion-MNIST: their web pages.
- C4 with the tokens of Llama 3.1: derived from the sizes of MLCommons' files.
"""

from __future__ import annotations

from collections.abc import Mapping

_COCO = {
    "train": 117_266,
    "val": 4_952,
    "classes": 80,
    "train_images": 118_287,
    "val_images": 5_000,
}
COUNTS: dict[str, Mapping[str, int]] = {
    "c4-llama31": {
        "train_documents": 45_608_611,
        "train_tokens": 20_994_193_570,
        "validation_documents": 91_205,
        "validation_tokens": 41_642_091,
    },
    "cifar10": {"train": 50_000, "val": 10_000, "classes": 10},
    "coco2014": _COCO,  # In round v0.5's split, COCO 2014 has the same images as COCO 2017.
    "coco2017": _COCO,
    "fashion-mnist": {"train": 60_000, "val": 10_000, "classes": 10},
    "imagenet": {"train": 1_281_167, "val": 50_000, "classes": 1_000},
    "ml-100k": {"ratings": 100_000, "users": 943, "items": 1_682},
    "ml-1m": {"ratings": 1_000_209, "users": 6_040, "items": 3_706},
    "ml-20m": {"ratings": 20_000_263, "users": 138_493, "items": 26_744, "train": 19_861_770},
    "wmt16-en-de": {"dev": 5_168, "test": 3_003},
    "wmt17-en-de": {"dev": 3_000, "test": 3_003},
}
"""Published sample counts of each data set. Data sets that are missing here have no published
counts.
"""


def differences(dataset: str, counts: Mapping[str, object]) -> str:
    """Describe how counts differ from the counts of the public data set with this name.

    The function returns an empty string if the counts are equal, or if this name has no published
    counts.
    """
    wanted = COUNTS.get(dataset, {})
    return ", ".join(
        f"{_written(counts.get(name))} {name.replace('_', ' ')} instead of {count:,}"
        for name, count in wanted.items()
        if counts.get(name) != count
    )


def _written(count: object) -> str:
    return f"{count:,}" if isinstance(count, int) else "no"
