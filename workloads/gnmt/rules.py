"""GNMT's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import ANY, ROUND_V05, ROUND_V07, above, at_most, at_targets, one_of, reference, rule, whole
from workloads.common.rules import (
    AS_REFERENCE,
    EVERY_V05,
    EVERY_V07,
    GRAPH,
    HYPERPARAMETERS_V05,
    HYPERPARAMETERS_V07,
    MOST_REPEATED,
    ORDER,
    PEAK,
    RATE,
    warm_up,
)
from workloads.gnmt.settings import BEAM_WIDTH, REFERENCE_MODEL

_ROW_V05 = f"{HYPERPARAMETERS_V05}, GNMT"
_ROW_V07 = f"{HYPERPARAMETERS_V07}, gnmt"

_BOTH = (
    rule("dataset", one_of("wmt16-en-de"), "Benchmarks: WMT English-German; the reference's WMT16"),
    rule("model", reference(REFERENCE_MODEL), "Model: the same as the reference"),
    rule("hidden layers", ANY, "parts of the model, which has a row of its own"),
    rule("beta1", one_of(0.9), AS_REFERENCE),
    rule("beta2", one_of(0.999), AS_REFERENCE),
    rule("epsilon", one_of(1e-8), AS_REFERENCE),
    rule("clip_norm", one_of(5.0), AS_REFERENCE),
    rule("dropout", one_of(0.2), AS_REFERENCE),
    rule("label_smoothing", one_of(0.1), "Loss function: the same as the reference"),
    rule("buckets", one_of(5), ORDER),
    rule(
        "left_out_share",
        at_most(MOST_REPEATED),
        "Training Data Order: the reference leaves out what fills no batch of its bucket; how much is our reading",
    ),
    rule("beam_width", one_of(BEAM_WIDTH), "Quality measure: the same as the reference"),
    rule("reorder_coverage", one_of(False), "Quality measure: the same as the reference; its beam_search.py"),
    rule("validation_loss", ANY, "Quality measure: BLEU; the loss stands beside it"),
    rule("evaluation_batch_size evaluation_shapes", ANY, GRAPH),
)

V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        *_BOTH,
        rule("targets", at_targets({"bleu": 21.8}), "v0.5, Benchmarks: 21.8 BLEU"),
        rule("learning_rate", above(0), f"{_ROW_V05} learning rate: arbitrary constant{RATE}"),
        warm_up(f"v0.5, {PEAK}"),
        rule(
            "remain_steps decay_interval",
            ANY,
            f"{_ROW_V05} decay_start, decay_interval: arbitrary constants of alt_decay, which may be used or not",
        ),
        rule("decay_factor", one_of(0.5), f"{_ROW_V05}: alt_decay as in the reference"),
        rule("decay_steps", one_of(4), f"{_ROW_V05}: alt_decay as in the reference"),
        rule("warmup_steps", whole(0), f"{_ROW_V05} learning_rate_warmup_steps: arbitrary; alt_warmup may be used"),
        rule(
            "max_sequence_length",
            whole(1),
            "v0.5, Data Representation: a length N of the training set, longer examples thrown out",
        ),
    ),
    sets={"reference": "reference_v0.5", "synthetic": "reference_v0.5"},
    not_built="network and order of v0.6 on, not those of tag v0.5",
)
"""Tag v0.5 (rnn_translator) drops nothing before the first layer of encoder and decoder and no context, draws first weights as
PyTorch does (LSTMs and linear layers in ±1/32, the embedding from N(0, 1)), sorts the pairs within shards of 80 batches, and
doubles the scale of fp16 after 2,048 steps."""

V07 = replace(
    ROUND_V07,
    rows=(
        *EVERY_V07,
        *_BOTH,
        rule("targets", at_targets({"bleu": 0.24}), "v0.7, Benchmarks: 24.0 BLEU; closed_gnmt.yaml"),
        rule("learning_rate", above(0), f"{_ROW_V07} opt_base_learning_rate: unconstrained{RATE}"),
        warm_up(f"v0.7, {PEAK}"),
        rule(
            "remain_steps",
            ANY,
            f"{_ROW_V07} opt_learning_rate_remain_steps: unconstrained; opt_learning_rate_alt_decay_func: true or false",
        ),
        rule("decay_interval", ANY, f"{_ROW_V07} opt_learning_rate_decay_interval: unconstrained"),
        rule("decay_factor", one_of(0.5), f"{_ROW_V07} opt_learning_rate_decay_factor: fixed to reference"),
        rule("decay_steps", one_of(4), f"{_ROW_V07} opt_learning_rate_decay_steps: fixed to reference"),
        rule(
            "warmup_steps",
            whole(0),
            f"{_ROW_V07} opt_learning_rate_warmup_steps: unconstrained; opt_learning_rate_alt_warmup_func: true or false",
        ),
        rule("max_sequence_length", whole(1), f"{_ROW_V07} max_sequence_length: unconstrained"),
    ),
    sets={"reference": "reference", "synthetic": "reference"},
    listed_optimizers={"adam": frozenset({"pytorch", "tensorflow"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
