"""Translation with attention: the Transformer on WMT17 English-German.

MLPerf Training v0.5 to v0.7 includes this benchmark. This module does not import a framework.
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
    """Translation with the Transformer.

    Adam does not clip gradients and is not lazy. Lazy Adam would compute the same updates: because
    the classifier shares the embedding table, every row of the table has a gradient in every step.
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

        The target is 25 BLEU points. In v0.7, the target is the BLEU fraction 0.25.
        """
        return profile_defaults(profile, round, options)

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return the number of bytes for the activations of a source and a target token.

        The activations are log-probabilities in fp32, and the stored activations of each layer.

        An activation of a layer has 4 bytes, or 2 bytes in half precision.
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
        """Return buckets whose edges grow by a constant factor.

        Each bucket has as many pairs per batch as fit into the batch size (reference
        utils/dataset.py).
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

        The learning rate increases linearly from 0 at step 0. After the warm-up, the learning rate
        is rate · √(warmup_steps / step) (reference transformer_main.py).
        """
        values = self.options
        return schedules.inverse_root(step, values.warmup_steps, values.learning_rate)

    # -- loss
    # ----------------------------------------------------------------------------------------------

    @property
    def label_shares(self) -> tuple[float, float]:
        """Return the weights of the two terms of a token's loss, which add up to 1.

        The first term is -log p of the label. The second term is the mean of -log p over the
        vocabulary.

        With `smoothed_over=others`, each of the V - 1 tokens except the label has a weight of ε /
        (V - 1) (reference metrics.py). With `smoothed_over=all`, each of the V tokens has a weight
        of ε / V (fairseq).
        """
        smoothing, words = self.options.label_smoothing, self.network.vocabulary
        if self.options.smoothed_over == "all":
            return 1 - smoothing, smoothing
        share = smoothing / (words - 1)
        return 1 - smoothing - share, share * words

    @property
    def least_loss(self) -> float:
        """Return the entropy of a smoothed label.

        The reference subtracts the entropy from the loss of each token (metrics.py). fairseq does
        not subtract the entropy, so the property is 0 for fairseq's loss.
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
        """Return the maximum number of positions in training, validation, and translation."""
        sizes = self.dataset_info.sizes
        translation = sizes["test_longest"] + 1 + int(self.settings.model["extra_length"])
        return max(self.options.max_sequence_length, sizes["dev_longest"] + 1, translation)

    @property
    def beam(self) -> Beam:
        """Return the beam search parameters of the reference.

        Ended hypotheses leave the beam, and padding precedes the first token.
        """
        return Beam(self.options.beam_width, LENGTH_PENALTY, start=PAD, end=self.end)

    def longest_translation(self, batch: Batch) -> Array:
        """Return the maximum number of tokens of each translation (B,).

        By default, the maximum is the length of the source plus 50 tokens.
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
        """Return the log metadata about sentence pairs that are discarded as too long.

        The rule is in closed_transformer.yaml of v0.7.
        """
        return {"max_sequence_length": {"method": "discard"}}
