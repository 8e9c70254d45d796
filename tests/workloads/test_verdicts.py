"""Settings that violate a rule, and settings within the rules, by section of the rules' texts.

The texts are those of v0.5 and v0.7.
"""

import pytest

from suite.catalog.division import find_deviations
from suite.worker.evaluation import targets_reached
from tests.workloads.closed_logs import changed
from tests.workloads.rules_page import PUBLISHED, default_settings, opened_by
from workloads.gnmt.workload import GNMT
from workloads.maskrcnn.workload import MaskRCNN
from workloads.ncf.workload import NCF
from workloads.resnet50.workload import ResNet50
from workloads.ssd.workload import SSD
from workloads.transformer.workload import Transformer

RUNS = [
    *((NCF, "v0.5"), (ResNet50, "v0.5"), (SSD, "v0.5"), (MaskRCNN, "v0.5"), (Transformer, "v0.5")),
    *((ResNet50, "v0.7"), (SSD, "v0.7"), (MaskRCNN, "v0.7"), (GNMT, "v0.7"), (Transformer, "v0.7")),
]
"""Workloads and rounds that can be closed."""
OF_EVERY = {
    "Closed Division: profile": lambda run, _: changed(run, profile="demo"),
    "Definitions: a run trains": lambda run, _: changed(run, mode="forward_backward"),
    "Definitions: a run evaluates what it trained": lambda run, _: changed(run, mode="inference"),
    "Quality measure: each run must reach the target": lambda run, _: changed(run, stop="epochs:1"),
    "Benchmarks: target": lambda run, _: changed(
        run, targets={name: 0.99 * value for name, value in run.targets.items()}
    ),
    "Benchmarks: data set": lambda run, _: changed(run, dataset="mine"),
    "Run Results: the period has no gaps": lambda run, _: changed(run, timing_warmup_steps=5),
    "Optimizer: updates are by all gradients": lambda run, _: changed(run, update="async"),
    "a device that sleeps": lambda run, _: changed(run, straggler_ms=50),
    "Numerical formats": lambda run, _: changed(run, precision="int8"),
    "Model": lambda run, _: changed(
        run, model={**run.model, "hidden": 7, "blocks": [1], "mlp_layer_sizes": [7]}
    ),
    "Hyperparameters: a rate of 0": lambda run, _: changed(run, learning_rate=0.0),
}
OPEN = {
    ResNet50: {
        "v0.5": [
            {"momentum": 0.8}, {"weight_decay": 2e-4}, {"label_smoothing": 0.1},
            {"decay_factor": 0.5}, {"optimizer": "lars"}, {"decay_epochs": [10, 20]},
            {"lr_in_momentum": "sideways"}, {"initialisation": "gaussian_2"},
            {"evaluation_interval_epochs": 5}, {"evaluation_offset_epochs": 5},
            {"learning_rate": 0.12345}, {"decode": "scaled"}, {"skip_bad": True},
            {"global_batch_size": 100_000}, {"warmup_epochs": 50},
        ],
        "v0.7": [{"lr_in_momentum": True}, {"initialisation": "gaussian_2_everywhere"}],
    },
    SSD: {
        "v0.5": [
            {"momentum": 0.8}, {"decay_unit": "epochs"}, {"learning_rate": 0.00123},
            {"decay_boundaries": [100_000, 200_000]}, {"skip_bad": True},
            {"global_batch_size": 100_000}, {"warmup_steps": 10_000_000},
        ],
        "v0.7": [{"global_batch_size": 100_000}, {"warmup_steps": 9_000}],
    },
    MaskRCNN: {
        "v0.5": [
            {"num_image_candidates": 1_500}, {"weight_decay": 1e-3}, {"momentum": 0.8},
            {"warmup_steps": 479_999},
        ],
    },
    GNMT: {
        "v0.7": [{"options": {"reorder_coverage": True}}, {"global_batch_size": 1_000_000}],
    },
    Transformer: {
        "v0.5": [{"beta2": 0.98}, {"dropout": 0.2}, {"label_smoothing": 0.0}, {"epsilon": 1e-8},
                 {"options": {"beam_width": 5}}],
        "v0.7": [{"global_batch_size": 70_000_000}],
    },
}  # fmt: skip
"""Changes that rules_of_WORKLOAD.py does not cover.

Those modules compare the rules of v0.7, and NCF's, with the stock checker.
"""
CLOSED = {
    "Numerical formats": lambda run: changed(run, precision="fp16"),
    "Numerical formats: bf16": lambda run: changed(run, precision="bf16"),
    "Hardware: any number of devices": lambda run: changed(
        run, devices=2, nodes=2, cores_per_device=3
    ),
    "Graph Execution: evaluation": lambda run: changed(
        run, options={**run.options, **EVALUATION.get(run.workload, {})}
    ),
    "Random numbers: any seed": lambda run: changed(run, seed=4711),
    "Hyperparameters: batch size arbitrary": lambda run: changed(
        run, global_batch_size=run.global_batch_size // 2
    ),
}
EVALUATION = {
    "ncf": {"evaluation_users_per_batch": 7},
    "ssd": {"evaluation_batch_size": 7},
    "gnmt": {"evaluation_shapes": 7},
}
BREAKING = [
    *(
        (workload, rules, name, change)
        for workload, rules in RUNS
        for name, change in OF_EVERY.items()
    ),
    *(
        (workload, rules, str(values), lambda run, _, values=values: changed(run, **values))
        for workload, rounds in OPEN.items() for rules, cases in rounds.items() for values in cases
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "rules", "change"),
    [
        pytest.param(workload, rules, change, id=f"{workload.name}-{rules}-{name}")
        for workload, rules, name, change in BREAKING
    ],
)
def test_settings_that_violate_a_rule_are_open(workload, rules, change):
    settings = default_settings(workload, rules, "tensorflow")
    assert opened_by(workload(settings, PUBLISHED[workload])) == []
    changed_settings = change(settings, rules)
    try:
        found = opened_by(workload(changed_settings, PUBLISHED[workload]))
    except (AssertionError, ValueError, LookupError, TypeError):
        # There is no network, or no plan, for such settings.
        found = find_deviations(workload, changed_settings)
    assert found


