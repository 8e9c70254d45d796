"""Translation with attention: the Transformer on WMT17 English-German.

MLPerf Training has the benchmark in v0.5 to v0.7. No framework is used.
"""

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
from workloads.transformer.settings import (
    REFERENCE_MODEL,
    SIZES,
    TransformerOptions,
    profile_defaults,
)

REFERENCE_PARAMETERS = 210_804_736
"""Number of parameters with 33,708 subwords (docs/reference/workloads/transformer.md)."""
REFERENCE_VOCABULARY = 33_708
LENGTH_PENALTY = 0.6
"""Length penalty of the beam search (reference model_params.py)."""


class Transformer(TranslationWorkload):
    """Translation with attention.

    Adam neither clips gradients nor is lazy. Lazy Adam would compute the same updates, since the
    tied classifier has a gradient for every row of the embedding table.
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
            assert count == REFERENCE_PARAMETERS, (
                f"{count} parameters, not the reference's {REFERENCE_PARAMETERS}"
            )

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the defaults of a profile.

        The target is 25 BLEU, or 0.25 under v0.7, which uses fractions.
        """
        return profile_defaults(profile, round, options)

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return the bytes of a token on both sides.

        They are log-probabilities in fp32, and the stored values of each layer.

        Values of layers have 4 bytes, or 2 bytes in half precision.
        """
        model = settings.model
        words = REFERENCE_VOCABULARY if settings.profile != "demo" else 0
        layer_values = int(model["layers"]) * (
            16 * int(model["hidden"]) + 4 * int(model["feed_forward"])
        )
        return 4 * words + layer_values * (2 if settings.precision in ("bf16", "fp16") else 4)

    # -- batches, schedule
    # ----------------------------------------------------------------------------------------

    def buckets(self) -> tuple[Bucket, ...]:
        """Return buckets whose edges grow by a factor.

        Each has as many pairs as fit into a batch (reference utils/dataset.py).
        """
        values = self.options
        edges = growing_edges(
            values.bucket_first,
            values.bucket_growth,
            values.bucket_multiple,
            values.max_sequence_length,
        )
        return buckets_by_tokens(edges, self.settings.global_batch_size, self.settings.devices)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step.

        It is linear from 0 at step 0, then rate · √(warmup_steps / step) (reference
        transformer_main.py).
        """
        values = self.options
        return schedules.inverse_root(step, values.warmup_steps, values.learning_rate)

    # -- loss
    # ----------------------------------------------------------------------------------------------

    @property
    def label_shares(self) -> tuple[float, float]:
        """Weights of the two parts of a token's loss, whose sum is 1.

        The parts are -log p of the label, and the mean of -log p over the vocabulary.

        `smoothed_over=others`: each of the V - 1 other words has a share of ε / (V - 1) (reference
        metrics.py). `all`: each of the V words has a share of ε / V (fairseq).
        """
        smoothing, words = self.options.label_smoothing, self.network.vocabulary
        if self.options.smoothed_over == "all":
            return 1 - smoothing, smoothing
        share = smoothing / (words - 1)
        return 1 - smoothing - share, share * words

    @property
    def least_loss(self) -> float:
        """Entropy of a smoothed label.

        The reference subtracts it from each loss term (metrics.py). It is 0 for fairseq's loss.
        """
        smoothing, words = self.options.label_smoothing, self.network.vocabulary
        if self.options.smoothed_over == "all" or not smoothing:
            return 0.0
        return -(
            (1 - smoothing) * math.log(1 - smoothing)
            + smoothing * math.log(smoothing / (words - 1))
        )

    # -- weights, quality
    # -----------------------------------------------------------------------------------------

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return network.initial_weights(self.network, seed)

    @property
    def longest(self) -> int:
        """Largest number of positions in training, validation and translation."""
        sizes = self.dataset_info.sizes
        translation = sizes["test_longest"] + 1 + int(self.settings.model["extra_length"])
        return max(self.options.max_sequence_length, sizes["dev_longest"] + 1, translation)

    @property
    def beam(self) -> Beam:
        """Beam search of the reference.

        Finished translations leave the beam, and padding precedes the first word.
        """
        return Beam(self.options.beam_width, LENGTH_PENALTY, start=PAD, end=self.end)

    def longest_translation(self, batch: Batch) -> Array:
        """Return the maximum number of tokens of each translation (B,).

        It is the length of the source + 50.
        """
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
        """Return the treatment of pairs that are too long (closed_transformer.yaml of v0.7)."""
        return {"max_sequence_length": {"method": "discard"}}
