"""Settings of GNMT: model sizes, targets, and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Json, Round, WorkloadOptions, hyperparameter, option
from workloads.common.text.workload import TranslationOptions

DEMO_TARGET_BLEU = 50.0
"""Target of the GNMT demo in BLEU points."""
REFERENCE_MODEL: Mapping[str, Json] = {
    "hidden": 1_024, "layers": 4, "initial": 0.1, "initial_embedding": 0.1,
    "longest_translation": 149,
}  # fmt: skip
"""Model settings of the reference (gnmt.py, encoder.py, decoder.py, train.py).

`initial` is the bound of the uniform distribution of initial weights. The reference allows 150
tokens including BOS (train.py, beam_search.py). `longest_translation` excludes BOS and includes
EOS, so it is 149.
"""
DEMO_MODEL: Mapping[str, Json] = {
    "hidden": 128, "layers": 3, "initial": 0.28, "initial_embedding": 0.1,
    "longest_translation": 80,
}  # fmt: skip
"""Smaller model for demos (docs/reference/workloads/gnmt.md).

`initial` is 0.1 · √(1,024 / 128) = 0.28. With this bound, the sums in the layers have the same
variance as in the reference.
"""


@dataclass(frozen=True, kw_only=True)
class GNMTOptions(TranslationOptions, WorkloadOptions):
    """Options `workload.*` of GNMT."""

    name: str = "gnmt"
    warmup_steps: int = hyperparameter(
        "steps of warm-up, from a hundredth of the rate, exponentially", minimum=0
    )
    remain_steps: float = hyperparameter(
        "step from which on the rate is halved; up to 1: share of the steps of max_epochs; 0:"
        " constant",
        minimum=0.0,
    )
    decay_interval: int = hyperparameter(
        "steps between two halvings; 0: the rest in decay_steps parts", minimum=0
    )
    decay_steps: int = hyperparameter("decays in all", minimum=0, overridable=False)
    decay_factor: float = hyperparameter("of each decay", minimum=0.0, overridable=False)
    clip_norm: float = hyperparameter(
        "most that the L2 norm of all gradients may be", minimum=0.0, overridable=False
    )
    dropout: float = hyperparameter("share of an LSTM's inputs that is dropped", minimum=0.0)
    buckets: int = hyperparameter(
        "of equal widths, up to the longest pair", minimum=1, overridable=False
    )
    max_sequence_length: int = hyperparameter(
        "subwords of a side with BOS and EOS; longer pairs are left out", minimum=4
    )
    reorder_coverage: bool = option(
        False,
        "the beam search's sums of attention move with their hypotheses; in the reference they stay"
        " in their places",
    )
    hidden: int | None = option(
        None, "values of a word and of an LSTM, a multiple of 8; null: the profile's", minimum=8
    )
    layers: int | None = option(
        None, "of encoder and of decoder, at least 2; null: the profile's", minimum=2
    )


def profile_defaults(profile: str, of_round: Round, options: Mapping[str, Json]) -> Defaults:
    """Return the defaults of a profile in a round. `options` can set the model sizes.

    Raises:
        ValueError: The profile or a model size is invalid.
    """
    sizes = {name: options[name] for name in ("hidden", "layers") if options.get(name) is not None}
    if sizes.get("hidden", 8) % 8:
        hidden = sizes["hidden"]
        raise ValueError(
            f"workload.hidden={hidden}: not a multiple of 8. Set"
            f" workload.hidden={hidden // 8 * 8 + 8}"
        )
    target = {"bleu": of_round.bleu_scale * DEMO_TARGET_BLEU}
    demo = Defaults("translation-demo", "demo", {**DEMO_MODEL, **sizes}, target)
    return of_round.defaults("gnmt", profile, {**REFERENCE_MODEL, **sizes}, demo)
