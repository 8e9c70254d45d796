"""Quality targets of the published rounds, for logs of v0.6 and later without targets."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from suite.results.directions import improves_as_it_falls

_MASK_RCNN = {"BBOX": 0.377, "SEGM": 0.339}
_V06 = {
    "resnet": {"top1": 0.759},
    "ssd": {"map": 0.230},
    "maskrcnn": _MASK_RCNN,
    "gnmt": {"bleu": 24.0},
    "transformer": {"bleu": 25.0},
    "minigo": {"win_rate": 0.50},
}

OFFICIAL_TARGETS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    # v0.6 rules text. BLEU is in percentage points. Only v0.6 has dated `MLPerf:` lines with
    # targets.
    "MLL": _V06,
    "MLPerf": _V06,
    # mlperf-logging 4.1.68, compliance_checker/training_0.7.0/closed_*.yaml. BLEU is a fraction.
    "MLLOG": {
        "resnet": {"top1": 0.759},
        "ssd": {"map": 0.230},
        "maskrcnn": _MASK_RCNN,
        "gnmt": {"bleu": 0.240},
        "transformer": {"bleu": 0.250},
        "ncf": {"hr_at_10": 0.635},
        "retinanet": {"map": 0.340},  # Source: training_2.0.0/closed_ssd.yaml.
        # Benchmarks of later rounds, from their closed_*.yaml. All rounds have the same target. The
        # logs contain no name of the metric.
        "dlrm": {"quality": 0.8025},
        "dlrm_dcnv2": {"quality": 0.80275},
        "unet3d": {"quality": 0.908},
        "rnnt": {"quality": 0.058},
        "gnn": {"quality": 0.72},
        "rgat": {"quality": 0.72},
        "gpt3": {"quality": 2.69},
        "llama2_70b_lora": {"quality": 0.925},
        "llama31_405b": {"quality": 5.6},
        "llama31_8b": {"quality": 3.3},
        "flux1": {"quality": 0.586},
        "gpt_oss_20b": {"quality": 3.34},
        "deepseekv3_671b": {"quality": 3.6},
    },
}
"""Official targets by line format, benchmark, and metric name.

NCF was dropped after v0.5. Its target of 0.635 is kept for `:::MLLOG`.
"""

LABELED_IN_SAMPLES = frozenset(
    {
        *(
            "unet3d",
            "gpt3",
            "llama2_70b_lora",
            "llama31_405b",
            "llama31_8b",
            "flux1",
            "gpt_oss_20b",
        ),
        "deepseekv3_671b",
    }
)
"""Benchmarks whose evaluations are labeled with samples, tokens, or epochs, depending on the
program and round.
"""

QUALITY_PAIRS: Mapping[str, tuple[str, str]] = {
    "maskrcnn": ("BBOX", "SEGM"),
    "mask_rcnn": ("BBOX", "SEGM"),
}
"""Names of a benchmark's two quality metrics, for logs that contain a pair of numbers without
names.
"""


def bleu_scale(metric: str, target: float | None, values: Iterable[float] = ()) -> float:
    """Return the display factor of a metric: 100 for BLEU as a fraction, otherwise 1.

    Some logs contain BLEU as a fraction, and some in percentage points. The target decides. Without
    a target, the largest of `values` decides.
    """
    if "bleu" not in metric.lower():
        return 1.0
    reference = target if target is not None else max(values, default=0.0)
    return 100.0 if 0.0 < reference <= 1.0 else 1.0


_TARGET_TOLERANCE = 2.0**-23
"""Maximum relative difference between equal targets.

The tolerance covers only the rounding of a float32. For example, 0.6349996 and 0.635 are different
targets.
"""


def same_targets(
    left: Mapping[str, float], right: Mapping[str, float], workload: str
) -> bool | None:
    """Check whether two targets of a workload are equal. Unknown targets return None.

    Single targets are compared by value, because logs of different rounds have different names for
    the metric. Several targets are compared by name.
    """
    metric = METRIC_NAMES.get(workload, "")  # The name of the metric in the log does not matter.
    first, second = (
        {name: value * bleu_scale(metric, value) for name, value in side.items()}
        for side in (left, right)
    )
    if not first or not second:
        return None
    if len(first) == len(second) == 1:
        first, second = dict.fromkeys(second, *first.values()), second
    return first.keys() == second.keys() and all(
        math.isclose(first[name], second[name], rel_tol=_TARGET_TOLERANCE) for name in first
    )


METRIC_NAMES: Mapping[str, str] = {
    "resnet50": "top1",
    "ssd": "map",
    "retinanet": "map",
    "maskrcnn": "BBOX",
    "gnmt": "bleu",
    "transformer": "bleu",
    "ncf": "hr_at_10",
    "bert": "masked_lm_accuracy",
    "dlrm_dcnv2": "auc",
    "rgat": "accuracy",
    "stable_diffusion": "FID",
    "gpt3": "log_perplexity",
    "llama31_405b": "log_perplexity",
    "llama31_8b": "log_perplexity",
    "llama2_70b_lora": "evaluation_loss",
    "flux1": "validation_loss",
}
"""Name of the (first) metric of each workload."""

SECOND_METRIC_NAMES: Mapping[str, str] = {"maskrcnn": "SEGM", "stable_diffusion": "CLIP"}
"""Workload with two metrics to the name of the second metric."""

_TARGETS_NOT_IN_LOGS: Mapping[str, tuple[float, ...]] = {
    "bert": (0.72,),
    "stable_diffusion": (90.0, 0.15),
}
"""Targets of v4.1 and later for benchmarks that `OFFICIAL_TARGETS` omits, in order of metric.

