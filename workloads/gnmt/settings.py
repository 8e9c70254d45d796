"""GNMT's settings: the model's sizes, the named hyperparameter sets with a source per field, targets and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Hyperparameter, HyperparameterSet, Json, option
from workloads.common.text.workload import TranslationOptions

TARGETS_BLEU = {"v0.5": 21.8, "v0.6": 24.0, "v0.7": 24.0}
"""Rules to BLEU in points (rules texts of the rounds). Logs of v0.7 hold a fraction, 0.24."""
DEMO_TARGET_BLEU = 50.0
REFERENCE_MODEL: Mapping[str, Json] = {
    "hidden": 1_024, "layers": 4, "initial": 0.1, "initial_embedding": 0.1,
    "longest_translation": 150,
}  # fmt: skip
"""Reference gnmt.py, encoder.py, decoder.py, train.py. `initial`: weights are uniform in ± this."""
DEMO_MODEL: Mapping[str, Json] = {
    "hidden": 128, "layers": 3, "initial": 0.28, "initial_embedding": 0.1,
    "longest_translation": 80,
}  # fmt: skip
"""The same code, smaller (docs/demos.md). 0.28 = 0.1 · √(1,024 / 128): each sum varies as much as in the reference."""
BEAM_WIDTH = 5
"""Reference train.py; what `TranslationOptions` has, too."""
MAX_EPOCHS = 8
"""The reference stops after 8 epochs (train.py)."""


def _set(source: str, other: Mapping[str, str], **values: Json) -> HyperparameterSet:
    """A set whose fields come from `source`, but for those that `other` gives another."""
    return {name: Hyperparameter(value, other.get(name, source)) for name, value in values.items()}


_LIKE_REFERENCE = "published: MLPerf reference (train.py, lr_scheduler.py)"
_COMMON: Mapping[str, Json] = {
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "clip_norm": 5.0,
    "dropout": 0.2,
    "label_smoothing": 0.1,
    "buckets": 5,
    "decay_factor": 0.5,
    "decay_steps": 4,
    "lr_scaling": "sqrt",
}
_SCHEDULE: Mapping[str, Json] = {**_COMMON, "warmup_steps": 200}
_SCALING = "presumed: published rates grow slower than the batch (1.25e-3 at 1,024, 2e-3 at 2,048, 2.875e-3 at 3,072)"
_SILENT = {**dict.fromkeys(_COMMON, _LIKE_REFERENCE), "lr_scaling": _SCALING}
_LIMIT = {"max_epochs": "presumed: the reference's limit (train.py)"}
_NVIDIA_V06: Mapping[str, Json] = {
    **_SCHEDULE,
    "batch_size_global": 2_048,
    "learning_rate": 2e-3,
    "remain_steps": 6_453,
    "decay_interval": 809,
    "max_sequence_length": 75,
    "max_epochs": MAX_EPOCHS,
}
_ARTICLE = "published: DGX-1 scaling article, table 4"
_REFERENCE_RATE = "presumed: the reference's; the article names none"
_ARTICLE_SILENT = {
    **_SILENT,
    **dict.fromkeys(("learning_rate", "warmup_steps", "remain_steps", "decay_interval"), _REFERENCE_RATE),
    "max_sequence_length": "presumed: the reference's and NVIDIA's of v0.5",
    "max_epochs": "presumed: the epochs that the article's runs took",
}
_LIKE_V05 = "presumed: as NVIDIA's v0.5 DGX-1 entry, whose batch and epochs the article repeats"
_ARTICLE_8 = dict.fromkeys(("learning_rate", "warmup_steps", "remain_steps", "decay_interval"), _LIKE_V05)
_FRACTION: Mapping[str, Json] = {"remain_steps": 0.666, "decay_interval": 0}

SETS: Mapping[str, HyperparameterSet] = {
    "reference": _set(
        _LIKE_REFERENCE,
        {"lr_scaling": _SCALING},
        **_SCHEDULE,
        **_FRACTION,
        batch_size_global=128,
        learning_rate=1e-3,
        max_sequence_length=50,
        max_epochs=MAX_EPOCHS,
    ),
    "reference_v0.5": _set(
        "published: MLPerf reference, tag v0.5 (rnn_translator)",
        {**_LIMIT, "lr_scaling": _SCALING},
        **_COMMON,
        batch_size_global=128,
        learning_rate=5e-4,
        warmup_steps=0,
        remain_steps=0,
        decay_interval=0,
        max_sequence_length=50,
        max_epochs=MAX_EPOCHS,
    ),
    "nvidia_v0.5_dgx1": _set(
        "published: NVIDIA v0.5, config_DGX1.sh",
        {**_SILENT, "max_epochs": "presumed: the epochs of the published runs, three, and two more"},
        **_SCHEDULE,
        batch_size_global=1_024,
        learning_rate=1.25e-3,
        remain_steps=6_000,
        decay_interval=500,
        max_sequence_length=50,
        max_epochs=5,
    ),
    "nvidia_v0.6_dgx1": _set("published: NVIDIA v0.6, config_DGX1.sh and logs", {**_SILENT, **_LIMIT}, **_NVIDIA_V06),
    "nvidia_v0.7_dgx1": _set("published: NVIDIA v0.7, config_DGX1.sh and logs", {**_SILENT, **_LIMIT}, **_NVIDIA_V06),
    "nvidia_v0.7_dgxa100": _set(
        "published: NVIDIA v0.7, config_DGXA100.sh and logs",
        {**_SILENT, **_LIMIT},
        **{
            **_NVIDIA_V06,
            "batch_size_global": 3_072,
            "learning_rate": 2.875e-3,
            "remain_steps": 4_054,
            "decay_interval": 506,
        },
    ),
    "dgx1_article_1gpu": _set(
        _ARTICLE,
        _ARTICLE_SILENT,
        **_SCHEDULE,
        **_FRACTION,
        batch_size_global=512,
        learning_rate=1e-3,
        max_sequence_length=50,
        max_epochs=5,
    ),
    "dgx1_article_4gpu": _set(
        _ARTICLE,
        _ARTICLE_SILENT,
        **_SCHEDULE,
        **_FRACTION,
        batch_size_global=512,
        learning_rate=1e-3,
        max_sequence_length=50,
        max_epochs=5,
    ),
    "dgx1_article_8gpu": _set(
        _ARTICLE,
        {**_ARTICLE_SILENT, **_ARTICLE_8},
        **_SCHEDULE,
        batch_size_global=1_024,
        learning_rate=1.25e-3,
        remain_steps=6_000,
        decay_interval=500,
        max_sequence_length=50,
        max_epochs=3,
    ),
    "demo": _set(
        "presumed: trials on the generated corpus (docs/demos.md)",
        {},
        **_SCHEDULE,
        batch_size_global=32,
        learning_rate=3e-3,
        remain_steps=0.66,
        decay_interval=0,
        max_sequence_length=75,
        max_epochs=6,
    ),
}
"""`remain_steps`: the step from which on the rate is halved; below 1 a share of all steps of `max_epochs`; 0: never.
`decay_interval`: steps between two halvings; 0: the remaining steps over `decay_steps`. Sets of a fixed device count take other
counts too."""


@dataclass(frozen=True)
class GNMTHyperparameters:
    """What a set holds beside the batch size."""

    learning_rate: float
    """After the warm-up."""
    warmup_steps: int
    """From a hundredth of the rate, exponentially."""
    remain_steps: float
    """The step from which on the rate is lower; below 1 a share of the steps of `max_epochs`; 0: constant."""
    decay_interval: int
    """Steps between two decays; 0: the remaining steps over `decay_steps`."""
    decay_steps: int
    """Decays in all."""
    decay_factor: float
    beta1: float
    beta2: float
    epsilon: float
    clip_norm: float
    """Of the global L2 norm of all gradients."""
    dropout: float
    """Share of an LSTM's inputs."""
    label_smoothing: float
    buckets: int
    """Of equal widths, up to the longest pair."""
    max_sequence_length: int
    """Subwords of a side of a training pair with BOS and EOS; longer pairs are discarded."""
    max_epochs: int


