"""Cases of Mask R-CNN's rules: closed and open settings, and settings around their limits."""

from suite.catalog.rounds import get_round
from suite.catalog.sets import named_sets
from tests.workloads.closed_logs import changed, varied
from tests.workloads.maskrcnn.test_maskrcnn_workload import COCO, build_workload, demo
from workloads.maskrcnn.settings import REFERENCE_MODEL, with_shapes
from workloads.maskrcnn.workload import MaskRCNN

TARGETS = get_round("v0.7", MaskRCNN).targets

SETS = named_sets(MaskRCNN)

DEVICES = {"reference": 1, "dgx1_article_1gpu": 1, "dgx1_article_4gpu": 4}
"""Number of devices of some hyperparameter sets. Sets that are not listed have 8."""
DATASETS = {"v0.5": "coco2014", "v0.7": "coco2017"}


def settings(set_name, rules="v0.7", **changes):
    of_set = {"devices": DEVICES.get(set_name, 8), "rules": rules, "dataset": DATASETS[rules]}
    return changed(build_workload(set_name, **of_set).settings, **changes)


V07 = settings("nvidia_v0.7_dgx1")
V05 = settings("nvidia_v0.5_dgx1", "v0.5")
TIMES = "not [60000, 80000] · (1 + k/10)"
OTHER = changed(
    V07, dataset="coco-demo", targets={"BBOX": 0.377, "SEGM": 0.3},
    options={"decode": "scaled"}, evaluation_interval_epochs=2,
)  # fmt: skip
TARGETS_TEXT = "not BBOX 0.377 and SEGM 0.339 or above"
OTHER_SHAPES = with_shapes(REFERENCE_MODEL, "800x1344+1344x800")

CLOSED = [
    *(
        (settings(name), [])
        for name in SETS
        if name.startswith("nvidia") or name.endswith(("_4gpu", "_8gpu"))
    ),
    *((settings(name, "v0.5"), []) for name in SETS if name != "demo"),
    (settings("reference"), ["learning_rate 0.0025, not 0.02 · k"]),
    (changed(V07, warmup_steps=0), []),
    (changed(V07, warmup_start=1 / 3), []),
    (changed(V07, warmup_start=1.0), ["warmup_start 1, not below 1"]),
    (changed(V07, decay_boundaries=[54_000, 72_000]), []),
    (
        changed(V07, decay_boundaries=[72_000, 90_000]),
        [f"decay_boundaries [72000, 90000], {TIMES}"],
    ),
    (
        changed(V07, momentum=0.95, weight_decay=5e-4),
        ["momentum 0.95, not 0.9", "weight_decay 0.0005, not 0.0001"],
    ),
    (changed(V07, num_image_candidates=1_000), []),
    (
        changed(V07, num_image_candidates=1_500),
        ["num_image_candidates 1500, not 1000 or 2000 or 1000 · global batch / devices"],
    ),
    (
        changed(V07, devices=4),
        ["num_image_candidates 6000, not 1000 or 2000 or 1000 · global batch / devices"],
    ),
    (changed(V07, model=OTHER_SHAPES, options={"padded_shapes": "800x1344+1344x800"}), []),
    (
        changed(V07, model={**OTHER_SHAPES, "image_size": 640}),
        ["model with other image_size than the reference's but for padded_shapes"],
    ),
    (changed(V07, options={"evaluator": "faster-coco-eval", "backbone_allow_other": True}), []),
    (changed(V07, rules="v0.5"), ["data set coco2017, not coco2014"]),
    (
        OTHER,
        [
            "data set coco-demo, not coco2017", f"targets BBOX 0.377, SEGM 0.3, {TARGETS_TEXT}",
            "evaluation_interval_epochs 2, not 1", "decode scaled, not exact",
        ],
    ),
    (changed(V05, learning_rate=0.0225), []),
    (changed(V05, learning_rate=0.021), ["learning_rate 0.021, not 0.0025 · k"]),
    (changed(V05, warmup_steps=0), ["warmup_steps 0, not 1 or more, whole"]),
    (changed(V05, warmup_start=0.75), []),
    (changed(V05, warmup_start=1 / 3, warmup_steps=500), []),
    (changed(V05, warmup_start=1 / 3), ["warmup_start 0.333333333333, not 1 - 2^-k, k ≥ 0"]),
    (
        changed(V05, decay_boundaries=[54_000, 72_000]),
        [f"decay_boundaries [54000, 72000], {TIMES}, k ≥ 0"],
    ),
    (changed(V05, num_image_candidates=2_000), []),
    (
        changed(V05, num_image_candidates=1_000),
        ["num_image_candidates 1000, not 2000 or 1000 · global batch / devices"],
    ),
]  # fmt: skip

OPEN = [(demo().settings, {"profile demo, not reference", "decay cosine, not steps"})]
LEAST = 25
LAXER = {
    **dict.fromkeys(("momentum", "weight_decay"), "not logged under a key of closed_maskrcnn.yaml"),
    "warmup_steps": "the checker accepts numbers that are not integers",
    "decay_boundaries": "closed_maskrcnn.yaml requires two steps and ignores their values",
    "num_image_candidates": "closed_maskrcnn.yaml accepts every multiple of 1,000",
    "evaluation_interval_epochs": "the checker ignores the times of evaluations",
    "model": "closed_maskrcnn.yaml accepts all image sizes ≥ 0",
    **dict.fromkeys(
        ("precision", "dataset", "decode", "mode"), "not logged under a key of the rules"
    ),
    "warmup_samples": "the checker ignores the length of the warm-up",
}
EDGES = {
    "learning_rate": [
        0.0, 0.0025, 0.01, 0.02, 0.03, 0.04, 0.05, 0.08, 0.1, 0.12, 0.16, 0.201, 0.24
    ],
    "weight_decay": [0.0, 5e-4],
    "momentum": [0.0, 0.95],
    "warmup_steps": [0, 1, 500, 1_800, 300.5, 30_000],
    "warmup_start": [0.1, 1 / 3, 0.5, 0.75, 0.999, 1.0, 1.5],
    "decay_factor": [0.1, 0.2, 0.01],
    "decay_boundaries": [
        [60_000 + 6_000 * k, 80_000 + 8_000 * k] for k in (-9, -1, 0, 1, 2, 10)
    ] + [[63_000, 84_000], [72_000, 90_000], [60_000], [60_000, 80_000, 90_000]],
    "num_image_candidates": [800, 1_000, 1_500, 2_000, 3_000, 6_000, 6_001, 48_000],
    "devices": [1, 2, 16],
    "global_batch_size": [8, 96],
    "evaluation_interval_epochs": [2, 5],
    "max_epochs": [13, 200],
    "targets": [{**TARGETS, "SEGM": 0.338}, {**TARGETS, "BBOX": 0.37}, {"BBOX": 0.4, "SEGM": 0.35}],
    "model": [OTHER_SHAPES, {**REFERENCE_MODEL, "image_size": 640}],
    "precision": ["tf32", "fp16", "bf16", "int1"],
    "dataset": ["coco2014"],
    "options": [{"decode": "scaled"}, {"evaluator": "faster-coco-eval"}],
    "mode": ["forward"],
    "decay": ["cosine"],
}  # fmt: skip


def around_the_edges():
    cases = [*varied(V07, EDGES), *(settings(name) for name in SETS if name != "demo")]
    return [MaskRCNN(case, COCO) for case in cases]
