"""Transformer's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import ANY, ROUND_V05, ROUND_V07, Rule, above, at_targets, one_of, reference, rule, whole
from workloads.common.rules import (
    AS_REFERENCE_V05,
    AS_REFERENCE_V07,
    EVERY_V05,
    EVERY_V07,
    GRAPH,
    HYPERPARAMETERS_V05,
    HYPERPARAMETERS_V07,
    ORDER,
    PEAK,
    RATE,
    warm_up,
)
from workloads.transformer.settings import BEAM_WIDTH, REFERENCE_MODEL, SIZES

_ROW_V05 = f"{HYPERPARAMETERS_V05}, Transformer"
_ROW_V07 = f"{HYPERPARAMETERS_V07}, transformer"
_BUCKETS = ("bucket_first", "bucket_growth", "bucket_multiple")
_FAIRSEQ = "fairseq's label smoothing, which differs by ε / V in a label: NVIDIA's closed results of v0.5 to v0.7"


def _of_both(version: str, as_reference: str) -> tuple[Rule, ...]:
    """What both rounds say alike."""
    return (
        rule("dataset", one_of("wmt17-en-de"), f"{version}, Benchmarks: WMT English-German; the reference's is WMT17"),
        rule("model", reference(REFERENCE_MODEL), f"{version}, Model: the same as the reference"),
        rule(" ".join(SIZES), ANY, "what is typed is part of `model`, which has a row of its own"),
        rule("learning_rate", above(0), f"{_ROW_V05 if version == 'v0.5' else _ROW_V07}: arbitrary constant{RATE}"),
        warm_up(f"{version}, {PEAK}"),
        rule("warmup_steps", whole(0), f"{_ROW_V05 if version == 'v0.5' else _ROW_V07}: arbitrary constant"),
        rule("epsilon", one_of(1e-9), f"{as_reference}; v0.7 in a row of its own; closed_transformer.yaml"),
        rule("dropout label_smoothing", one_of(0.1), as_reference),
        rule("smoothed_over", one_of("others"), f"{version}, Loss function: the reference's"),
        rule("smoothed_over", one_of("all"), _FAIRSEQ),
        rule(
            "max_sequence_length",
            whole(1),
            f"{version}, Data Representation: a length N, and training examples that exceed it thrown out",
        ),
        Rule(
            _BUCKETS,
            ANY,
            f"v0.5, {ORDER}, whose batches are of similar lengths"
            if version == "v0.5"
            else "v0.7, Training Data Order: arbitrary batching of data in random order",
        ),
        rule("beam_width", one_of(BEAM_WIDTH), f"{version}, Quality measure: the same as the reference's"),
        rule("cudnn_attention evaluation_batch_size evaluation_shapes", ANY, f"{version}, {GRAPH}"),
        rule("validation_loss", ANY, "a further measure, which decides nothing"),
    )


V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        *_of_both("v0.5", AS_REFERENCE_V05),
        rule("targets", at_targets({"bleu": 25.0}), "v0.5, Benchmarks: 25.00 BLEU"),
        rule("beta1", one_of(0.9), AS_REFERENCE_V05),
        rule("beta2", one_of(0.997), AS_REFERENCE_V05),
    ),
    sets={"reference": "reference", "synthetic": "reference"},
)

V07 = replace(
    ROUND_V07,
    rows=(
        *EVERY_V07,
        *_of_both("v0.7", AS_REFERENCE_V07),
        rule("targets", at_targets({"bleu": 0.25}), "v0.7, Benchmarks: 25.0 BLEU; closed_transformer.yaml"),
        rule("beta1", ANY, f"{_ROW_V07} opt_adam_beta_1: arbitrary constant"),
        rule("beta2", ANY, f"{_ROW_V07} opt_adam_beta_2: arbitrary constant"),
    ),
    sets={"reference": "reference", "synthetic": "reference"},
    listed_optimizers={"adam": frozenset({"pytorch", "tensorflow"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
