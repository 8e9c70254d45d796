"""Transformer's settings: the model's sizes, the named hyperparameter sets with a source per field, targets and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Hyperparameter, HyperparameterSet, Json, option
from workloads.common.text.workload import TranslationOptions

TARGET_BLEU = 25.0
"""In points, in every round (rules texts). Logs of v0.7 hold a fraction, 0.25."""
DEMO_TARGET_BLEU = 50.0
REFERENCE_MODEL: Mapping[str, Json] = {
    "hidden": 1_024, "feed_forward": 4_096, "layers": 6, "heads": 16, "extra_length": 50,
}  # fmt: skip
"""Reference model_params.py, TransformerBigParams. `extra_length`: tokens of a translation beyond those of its source."""
DEMO_MODEL: Mapping[str, Json] = {"hidden": 128, "feed_forward": 512, "layers": 2, "heads": 4, "extra_length": 50}
"""The same code, smaller (docs/demos.md)."""
BEAM_WIDTH = 4
"""Reference model_params.py."""
SIZES = ("hidden", "feed_forward", "layers", "heads")


def _set(source: str, other: Mapping[str, str], **values: Json) -> HyperparameterSet:
    """A set whose fields come from `source`, but for those that `other` gives another."""
    return {name: Hyperparameter(value, other.get(name, source)) for name, value in values.items()}


_REFERENCE = "published: MLPerf reference (model_params.py)"
_BUCKETS = ("bucket_first", "bucket_growth", "bucket_multiple")
_COMMON: Mapping[str, Json] = {
    "beta1": 0.9,
    "beta2": 0.997,
    "epsilon": 1e-9,
    "dropout": 0.1,
    "label_smoothing": 0.1,
    "smoothed_over": "others",
    "bucket_first": 8,
    "bucket_growth": 1.1,
    "bucket_multiple": 1,
    "lr_scaling": "sqrt",
}
_OF_REFERENCE = {
    **dict.fromkeys(_BUCKETS, "published: MLPerf reference (utils/dataset.py)"),
    "smoothed_over": "published: MLPerf reference (utils/metrics.py)",
    "learning_rate": "derived: 2.0 · 1024^-0.5 · 16000^-0.5, MLPerf reference (model_params.py, transformer_main.py)",
    "max_epochs": "published: MLPerf reference (transformer_main.py)",
    "lr_scaling": "presumed: Adam's rates are commonly scaled so; published ones follow no one rule",
}
_NVIDIA: Mapping[str, Json] = {**_COMMON, "smoothed_over": "all", "bucket_multiple": 2, "max_epochs": 30}
_OF_NVIDIA = {
    **dict.fromkeys(_BUCKETS, "presumed: the reference's, even lengths; NVIDIA batches neighbours in length"),
    "lr_scaling": _OF_REFERENCE["lr_scaling"],
}
_NVIDIA_64: Mapping[str, Json] = {**_NVIDIA, "beta2": 0.98, "max_sequence_length": 64}
_ARTICLE = "published: DGX-1 scaling article, table 5"
_REFERENCE_RATE = "presumed: the reference's; the article names none"
_ARTICLE_SILENT = {
    **{name: f"presumed: as the MLPerf reference ({name})" for name in _COMMON},
    **dict.fromkeys(("learning_rate", "warmup_steps"), _REFERENCE_RATE),
    "max_sequence_length": "presumed: the reference's and NVIDIA's of v0.5",
}
_LIKE_V05 = "presumed: as NVIDIA's v0.5 DGX-1 entry, whose batch the article repeats"
_ARTICLE_8 = {**_ARTICLE_SILENT, **dict.fromkeys(("learning_rate", "warmup_steps", "smoothed_over"), _LIKE_V05)}
REFERENCE_RATE = 2.0 * 1_024**-0.5 * 16_000**-0.5
"""4.94e-4."""

SETS: Mapping[str, HyperparameterSet] = {
    "reference": _set(
        _REFERENCE,
        _OF_REFERENCE,
        **_COMMON,
        batch_size_global=4_096,
        learning_rate=REFERENCE_RATE,
        warmup_steps=16_000,
        max_sequence_length=256,
        max_epochs=10,
    ),
    "nvidia_v0.5_dgx1": _set(
        "published: NVIDIA v0.5, config_DGX1.sh, run_training.sh",
        {**_OF_NVIDIA, "max_sequence_length": "presumed: the reference's; the entry has no shorter limit"},
        **{**_NVIDIA, "bucket_multiple": 1},
        batch_size_global=40_960,
        learning_rate=6.4e-4,
        warmup_steps=3_000,
        max_sequence_length=256,
    ),
    "nvidia_v0.6_dgx1": _set(
        "published: NVIDIA v0.6, config_DGX1.sh, run_training.sh and logs",
        _OF_NVIDIA,
        **_NVIDIA_64,
        batch_size_global=81_920,
        learning_rate=1.976e-3,
        warmup_steps=1_000,
    ),
    "nvidia_v0.6_dgx2": _set(
        "published: NVIDIA v0.6, config_DGX2.sh, run_training.sh and logs",
        _OF_NVIDIA,
        **{**_NVIDIA_64, "max_sequence_length": 80},
        batch_size_global=131_072,
        learning_rate=1.976e-3,
        warmup_steps=1_000,
    ),
    "nvidia_v0.7_dgx1": _set(
        "published: NVIDIA v0.7, config_DGX1.sh, run_training.sh and logs",
        _OF_NVIDIA,
        **_NVIDIA_64,
        batch_size_global=81_920,
        learning_rate=1.9e-3,
        warmup_steps=750,
    ),
    "nvidia_v0.7_dgxa100": _set(
        "published: NVIDIA v0.7, config_DGXA100.sh, run_training.sh and logs",
        _OF_NVIDIA,
        **_NVIDIA_64,
        batch_size_global=110_592,
        learning_rate=1.9e-3,
        warmup_steps=750,
    ),
    "dgx1_article_1gpu": _set(
        _ARTICLE,
        _ARTICLE_SILENT,
        **_COMMON,
        batch_size_global=5_120,
        learning_rate=REFERENCE_RATE,
        warmup_steps=16_000,
        max_sequence_length=256,
        max_epochs=8,
    ),
    "dgx1_article_4gpu": _set(
        _ARTICLE,
        _ARTICLE_SILENT,
        **_COMMON,
        batch_size_global=20_480,
        learning_rate=REFERENCE_RATE,
        warmup_steps=16_000,
        max_sequence_length=256,
        max_epochs=4,
    ),
    "dgx1_article_8gpu": _set(
        _ARTICLE,
        _ARTICLE_8,
        **{**_COMMON, "smoothed_over": "all"},
        batch_size_global=40_960,
        learning_rate=6.4e-4,
        warmup_steps=3_000,
        max_sequence_length=256,
        max_epochs=4,
    ),
    "demo": _set(
        "presumed: trials on the generated corpus (docs/demos.md)",
        {},
        **{**_COMMON, "beta2": 0.98, "bucket_first": 9, "bucket_growth": 1.5},
        batch_size_global=1_024,
        learning_rate=3e-3,
        warmup_steps=300,
        max_sequence_length=62,
        max_epochs=8,
    ),
}
"""`batch_size_global` counts padded tokens of a pair's longer side. Sets of a fixed device count take other counts too."""


