"""Cases of SSD's rules: closed and open settings, and settings around their limits."""

from suite.catalog.sets import named_sets
from tests.workloads.closed_logs import changed, varied
from tests.workloads.ssd.test_ssd_workload import COCO, build_workload, demo
from workloads.ssd.workload import SSD


def settings(set_name, rules="v0.7", **changes):
    target = {"v0.5": 0.212, "v0.7": 0.230}[rules]
    return changed(
        build_workload(set_name, rules=rules, targets={"map": target}).settings, **changes
    )


V07 = settings("nvidia_v0.7_dgx1")

CLOSED = [
    (settings("reference"), []),
    (V07, []),
    (settings("nvidia_v0.7_64xa100"), []),
    (changed(V07, learning_rate=0.012345), []),
    (changed(V07, decay_boundaries=[36, 45], warmup_factor=3), []),
    (
        changed(V07, decay_boundaries=[42, 52.5]),
        ["decay_boundaries [42, 52.5], not [40, 50] · (1 + k/10)"],
    ),
    (changed(V07, momentum=0.95), ["momentum 0.95, not 0.9"]),
    (changed(V07, max_samples=3), ["max_samples 3, not 1 or 50"]),
    (changed(V07, negatives_per_positive=3), []),
    (changed(V07, negatives_per_positive=4), ["negatives_per_positive 4, not 3"]),
    (settings("reference_1gpu"), ["warmup_steps 0, not 1 or more, whole"]),
    (settings("nvidia_v0.5_dgx1", "v0.5"), []),
    (settings("dgx1_article_1gpu", "v0.5"), []),
    (settings("nvidia_v0.5_dgx1", "v0.5", max_samples=7, weight_decay=1.6e-4, warmup_steps=0), []),
    (
        settings("nvidia_v0.5_dgx1", "v0.5", negatives_per_positive=4),
        ["negatives_per_positive 4, not 3"],
    ),
    (
        settings("nvidia_v0.5_dgx1", "v0.5", learning_rate=0.0955),
        ["learning_rate 0.0955, not 0.001 · k"],
    ),
    (settings("nvidia_v0.5_dgx1", "v0.5", decay_boundaries=[176_000, 220_000]), []),
    (changed(V07, options={"evaluator": "faster-coco-eval", "backbone_allow_other": True}), []),
    # The reference of v0.5 decays after 160,000 and 200,000 steps of 32 images: epochs 43.7 and
    # 54.6.
    (
        settings("reference", "v0.5"),
        [
            "decay_boundaries [40, 50], not [160000, 200000] · (1 + k/10), k ≥ 0",
            "decay_unit epochs, not iterations_of_32",
        ],
    ),
    (
        changed(V07, dataset="coco-demo", targets={"map": 0.2}, options={"decode": "scaled"}),
        [
            "data set coco-demo, not coco2017",
            "targets map 0.2, not map 0.23 or above",
            "decode scaled, not exact",
        ],
    ),
]

OPEN = [
    (settings("nvidia_v0.5_dgx1"), {"decay_unit iterations_of_32, not epochs"}),
    (demo().settings, {"profile demo, not reference", "decay cosine, not steps"}),
]

LEAST = 25
LAXER = {
    **dict.fromkeys(
        ("momentum", "decay_factor", "negatives_per_positive"),
        "not logged under a key of closed_ssd.yaml",
    ),
    "decay_boundaries": (
        "closed_ssd.yaml has CHECK twice under one key, so the first boundary is ignored"
    ),
    **dict.fromkeys(
        ("warmup_steps", "warmup_factor"), "the checker accepts numbers that are not integers"
    ),
    "evaluation_interval_epochs": "the checker ignores the times of evaluations",
    **dict.fromkeys(
        ("precision", "dataset", "decode", "mode"), "not logged under a key of the rules"
    ),
    "repeated_share": "not logged under a key of the rules",
    "warmup_samples": "the checker ignores the length of the warm-up",
    "learning_rate": "the checker accepts 0",
}
EDGES = {
    "learning_rate": [0.0, 1e-3, 2.5e-3, 0.012, 0.0875, 0.0123],
    "weight_decay": [0.0, 4e-5, 1.6e-4, 5e-4, 1.0],
    "warmup_steps": [0, 1, 299, 300.5],
    "warmup_factor": [-1, 0, 1, 7, 1.5],
    "max_samples": [0, 1, 2, 3, 49, 50, 51],
    "negatives_per_positive": [1, 3, 4],
    "momentum": [0.0, 0.9, 0.95],
    "decay_factor": [0.1, 0.2],
    "decay_boundaries": [
        [40 + 4 * k, 50 + 5 * k] for k in (-9, -1, 0, 1, 2, 10)
    ] + [[42, 52.5], [44, 50], [40, 55], [41, 51], [50]],
    "global_batch_size": [32, 8_192],
    "evaluation_interval_epochs": [1, 5],
    "max_epochs": [40, 200],
    "targets": [{"map": 0.212}, {"map": 0.24}],
    "precision": ["fp16", "bf16", "tf32", "int1"],
    "dataset": ["coco-demo"],
    "options": [{"decode": "scaled"}, {"evaluator": "faster-coco-eval"}],
    "mode": ["forward"],
}  # fmt: skip


def around_the_edges():
    cases = [*varied(V07, EDGES), *(settings(name) for name in named_sets(SSD) if name != "demo")]
    iterations = [f * 117_266 // 32 for f in (40, 50)]
    cases.append(changed(V07, decay_unit="iterations_of_32", decay_boundaries=iterations))
    return [SSD(case, COCO) for case in cases]
