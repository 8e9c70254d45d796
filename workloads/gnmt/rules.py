"""GNMT's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import ROUND_V05, ROUND_V07, Above, AtMost, Free, OneOf, Reference, Rule, Targets, Whole
from workloads.common.rules import (
    EVERY_V05,
    EVERY_V07,
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
_AS_REFERENCE = "Hyperparameters: by default the same as the reference"

_BOTH = (
    Rule(("dataset",), OneOf(("wmt16-en-de",)), "Benchmarks: WMT English-German; the reference's WMT16"),
    Rule(("model",), Reference(REFERENCE_MODEL), "Model: the same as the reference"),
    Rule(("hidden", "layers"), Free(), "parts of the model, which has a row of its own"),
    Rule(("beta1",), OneOf((0.9,)), _AS_REFERENCE),
    Rule(("beta2",), OneOf((0.999,)), _AS_REFERENCE),
    Rule(("epsilon",), OneOf((1e-8,)), _AS_REFERENCE),
    Rule(("clip_norm",), OneOf((5.0,)), _AS_REFERENCE),
    Rule(("dropout",), OneOf((0.2,)), _AS_REFERENCE),
    Rule(("label_smoothing",), OneOf((0.1,)), "Loss function: the same as the reference"),
    Rule(("buckets",), OneOf((5,)), ORDER),
    Rule(
        ("left_out_share",),
        AtMost(MOST_REPEATED),
        "Training Data Order: the reference leaves out what fills no batch of its bucket; how much is our reading",
    ),
    Rule(("beam_width",), OneOf((BEAM_WIDTH,)), "Quality measure: the same as the reference"),
    Rule(("reorder_coverage",), OneOf((False,)), "Quality measure: the same as the reference; its beam_search.py"),
    Rule(("validation_loss",), Free(), "Quality measure: BLEU; the loss stands beside it"),
    Rule(
        ("evaluation_batch_size", "evaluation_shapes"),
        Free(),
        "Graph Execution: any optimization that is mathematically equivalent",
    ),
)

V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        *_BOTH,
        Rule(("targets",), Targets({"bleu": 21.8}), "v0.5, Benchmarks: 21.8 BLEU"),
        Rule(("learning_rate",), Above(0), f"{_ROW_V05} learning rate: arbitrary constant{RATE}"),
        warm_up(f"v0.5, {PEAK}"),
        Rule(
            ("remain_steps", "decay_interval"),
            Free(),
            f"{_ROW_V05} decay_start, decay_interval: arbitrary constants of alt_decay, which may be used or not",
        ),
        Rule(("decay_factor",), OneOf((0.5,)), f"{_ROW_V05}: alt_decay as in the reference"),
        Rule(("decay_steps",), OneOf((4,)), f"{_ROW_V05}: alt_decay as in the reference"),
        Rule(("warmup_steps",), Whole(0), f"{_ROW_V05} learning_rate_warmup_steps: arbitrary; alt_warmup may be used"),
        Rule(
            ("max_sequence_length",),
            Whole(1),
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
        Rule(("targets",), Targets({"bleu": 0.24}), "v0.7, Benchmarks: 24.0 BLEU; closed_gnmt.yaml"),
        Rule(("learning_rate",), Above(0), f"{_ROW_V07} opt_base_learning_rate: unconstrained{RATE}"),
        warm_up(f"v0.7, {PEAK}"),
        Rule(
            ("remain_steps",),
            Free(),
            f"{_ROW_V07} opt_learning_rate_remain_steps: unconstrained; opt_learning_rate_alt_decay_func: true or false",
        ),
        Rule(("decay_interval",), Free(), f"{_ROW_V07} opt_learning_rate_decay_interval: unconstrained"),
        Rule(("decay_factor",), OneOf((0.5,)), f"{_ROW_V07} opt_learning_rate_decay_factor: fixed to reference"),
        Rule(("decay_steps",), OneOf((4,)), f"{_ROW_V07} opt_learning_rate_decay_steps: fixed to reference"),
        Rule(
            ("warmup_steps",),
            Whole(0),
            f"{_ROW_V07} opt_learning_rate_warmup_steps: unconstrained; opt_learning_rate_alt_warmup_func: true or false",
        ),
        Rule(("max_sequence_length",), Whole(1), f"{_ROW_V07} max_sequence_length: unconstrained"),
    ),
    sets={"reference": "reference", "synthetic": "reference"},
    listed_optimizers={"adam": frozenset({"pytorch", "tensorflow"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
