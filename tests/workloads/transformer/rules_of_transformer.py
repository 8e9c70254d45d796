"""Rules of the Transformer: closed and open settings, and settings around the checker's limits."""

from suite.catalog.sets import named_sets
from tests.workloads.closed_logs import changed, varied
from tests.workloads.transformer.test_transformer_workload import WMT, build_workload
from workloads.transformer.settings import REFERENCE_MODEL
from workloads.transformer.workload import Transformer


def settings(set_name, rules="v0.7", **changes):
    return changed(build_workload(set_name, rules=rules).settings, **changes)


V07 = settings("nvidia_v0.7_dgx1")
V05 = settings("nvidia_v0.5_dgx1", "v0.5")
PUBLISHED = [name for name in named_sets(Transformer) if name != "demo"]
OF_V05 = [name for name in PUBLISHED if "v0.6" not in name and "v0.7" not in name]

CLOSED = [
    *((settings(name), []) for name in PUBLISHED),
    *((settings(name, "v0.5"), []) for name in OF_V05),
    (settings("nvidia_v0.7_dgx1", "v0.5"), ["beta2 0.98, not 0.997"]),
    (changed(V07, learning_rate=0.0123, warmup_steps=0, beta1=0.86, beta2=0.92), []),
    (changed(V05, learning_rate=0.0123, warmup_steps=7), []),
    (changed(V05, beta1=0.86), ["beta1 0.86, not 0.9"]),
    (changed(V07, epsilon=1e-8), ["epsilon 1e-08, not 1e-09"]),
    (
        changed(V07, dropout=0.2, label_smoothing=0.0),
        ["dropout 0.2, not 0.1", "label_smoothing 0, not 0.1"],
    ),
    (
        changed(V07, max_sequence_length=80, bucket_growth=1.5, bucket_first=16, bucket_multiple=4),
        [],
    ),
    (changed(V07, options={"beam_width": 5}), ["beam_width 5, not 4"]),
    (
        changed(
            V07,
            options={"evaluation_batch_size": 8, "evaluation_shapes": 5, "validation_loss": False},
        ),
        [],
    ),
    (changed(V07, targets={"bleu": 0.24}), ["targets bleu 0.24, not bleu 0.25 or above"]),
    (changed(V05, targets={"bleu": 24.9}), ["targets bleu 24.9, not bleu 25 or above"]),
    (changed(V07, dataset="wmt16-en-de"), ["data set wmt16-en-de, not wmt17-en-de"]),
    (
        changed(V07, model={**REFERENCE_MODEL, "layers": 5, "extra_length": 40}),
        ["model with other layers, extra_length than the reference's"],
    ),
]

DEMO = {"profile demo, not reference", "data set translation-demo, not wmt17-en-de"}
OPEN = [(settings("demo", profile="demo"), DEMO)]
LEAST = 12
LAXER = {
    **dict.fromkeys(
        ("dropout", "label_smoothing"), "not logged under a key of closed_transformer.yaml"
    ),
    "warmup_steps": "the checker does not ask for a whole number",
    **dict.fromkeys(
        ("precision", "dataset", "beam_width", "model", "mode"),
        "not logged under a key of the rules",
    ),
    "warmup_samples": "the checker does not look at how long the warm-up is",
}
EDGES = {
    "learning_rate": [0.0, 1e-3, 2.5e-3, 0.0123],
    "warmup_steps": [0, 1, 999, 300.5],
    "beta1": [0.0, 0.86, 0.95],
    "beta2": [0.0, 0.92, 0.999],
    "epsilon": [1e-8, 1e-9, 2e-9],
    "dropout": [0.0, 0.2],
    "label_smoothing": [0.0, 0.2],
    "smoothed_over": ["others"],
    "max_sequence_length": [63, 80, 256],
    "bucket_first": [16],
    "bucket_growth": [1.2],
    "global_batch_size": [16_384, 110_592],
    "max_epochs": [3, 40],
    "targets": [{"bleu": 0.24}, {"bleu": 0.26}],
    "precision": ["fp16", "bf16", "tf32", "int1"],
    "dataset": ["wmt16-en-de"],
    "options": [{"beam_width": 5}, {"evaluation_batch_size": 8}],
    "model": [{**REFERENCE_MODEL, "layers": 5}],
    "mode": ["forward"],
}


def around_the_edges():
    cases = [
        *varied(V07, EDGES),
        *map(settings, PUBLISHED),
        changed(V07, warmup_steps=99_999, max_epochs=8),
    ]
    return [Transformer(case, WMT) for case in cases]