@dataclass(frozen=True)
class TransformerHyperparameters:
    """What a set holds beside the batch size."""

    learning_rate: float
    """The highest, at the end of the warm-up."""
    warmup_steps: int
    """From 0, linearly; then the rate falls with the root of the step."""
    beta1: float
    beta2: float
    epsilon: float
    dropout: float
    """Share dropped in all four places."""
    label_smoothing: float
    smoothed_over: str
    """What shares the smoothed part of a label: `others`, all words but the label (0 at best), or `all` (fairseq)."""
    bucket_first: int
    """The first bucket's edge, in tokens."""
    bucket_growth: float
    """From edge to edge, at least by 1."""
    bucket_multiple: int
    """Edges are rounded up to a multiple of this."""
    max_sequence_length: int
    """Tokens of a side of a training pair with EOS; longer pairs are discarded."""
    max_epochs: int


@dataclass(frozen=True)
class TransformerOptions(TranslationOptions):
    """`workload.*` on the command line. Fields named like a hyperparameter override the set's value."""

    name: str = "transformer"
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    beam_width: int = option(BEAM_WIDTH, "hypotheses of the beam search", minimum=1)
    learning_rate: float | None = option(None, "highest rate, at the end of the warm-up", minimum=0.0)
    warmup_steps: int | None = option(None, "steps of warm-up", minimum=0)
    beta1: float | None = option(None, "Adam's decay of the mean of gradients", minimum=0.0)
    beta2: float | None = option(None, "Adam's decay of the mean of squared gradients", minimum=0.0)
    dropout: float | None = option(None, "share dropped in all four places", minimum=0.0)
    label_smoothing: float | None = option(None, "share of the loss that is spread over other words", minimum=0.0)
    bucket_first: int | None = option(None, "edge of the first bucket, in tokens", minimum=1)
    bucket_growth: float | None = option(None, "factor from one bucket's edge to the next", minimum=1.0)
    bucket_multiple: int | None = option(None, "edges of buckets are multiples of this", minimum=1)
    max_sequence_length: int | None = option(None, "tokens of a side with EOS; longer pairs are left out", minimum=2)
    max_epochs: int | None = option(None, "give up after so many epochs", minimum=1)
    hidden: int | None = option(None, "values of a word, a multiple of twice the heads; null: the profile's", minimum=8)
    feed_forward: int | None = option(None, "values inside a feed-forward layer; null: the profile's", minimum=4)
    layers: int | None = option(None, "of encoder and of decoder; null: the profile's", minimum=1)
    heads: int | None = option(None, "of an attention, a multiple of 4; null: the profile's", minimum=4)
    target: float | None = option(None, "BLEU to reach: a fraction under rules v0.7, points under others", minimum=0.0)


def profile_defaults(profile: str, options: Mapping[str, Json], unit: float) -> Defaults:
    """What a profile means, with the sizes that `options` name; `unit`: what a point of BLEU is in targets.

    Raises ValueError for a profile or a size that there is not.
    """
    if profile not in ("reference", "demo", "synthetic"):
        raise ValueError(f"profile={profile}: transformer has reference, demo, synthetic")
    demo = profile == "demo"
    given = {name: options[name] for name in SIZES if options.get(name) is not None}
    model = {**(DEMO_MODEL if demo else REFERENCE_MODEL), **given}
    _check_sizes(model)
    if demo:
        return Defaults("translation-demo", "demo", model, {"bleu": unit * DEMO_TARGET_BLEU})
    return Defaults("wmt17-en-de", "reference", model, {"bleu": unit * TARGET_BLEU})


def _check_sizes(model: Mapping[str, Json]) -> None:
    heads, hidden, inner = (int(model[name]) for name in ("heads", "hidden", "feed_forward"))
    for name, value, multiple, why in (
        ("heads", heads, 4, ""),
        ("hidden", hidden, 2 * heads, f" (twice the {heads} heads)"),
        ("feed_forward", inner, 4, ""),
    ):
        if value % multiple:
            best = value // multiple * multiple + multiple
            raise ValueError(f"workload.{name}={value}: not a multiple of {multiple}{why}; type workload.{name}={best}")
