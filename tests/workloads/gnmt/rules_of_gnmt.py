"""Rules of GNMT: closed and open settings, and settings around the checker's limits."""

from suite.catalog.rounds import get_round
from suite.catalog.sets import named_sets
from tests.workloads.closed_logs import changed, varied
from tests.workloads.gnmt.test_gnmt_workload import WMT, build_workload
from workloads.gnmt.settings import REFERENCE_MODEL
from workloads.gnmt.workload import GNMT


def settings(set_name, rules="v0.7", **changes):
    return changed(build_workload(set_name, rules).settings, **changes)


V07 = settings("nvidia_v0.7_dgx1")
V05 = settings("nvidia_v0.5_dgx1", "v0.5")
OPEN_SETTINGS = changed(
    V07, model=GNMT.defaults("synthetic", get_round("v0.7", GNMT), {"hidden": 512}).model,
    dataset="translation-demo", targets={"bleu": 0.2}, options={"hidden": 512, "layers": None},
)  # fmt: skip
NOT_V05 = "network and order of v0.6 on, not those of tag v0.5"
PUBLISHED = [name for name in named_sets(GNMT) if name != "demo"]

CLOSED = [
    *((settings(name), []) for name in PUBLISHED),
    *((settings(name, "v0.5"), [NOT_V05]) for name in PUBLISHED),
    (changed(V07, learning_rate=0.0123, warmup_steps=37, remain_steps=0.5, decay_interval=11), []),
    (changed(V07, remain_steps=0, decay_interval=0), []),
    (changed(V07, warmup_steps=0), []),
    (changed(V07, max_sequence_length=60), []),
    (changed(V07, decay_factor=0.6, decay_steps=3),
     ["decay_steps 3, not 4", "decay_factor 0.6, not 0.5"]),
    (changed(V07, beta2=0.98), ["beta2 0.98, not 0.999"]),
    (changed(V07, dropout=0.1, label_smoothing=0.0),
     ["dropout 0.1, not 0.2", "label_smoothing 0, not 0.1"]),
    (changed(V07, clip_norm=25.0), ["clip_norm 25, not 5"]),
    (changed(V07, options={"beam_width": 4}), ["beam_width 4, not 5"]),
    (changed(V07, options={"validation_loss": False, "evaluation_batch_size": 7,
                           "evaluation_shapes": 1}), []),
    (changed(V05, precision="tf32"), [NOT_V05, "precision tf32, not fp32 or fp16 or bf16"]),
    (changed(V05, targets={"bleu": 21.0}), [NOT_V05, "targets bleu 21, not bleu 21.8 or above"]),
    (changed(V05, warmup_steps=0, remain_steps=0), [NOT_V05]),
    (changed(V05, decay_steps=5), [NOT_V05, "decay_steps 5, not 4"]),
    (settings("demo"), []),  # The submitter may choose rate and schedule.
    (
        OPEN_SETTINGS,
        [
            "data set translation-demo, not wmt16-en-de",
            "targets bleu 0.2, not bleu 0.24 or above",
            "model with other hidden than the reference's",
        ],
    ),
]  # fmt: skip

_UNCHECKED = "closed_gnmt.yaml asks for the key alone"
_NO_KEY = "not logged under a key of closed_gnmt.yaml"
LEAST = 25
LAXER = {
    **dict.fromkeys(("decay_factor", "decay_steps", "warmup_steps"), _UNCHECKED),
    **dict.fromkeys(
        ("beta1", "beta2", "epsilon", "clip_norm", "dropout", "label_smoothing", "buckets"), _NO_KEY
    ),
    "learning_rate": "the checker takes 0",
    "warmup_samples": "the checker does not look at how long the warm-up is",
    **dict.fromkeys(
        ("model", "beam_width", "precision", "dataset", "mode"),
        "not logged under a key of the rules",
    ),
}
EDGES = {
    "learning_rate": [0.0, 5e-4, 2e-3, 0.0123],
    "warmup_steps": [0, 1, 200, 500, 300.5],
    "remain_steps": [0, 0.25, 0.666, 100, 6_453],
    "decay_interval": [0, 1, 809],
    "decay_factor": [0.4, 0.5, 0.6],
    "decay_steps": [3, 4, 5],
    "max_sequence_length": [50, 60, 75, 100],
    "beta1": [0.85, 0.95],
    "beta2": [0.98, 0.99],
    "epsilon": [1e-9, 1e-6],
    "clip_norm": [1.0, 25.0],
    "dropout": [0.0, 0.1, 0.3],
    "label_smoothing": [0.0, 0.2],
    "buckets": [1, 4],
    "global_batch_size": [128, 3_072],
    "max_epochs": [1, 20],
    "targets": [{"bleu": 0.2399}, {"bleu": 0.218}, {"bleu": 0.25}],
    "model": [{**REFERENCE_MODEL, "hidden": 512}, {**REFERENCE_MODEL, "longest_translation": 80}],
    "precision": ["tf32", "fp16", "bf16", "int1"],
    "dataset": ["translation-demo"],
    "options": [
        {"beam_width": 4},
        {"beam_width": 10},
        {"validation_loss": False},
        {"evaluation_shapes": 2},
    ],
    "mode": ["forward"],
}


def around_the_edges():
    cases = [
        *varied(V07, EDGES),
        *map(settings, PUBLISHED),
        changed(V07, warmup_steps=99_999, max_epochs=8),
    ]
    return [GNMT(case, WMT) for case in cases]
