"""Recurrent translation: GNMT on WMT16 English-German, MLPerf Training v0.5 to v0.7.

This module does not import a framework.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from workloads.api import (
    Array,
    Batch,
    DatasetInfo,
    Defaults,
    Json,
    OptimizerSettings,
    Round,
    Settings,
    build_options,
)
from workloads.common import schedules
from workloads.common.text.beam import Beam
from workloads.common.text.vocabulary import PAD, padded_size
from workloads.common.text.workload import TranslationWorkload
from workloads.gnmt import network
from workloads.gnmt.settings import REFERENCE_MODEL, GNMTOptions, profile_defaults

REFERENCE_PARAMETERS = {32_320: 160_671_297, 32_317: 160_665_150}
"""Number of parameters for each vocabulary size.

In half precision, the vocabulary is padded, as in published logs. In fp32, the vocabulary has three
tokens fewer than in half precision. Each token has 2 · 1,024 + 1 parameters.
"""
REFERENCE_VOCABULARY = 32_320
HALF = ("bf16", "fp16")
WARMUP_START = 0.01
"""Ratio of the first warm-up learning rate to the peak learning rate (reference
lr_scheduler.py).
"""
LENGTH_PENALTY, COVERAGE_PENALTY = 0.6, 0.1
"""Length and coverage penalties of the beam search (reference train.py, beam_search.py)."""


class GNMT(TranslationWorkload):
    """Recurrent translation with GNMT."""

    name = "gnmt"
    mlperf_name = "gnmt"
    bleu_digits = 2
    """Number of decimal places of BLEU that `sacrebleu --score-only` prints (reference
    inference.py).
    """
    reference_model = REFERENCE_MODEL
    length_dependent_log_keys = TranslationWorkload.length_dependent_log_keys | {
        f"opt_learning_rate_{name}" for name in ("warmup_steps", "remain_steps", "decay_interval")
    }
    Options = GNMTOptions
    options: GNMTOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        multiple = network.VOCABULARY_MULTIPLE if settings.precision in HALF else 1
        words = padded_size(self.vocabulary_size, multiple)
        self.network = network.build(settings.model, words, self.options.dropout)
        is_reference = all(
            settings.model[name] == REFERENCE_MODEL[name] for name in ("hidden", "layers")
        )
        if is_reference and words in REFERENCE_PARAMETERS:
            count, reference = (
                sum(network.parameter_counts(self.network).values()),
                REFERENCE_PARAMETERS[words],
            )
            assert count == reference, f"{count} parameters, not the reference's {reference}"

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the defaults of a profile.

        The target is 21.8 BLEU points in v0.5, and a BLEU fraction of 0.24 in v0.7.
        """
        return profile_defaults(profile, round, options)

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return the number of bytes for the activations of the longest sentence pair.

        The activations are the logits, the gates, cell states, and outputs of each LSTM, and the
        attention sums.

        Each activation has 4 bytes, or 2 bytes in half precision.
        """
        model, longest = settings.model, build_options(cls.Options, settings).max_sequence_length
        hidden, lstms = int(model["hidden"]), 2 * int(model["layers"]) + 1
        words = REFERENCE_VOCABULARY if settings.profile != "demo" else 0
        values: int = (
            longest * (words + lstms * (network.GATES + 2) * hidden) + longest * longest * hidden
        )
        return values * (2 if settings.precision in HALF else 4)

    # -- schedule
    # ----------------------------------------------------------------------------------------------

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step.

        The learning rate increases exponentially from 1 % of the peak during the warm-up, and then
        decays in steps (reference lr_scheduler.py).

        In the reference, the scheduler advances before the optimizer step (fp_optimizers.py). The
        first update therefore uses the learning rate of scheduler position 1.
        """
        position, base = step + 1, self.options.learning_rate
        warming = schedules.exponential_warm_up(
            position, self.scheduled_warm_up, base, WARMUP_START
        )
        if warming is not None:
            return warming
        return schedules.step_decay(
            position, self.decay_boundaries, base, self.options.decay_factor
        )

    @property
    def scheduled_warm_up(self) -> int:
        """Return the scheduler position at which the learning rate is highest.

        The position is the end of the warm-up, or the first decay if the first decay is earlier.
        """
        return min(self.options.warmup_steps, self.remain_steps or self.options.warmup_steps)

    @property
    def warmup_steps(self) -> int:
        """Return the number of warm-up steps.

        The number is 1 less than in the hyperparameter set, because the first update uses scheduler
        position 1 instead of 0.
        """
        return max(self.options.warmup_steps - 1, 0)

    @property
    def remain_steps(self) -> int:
        """Return the first scheduler position with a decayed learning rate.

        The property is 0 if the learning rate never decays. If `remain_steps` in the hyperparameter
        set is at most 1.0, it is a fraction of all steps, as in the reference.
        """
        values = self.options
        is_share = 0 < values.remain_steps <= 1
        return int(
            values.remain_steps * (values.max_epochs * self.steps_per_epoch if is_share else 1)
        )

    @property
    def decay_interval(self) -> int:
        """Return the number of steps between two decays of the learning rate."""
        values = self.options
        rest = values.max_epochs * self.steps_per_epoch - self.remain_steps
        return values.decay_interval or max(rest // values.decay_steps, 1)

    @property
    def decay_boundaries(self) -> list[int]:
        """Return the steps at which the learning rate decays.

        The list is empty if the learning rate does not decay.
        """
        first, interval = self.remain_steps, self.decay_interval
        return (
            [first + number * interval for number in range(self.options.decay_steps)]
            if first
            else []
        )

    def optimizer(self) -> OptimizerSettings:
        """Return Adam without weight decay, with gradients clipped by their global norm."""
        return replace(super().optimizer(), clip_norm=self.options.clip_norm)

    # -- weights, quality
    # -----------------------------------------------------------------------------------------

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        scale, embedding_scale = (
            float(self.settings.model[name]) for name in ("initial", "initial_embedding")
        )
        return network.initial_weights(self.network, seed, scale, embedding_scale, PAD)

    @property
    def beam(self) -> Beam:
        """Return the beam search parameters of the reference.

        Lengths in the score include BOS, and ended hypotheses remain in the beam.
        """
        return Beam(
            self.options.beam_width,
            LENGTH_PENALTY,
            COVERAGE_PENALTY,
            counts_begin=True,
            keeps_finished=True,
            reorders_coverage=self.options.reorder_coverage,
        )

    def longest_translation(self, batch: Batch) -> Array:
        """Return the maximum number of tokens of a translation, equal for all sentences."""
        return np.full(len(batch.arrays["source"]), int(self.settings.model["longest_translation"]))

    def log_keys(self) -> Mapping[str, Json]:
        values = self.options
        return {
            **super().log_keys(),
            "opt_learning_rate_alt_decay_func": bool(self.decay_boundaries),
            "opt_learning_rate_alt_warmup_func": values.warmup_steps > 0,
            "opt_learning_rate_warmup_steps": self.scheduled_warm_up,
            "opt_learning_rate_remain_steps": self.remain_steps,
            "opt_learning_rate_decay_interval": self.decay_interval,
            "opt_learning_rate_decay_factor": values.decay_factor,
            "opt_learning_rate_decay_steps": values.decay_steps if self.decay_boundaries else 0,
            "model_hp_hidden_size": self.network.hidden,
            "model_hp_num_layers": self.settings.model["layers"],
            "model_parameters": sum(network.parameter_counts(self.network).values()),
        }
