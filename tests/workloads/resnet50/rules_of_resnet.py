"""Rules of ResNet-50: closed and open settings, and settings around the checker's limits."""

from suite.catalog.sets import named_sets
from tests.workloads.closed_logs import changed, varied
from tests.workloads.resnet50.test_resnet_workload import IMAGENET, build_workload
from workloads.resnet50.workload import ResNet50


def settings(set_name, rules="v0.7", **changes):
    target = {"v0.5": 0.749, "v0.7": 0.759}[rules]
    return changed(
        build_workload(set_name, rules=rules, targets={"top1": target}).settings, **changes
    )


SGD = settings(
    "nvidia_v0.7_dgx1", optimizer="sgd", learning_rate=6.0, weight_decay=2.5e-5, warmup_epochs=5,
    horizon_epochs=42, global_batch_size=3264, lars_coefficient=0.0,
)  # fmt: skip
"""NVIDIA's closed v0.7 result on a DGX A100."""
LARS = settings("nvidia_v0.7_dgx1")

CLOSED = [
    (LARS, []),
    (SGD, []),
    (changed(LARS, weight_decay=5e-5, label_smoothing=0.0), []),
    (changed(SGD, weight_decay=4e-4), []),
    (changed(LARS, label_smoothing=0.05), ["label_smoothing 0.05, not 0 or 0.1"]),
    (changed(LARS, momentum=0.95), ["momentum 0.95, not 0.9"]),
    (changed(LARS, momentum=0.95, global_batch_size=32_768), []),
    (changed(LARS, warmup_epochs=40), ["horizon_epochs 37, not warmup_epochs or more"]),
    (settings("reference"), ["decay steps, not polynomial"]),
    (settings("reference_v0.5", "v0.5"), []),
    (settings("reference_v0.5_1gpu", "v0.5"), []),
    (
        settings("reference", "v0.5"),
        ["initialisation truncated_normal, not truncated_normal_glorot or gaussian_2_everywhere"],
    ),
    (settings("nvidia_v0.5_dgx1", "v0.5"), []),
    (settings("dgx1_article_1gpu", "v0.5"), []),
    (settings("reference_v0.5", "v0.5", precision="tf32"),
     ["precision tf32, not fp32 or fp16 or bf16"]),
    (settings("reference_v0.5", "v0.5", decay_epochs=[33, 66, 88, 99]), []),
    (settings("reference_v0.5", "v0.5", warmup_epochs=30), []),  # See test_warm_up.
    (changed(LARS, rules="v0.6"), ["rules v0.6, whose round has no resnet50"]),
    (
        changed(LARS, dataset="imagenet-demo", targets={"top1": 0.7},
                options={"decode": "scaled", "skip_bad": True}),
        [
            "data set imagenet-demo, not imagenet", "targets top1 0.7, not top1 0.759 or above",
            "decode scaled, not exact", "skip_bad true, not false",
        ],
    ),
]  # fmt: skip

OPEN = [
    (settings("nvidia_v0.7_dgx1", "v0.5"), {"optimizer lars, not sgd"}),
    (
        settings("demo"),
        {"weight_decay 0.0005, not 0.0001 · 2^N", "evaluation_interval_epochs 1, not 4"},
    ),
]

LEAST = 30
LAXER = {
    "momentum": "closed_resnet_sgd.yaml and closed_resnet_lars.yaml do not look at the value",
    "label_smoothing": (
        "not logged under a key of the rules (two asterisks in their table): to be checked by hand"
    ),
    "power": "closed_resnet_sgd.yaml does not look at the value",
    "warmup_epochs": "the checker does not look at the value",
    "horizon_epochs": "the checker does not look at the number of steps",
    "lars_coefficient": "not logged",
    **dict.fromkeys(
        ("evaluation_interval_epochs", "evaluation_offset_epochs"),
        "the checker does not look at when evaluations come",
    ),
    **dict.fromkeys(
        (
            "precision",
            "dataset",
            "decode",
            "stop",
            "timing_warmup_steps",
            "update",
            "straggler_ms",
            "repeated_share",
        ),
        "not logged under a key of the rules",
    ),
    "warmup_samples": "the checker does not look at how long the warm-up is",
    "learning_rate": "the checker takes 0",
}
EDGES = {
    "learning_rate": [0.0, 0.001, 0.0015, 0.5125, 0.51234, 7.4, 10.5],
    "weight_decay": [1e-4 * 2.0**n for n in range(-3, 4)] + [5e-4, 3e-4, 1.1e-4, 0.0],
    "label_smoothing": [0.0, 0.05, 0.1, 0.2],
    "momentum": [0.0, 0.9, 0.95],
    "warmup_epochs": [0, 1, 5, 37, 50],
    "horizon_epochs": [2, 90],
    "end_learning_rate": [0.0, 1e-5, 1e-4, 2e-4],
    "power": [1.0, 2.0, 2.5],
    "global_batch_size": [256, 32_768],
    "evaluation_interval_epochs": [1, 2, 4, 5],
    "evaluation_offset_epochs": [1, 4, 5],
    "max_epochs": [1, 200],
    "targets": [{"top1": 0.75}, {"top1": 0.76}],
    "precision": ["fp16", "bf16", "tf32", "int1"],
    "dataset": ["imagenet-demo"],
    "options": [{"decode": "scaled"}, {"compile": "off", "evaluation_batch_size": 7}],
    "stop": ["epochs:2"],
    "timing_warmup_steps": [3],
    "update": ["async"],
    "straggler_ms": [20],
}


def around_the_edges():
    of_lars = {"lars_coefficient": [0.002], **EDGES}
    cases = [
        *varied(LARS, of_lars),
        *varied(SGD, EDGES),
        *(settings(name) for name in named_sets(ResNet50)),
    ]
    cases += [
        changed(LARS, momentum=0.95, global_batch_size=32_768),
        changed(SGD, warmup_epochs=2.5),
    ]
    return [ResNet50(case, IMAGENET) for case in cases]