@pytest.mark.parametrize(("workload", "rules"), RUNS)
@pytest.mark.parametrize("name", CLOSED)
def test_settings_within_the_rules_are_closed(workload, rules, name):
    settings = CLOSED[name](default_settings(workload, rules, "tensorflow"))
    assert opened_by(workload(settings, PUBLISHED[workload])) == []


@pytest.mark.parametrize(("workload", "rules"), RUNS)
def test_a_user_defined_seed_and_caches_that_were_not_cleared_are_open(workload, rules):
    run = workload(default_settings(workload, rules, "tensorflow"), PUBLISHED[workload])
    assert len(opened_by(run, seed_source="user")) == len(opened_by(run, cache_clear=False)) == 1


@pytest.mark.parametrize(
    ("workload", "met", "missed"),
    [
        (GNMT, {"bleu": 0.24}, [{"bleu": 0.2399}]),
        (Transformer, {"bleu": 0.25}, [{"bleu": 0.2499}]),
        (
            MaskRCNN,
            {"BBOX": 0.377, "SEGM": 0.339},
            [{"BBOX": 0.3769, "SEGM": 0.35}, {"BBOX": 0.39, "SEGM": 0.3389}],
        ),
    ],
)
def test_every_target_must_be_met(workload, met, missed):
    run = workload(default_settings(workload, "v0.7", "pytorch"), PUBLISHED[workload])
    assert [targets_reached(quality, run.settings.targets) for quality in (met, *missed)] == [
        True
    ] + [False] * len(missed)