@dataclass(frozen=True)
class GNMTOptions(TranslationOptions):
    """`workload.*` on the command line. Fields named like a hyperparameter override the set's value."""

    name: str = "gnmt"
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    learning_rate: float | None = option(None, "rate after the warm-up", minimum=0.0)
    dropout: float | None = option(None, "share of an LSTM's inputs that is dropped", minimum=0.0)
    label_smoothing: float | None = option(None, "share of the loss that is spread over all words", minimum=0.0)
    warmup_steps: int | None = option(None, "steps of warm-up", minimum=0)
    remain_steps: float | None = option(
        None, "step from which on the rate is halved; below 1: share of all steps; 0: constant", minimum=0.0
    )
    decay_interval: int | None = option(None, "steps between two halvings; 0: the rest in four parts", minimum=0)
    max_sequence_length: int | None = option(
        None, "subwords of a side with BOS and EOS; longer pairs are left out", minimum=4
    )
    max_epochs: int | None = option(None, "give up after so many epochs", minimum=1)
    hidden: int | None = option(
        None, "values of a word and of an LSTM, a multiple of 8; null: the profile's", minimum=8
    )
    layers: int | None = option(None, "of encoder and of decoder, at least 2; null: the profile's", minimum=2)
    target: float | None = option(None, "BLEU to reach: a fraction under rules v0.7, points under others", minimum=0.0)


def profile_defaults(profile: str, rules: str, options: Mapping[str, Json], unit: float) -> Defaults:
    """What a profile means, with the sizes that `options` name; `unit`: what a point of BLEU is in targets.

    Raises ValueError for a profile or a size that there is not.
    """
    sizes = {name: options[name] for name in ("hidden", "layers") if options.get(name) is not None}
    if sizes.get("hidden", 8) % 8:
        given = sizes["hidden"]
        raise ValueError(f"workload.hidden={given}: not a multiple of 8; type workload.hidden={given // 8 * 8 + 8}")
    if profile == "demo":
        return Defaults("translation-demo", "demo", {**DEMO_MODEL, **sizes}, {"bleu": unit * DEMO_TARGET_BLEU})
    if profile in ("reference", "synthetic"):
        points = TARGETS_BLEU.get(rules, TARGETS_BLEU["v0.7"])
        chosen = "reference_v0.5" if rules == "v0.5" else "reference"
        return Defaults("wmt16-en-de", chosen, {**REFERENCE_MODEL, **sizes}, {"bleu": unit * points})
    raise ValueError(f"profile={profile}: gnmt has reference, demo, synthetic")