The target of BERT differs between rounds. Source: closed_bert.yaml and closed_stable_diffusion.yaml
in compliance_checker/training_{4.1.0,5.0.0} of mlperf-logging 4.1.68.
"""

TOKENS_PER_SAMPLE: Mapping[str, int] = {"llama31_8b": 8192, "gpt3": 2048}
"""Benchmark to the length of its sequences, for throughputs in tokens per second.

Source: `max_sequence_length` in closed_llama31_8b.yaml and closed_gpt3.yaml of mlperf-logging
4.1.68.
"""

_EPOCH_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("bert", "stable_diffusion", "llama2_70b_lora", "flux1"), "samples"),
    **dict.fromkeys(("llama31_8b", "llama31_405b"), "samples"),
    "gpt3": "tokens",
}
"""Benchmark to the unit in which published results count training up to the target.

All remaining benchmarks count epochs. The reference convergence points of mlperf-logging 4.1.68
(rcp_checker/training_{4.1.0,5.0.0,5.1.0}) have the same units.
"""


def epoch_unit(benchmark: str) -> str:
    """Return the unit of the published epochs to target: `epochs`, `samples`, or `tokens`."""
    return _EPOCH_UNITS.get(benchmark, "epochs")


def published_targets(workload: str) -> Mapping[str, float]:
    """Return the targets of a workload in rounds v4.1 and later, by the name of the metric.

    The result is empty for an unknown workload.
    """
    official = OFFICIAL_TARGETS["MLLOG"].get(workload, {})
    values = _TARGETS_NOT_IN_LOGS.get(workload, tuple(official.values()))
    names = [METRIC_NAMES.get(workload, "quality")]
    if workload in SECOND_METRIC_NAMES:
        names.append(SECOND_METRIC_NAMES[workload])
    return dict(zip(names, values, strict=False))


def metric_name(metric: str, workload: str) -> str:
    """Return the name of a metric.

    Logs of v0.5 call every metric `quality`, so the workload determines the name.
    """
    return METRIC_NAMES.get(workload, metric) if metric == "quality" else metric


METRIC_TITLES: Mapping[str, str] = {
    "top1": "top-1 accuracy",
    "top5": "top-5 accuracy",
    "map": "mean average precision",
    "BBOX": "box mean average precision",
    "SEGM": "mask mean average precision",
    "bleu": "BLEU",
    "hr_at_10": "hit rate at 10",
    "masked_lm_accuracy": "masked-LM accuracy",
    "auc": "AUC",
    "log_perplexity": "log perplexity",
    "evaluation_loss": "evaluation loss",
    "validation_loss": "validation loss",
}
"""Title of each metric on pages."""

METRIC_ABBREVIATIONS: Mapping[str, str] = {
    "top1": "top-1",
    "top5": "top-5",
    "map": "mAP",
    "BBOX": "box mAP",
    "SEGM": "mask mAP",
    "bleu": "BLEU",
    "hr_at_10": "HR@10",
    "masked_lm_accuracy": "accuracy",
    "auc": "AUC",
    "log_perplexity": "log ppl",
}
"""Short name of each metric, for the heading of a narrow column."""


def metric_abbreviation(metric: str) -> str:
    """Return the abbreviation of a metric, such as `HR@10` for `hr_at_10`.

    A metric without an abbreviation is returned unchanged.
    """
    return METRIC_ABBREVIATIONS.get(metric, metric)


def metric_title(metric: str) -> str:
    """Return the title of a metric, such as `top-1 accuracy` for `top1`.

    Metrics without a title are returned unchanged.
    """
    return METRIC_TITLES.get(metric, metric)


def targets_text(targets: Mapping[str, float], workload: str = "") -> str:
    """Format targets as text, such as `top1 0.759` or `bleu 24`.

    BLEU is in percentage points. The workload determines the metric name for v0.5.
    """
    named = {metric_name(metric, workload): value for metric, value in targets.items()}
    return ", ".join(
        f"{metric} {value * bleu_scale(metric, value):.7g}" for metric, value in named.items()
    )


def target_text(
    targets: Mapping[str, float], workload: str = "", falling_metrics: Collection[str] = ()
) -> str:
    """Format targets as readable text.

    Examples: `top-1 accuracy ≥ 0.759`, `BLEU ≥ 24`, and `quality ≤ 3.3` for a loss.
    """
    named = {metric_name(metric, workload): metric for metric in targets}
    falls = (
        improves_as_it_falls(name, workload) or metric in falling_metrics
        for name, metric in named.items()
    )
    shown = (
        (metric_title(name), targets[metric] * bleu_scale(name, targets[metric]))
        for name, metric in named.items()
    )
    signs = ("≤" if falling else "≥" for falling in falls)
    return ", ".join(
        f"{title} {sign} {value:.7g}" for sign, (title, value) in zip(signs, shown, strict=True)
    )
