"""Settings of the Transformer: model sizes, targets, and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Json, Round, WorkloadOptions, hyperparameter, option
from workloads.common.text.workload import TranslationOptions

DEMO_TARGET_BLEU = 50.0
"""Target of the Transformer demo in BLEU points."""
REFERENCE_MODEL: Mapping[str, Json] = {
    "hidden": 1_024, "feed_forward": 4_096, "layers": 6, "heads": 16, "extra_length": 50,
}  # fmt: skip
"""Model settings of the reference (model_params.py, TransformerBigParams).

`extra_length` is the maximum number of tokens by which a translation may be longer than its source.
"""
DEMO_MODEL: Mapping[str, Json] = {
    "hidden": 128,
    "feed_forward": 512,
    "layers": 2,
    "heads": 4,
    "extra_length": 50,
}
"""Smaller model for demos (docs/reference/workloads/transformer.md)."""
SIZES = ("hidden", "feed_forward", "layers", "heads")


@dataclass(frozen=True, kw_only=True)
class TransformerOptions(TranslationOptions, WorkloadOptions):
    """Options `workload.*` of the Transformer.

    The batch size is the number of tokens, including padding. The longer sentence of each pair
    determines the number of tokens of the pair.
    """

    name: str = "transformer"
    beam_width: int = option(
        4, "hypotheses of the beam search", minimum=1
    )  # The default is the value in the reference's model_params.py.
    learning_rate: float = hyperparameter("highest rate, at the end of the warm-up", minimum=0.0)
    warmup_steps: int = hyperparameter(
        "steps of linear warm-up; then the rate falls with the root of the step", minimum=0
    )
    beta1: float = hyperparameter("Adam's decay of the mean of gradients", minimum=0.0)
    beta2: float = hyperparameter("Adam's decay of the mean of squared gradients", minimum=0.0)
    dropout: float = hyperparameter("share dropped in all four places", minimum=0.0)
    smoothed_over: str = hyperparameter(
        "what shares the smoothed part of a label: others, all words but the label (0 at best), or"
        " all (fairseq)",
        choices=("others", "all"),
        overridable=False,
    )
    bucket_first: int = hyperparameter("edge of the first bucket, in tokens", minimum=1)
    bucket_growth: float = hyperparameter(
        "factor from one bucket's edge to the next, at least by 1", minimum=1.0
    )
    bucket_multiple: int = hyperparameter(
        "edges of buckets are rounded up to multiples of this", minimum=1
    )
    max_sequence_length: int = hyperparameter(
        "tokens of a side with EOS; longer pairs are left out", minimum=2
    )
    cudnn_attention: bool = option(
        False,
        "PyTorch on GPUs: let attention choose cuDNN's kernels, which build a plan for each new"
        " length of a search",
    )
    hidden: int | None = option(
        None, "values of a word, a multiple of twice the heads; null: the profile's", minimum=8
    )
    feed_forward: int | None = option(
        None, "values inside a feed-forward layer; null: the profile's", minimum=4
    )
    layers: int | None = option(None, "of encoder and of decoder; null: the profile's", minimum=1)
    heads: int | None = option(
        None, "of an attention, a multiple of 4; null: the profile's", minimum=4
    )


def profile_defaults(profile: str, of_round: Round, options: Mapping[str, Json]) -> Defaults:
    """Return the defaults of a profile in a round. `options` can set the model sizes.

    Raises:
        ValueError: The profile or a model size is invalid.
    """
    sizes = {name: options[name] for name in SIZES if options.get(name) is not None}
    models = [{**model, **sizes} for model in (REFERENCE_MODEL, DEMO_MODEL)]
    _check_sizes(models[profile == "demo"])
    target = {"bleu": of_round.bleu_scale * DEMO_TARGET_BLEU}
    demo = Defaults("translation-demo", "demo", models[1], target)
    return of_round.defaults("transformer", profile, models[0], demo)


def _check_sizes(model: Mapping[str, Json]) -> None:
    heads, hidden, inner = (int(model[name]) for name in ("heads", "hidden", "feed_forward"))
    for name, value, multiple, why in (
        ("heads", heads, 4, ""),
        ("hidden", hidden, 2 * heads, f" (twice the {heads} heads)"),
        ("feed_forward", inner, 4, ""),
    ):
        if value % multiple:
            best = value // multiple * multiple + multiple
            raise ValueError(
                f"workload.{name}={value}: not a multiple of {multiple}{why}. Set"
                f" workload.{name}={best}"
            )
