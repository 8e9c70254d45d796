"""Translation by attention: the Transformer on WMT17 English-German, MLPerf Training v0.5 to v0.7. Framework-free."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from workloads.api import Array, Batch, DatasetInfo, Defaults, Json, Round, Settings
from workloads.common import schedules
from workloads.common.batch_plan import Bucket, buckets_by_tokens
from workloads.common.text.batches import growing_edges
from workloads.common.text.beam import Beam
from workloads.common.text.dataset_info import WMT17
from workloads.common.text.vocabulary import PAD, SHIFTED
from workloads.common.text.workload import TranslationWorkload
from workloads.transformer import network
from workloads.transformer.settings import REFERENCE_MODEL, SIZES, TransformerOptions, profile_defaults

REFERENCE_PARAMETERS = 210_804_736
"""With 33,708 words (docs/transformer.md has the sum)."""
REFERENCE_VOCABULARY = 33_708
LENGTH_PENALTY = 0.6
"""Reference model_params.py."""


class Transformer(TranslationWorkload):
    """Translation by attention.

    Adam is neither clipped nor lazy: the tied classifier gives every row of the table a gradient; lazy Adam would do the same.
    """

    name = "transformer"
    mlperf_name = "transformer"
    batch_unit = "tokens"
    reference_model = REFERENCE_MODEL
    framing = SHIFTED
    weigh_tokens = True
    every_pair = True
    data = WMT17
    Options = TransformerOptions
    options: TransformerOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.network = network.build(settings.model, self.vocabulary_size, self.options.dropout)
        is_reference = all(settings.model[name] == REFERENCE_MODEL[name] for name in SIZES)
        if is_reference and self.network.vocabulary == REFERENCE_VOCABULARY:
            count = sum(network.parameter_counts(self.network).values())
            assert count == REFERENCE_PARAMETERS, f"{count} parameters, not the reference's {REFERENCE_PARAMETERS}"

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """The target is 25 points; under rules v0.7 it is a fraction, 0.25."""
        return profile_defaults(profile, round, options)

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Of a token on both sides: log-probabilities, and what each layer keeps; fp32 or, but for the former, half of it."""
        model = settings.model
        words = REFERENCE_VOCABULARY if settings.profile != "demo" else 0
        of_layers = int(model["layers"]) * (16 * int(model["hidden"]) + 4 * int(model["feed_forward"]))
        return 4 * words + of_layers * (2 if settings.precision in ("bf16", "fp16") else 4)

    # -- batches, schedule ----------------------------------------------------------------------------------------

    def buckets(self) -> tuple[Bucket, ...]:
        """Edges that grow by a factor; as many pairs as fit the batch's tokens (reference utils/dataset.py)."""
        values = self.options
        edges = growing_edges(
            values.bucket_first, values.bucket_growth, values.bucket_multiple, values.max_sequence_length
        )
        return buckets_by_tokens(edges, self.settings.global_batch_size, self.settings.devices)

    def learning_rate(self, step: int) -> float:
        """Linear from 0 (step 0) to the rate, then rate · √(warm-up / step) (reference transformer_main.py)."""
        values = self.options
        return schedules.inverse_root(step, values.warmup_steps, values.learning_rate)

    # -- loss -----------------------------------------------------------------------------------------------------

    @property
    def label_shares(self) -> tuple[float, float]:
        """What -log p of the label, and the mean over the vocabulary of -log p, count in a token's loss; they add up to 1.

        `others`: each of the V - 1 other words gets ε / (V - 1) (reference metrics.py); `all`: each of V words ε / V (fairseq).
        """
        smoothing, words = self.options.label_smoothing, self.network.vocabulary
        if self.options.smoothed_over == "all":
            return 1 - smoothing, smoothing
        on_each = smoothing / (words - 1)
        return 1 - smoothing - on_each, on_each * words

    @property
    def least_loss(self) -> float:
        """Entropy of a smoothed label, which the reference takes off each token's loss (metrics.py); 0 with fairseq's loss."""
        smoothing, words = self.options.label_smoothing, self.network.vocabulary
        if self.options.smoothed_over == "all" or not smoothing:
            return 0.0
        return -((1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(smoothing / (words - 1)))

    # -- weights, quality -----------------------------------------------------------------------------------------

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return network.initial_weights(self.network, seed)

    @property
    def longest(self) -> int:
        """Positions that training, validation or a translation can reach."""
        sizes = self.dataset_info.sizes
        said = sizes["test_longest"] + 1 + int(self.settings.model["extra_length"])
        return max(self.options.max_sequence_length, sizes["dev_longest"] + 1, said)

    @property
    def beam(self) -> Beam:
        """The reference's: finished translations lie aside; what comes before the first word is padding."""
        return Beam(self.options.beam_width, LENGTH_PENALTY, start=PAD, end=self.end)

    def longest_translation(self, batch: Batch) -> Array:
        """(B,) 50 tokens more than the source has."""
        longest: Array = batch.arrays["source_length"] + int(self.settings.model["extra_length"])
        return longest

    def log_keys(self) -> Mapping[str, Json]:
        return {
            **super().log_keys(),
            "model_hp_hidden_size": self.network.hidden,
            "model_hp_filter_size": self.network.feed_forward,
            "model_hp_num_layers": self.network.layers,
            "model_hp_num_heads": self.network.heads,
            "eval_hp_extra_length": self.settings.model["extra_length"],
        }

    def log_metadata(self) -> Mapping[str, Mapping[str, Json]]:
        """How long pairs are treated (closed_transformer.yaml of v0.7)."""
        return {"max_sequence_length": {"method": "discard"}}
