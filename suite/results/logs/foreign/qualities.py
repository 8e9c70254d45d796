"""Parse the targets and quality values in the many formats of other programs' logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suite.results.logs.events import Event, ProblemCode, Remarks, not_finite, number, numbers
from suite.results.logs.lenient_json import read_lenient_json
from suite.results.logs.record import Evaluation
from suite.results.names import workload_name
from suite.results.targets import OFFICIAL_TARGETS, QUALITY_PAIRS
from suite.results.text import clean
from workloads.api import Json


def find_targets(
    workload: str, log_format: str, logged: Event | None, remarks: Remarks
) -> tuple[Mapping[str, float], str]:
    """Return the targets, and their source (`log`, `rules`, or an empty string).

    `logged` is the first `quality_target` record.
    """
    if logged is not None:
        targets = read_quality(logged, {}, workload, remarks)
        if targets:
            return targets, "log"
        remarks.add(logged.line, ProblemCode.TARGET, "the quality target holds no number")
    official = OFFICIAL_TARGETS.get(log_format, {}).get(_rules_name(workload), {})
    return official, "rules" if official else ""


def is_retinanet(benchmark: str, values: Mapping[str, Json]) -> bool:
    """Check whether a log of the benchmark `ssd` is a log of RetinaNet on Open Images.

    Up to v1.1, `ssd` is SSD on COCO, and its rules require `model_bn_span` and a warm-up in steps.
    From v2.0 on, `ssd` is RetinaNet on Open Images, and its rules require Adam and a warm-up in
    epochs (mlperf-logging, training_1.1.0 and training_2.0.0/closed_ssd.yaml).

    Args:
        benchmark: Name of the benchmark in the log.
        values: First value of each key in the log.
    """
    if benchmark != "ssd" or "model_bn_span" in values:
        return False
    samples, batch = (number(values.get(key)) for key in ("train_samples", "global_batch_size"))
    # Open Images has 1,170,301 training images. NVIDIA's code logs the number of batches instead of
    # images.
    images = samples is not None and any(
        abs(samples * n - 1_170_301) <= 2 * n for n in (1.0, batch or 1.0)
    )
    return images or values.get("opt_name") == "adam" or "opt_learning_rate_warmup_epochs" in values


def _rules_name(benchmark: str) -> str:
    """Return the name of a benchmark in the MLPerf rules.

    Mask R-CNN has several names in logs.
    """
    return "maskrcnn" if workload_name(benchmark) == "maskrcnn" else benchmark


def bleu_targets_in_log_scale(
    targets: Mapping[str, float], source: str, evaluations: Sequence[Evaluation], remarks: Remarks
) -> Mapping[str, float]:
    """Return the BLEU targets in the scale that the log uses.

    The v0.7 rules write BLEU as a fraction, but some logs contain percentage points.
    """
    target = targets.get("bleu", 1.0)
    above = [evaluation for evaluation in evaluations if evaluation.quality.get("bleu", 0.0) > 1.0]
    if source != "rules" or target >= 1.0 or not above:
        return targets
    remarks.add(
        above[0].line,
        ProblemCode.TARGET,
        f"BLEU in points: the target is taken as {100 * target:g}",
    )
    return {"bleu": 100.0 * target}


def read_quality(
    event: Event, targets: Mapping[str, float], benchmark: str, remarks: Remarks
) -> dict[str, float]:
    """Return the metrics in a record as a mapping from name to value.

    The value of the record may be a number, string, list, pair, or object. The mapping is empty if
    the record contains no number. If the value is a bare number, the name is that of the only
    target metric. If the evaluation of a diverged run is null, NaN, or infinity, the mapping
    contains this value. `remarks` receives a remark for each conversion.
    """
    value = _value_inside_text(event, remarks)
    name = _metric_of_number(event, targets)
    if isinstance(value, dict):
        inner = value.get("accuracy")
        # logs of Mask R-CNN in v0.6 contain a nested object
        value = inner if isinstance(inner, dict) else value
        quality = numbers(value)
        if event.key == "eval_accuracy":
            quality |= {
                str(metric): figure
                for metric, item in value.items()
                if (figure := not_finite(item)) is not None
            }
        if any(isinstance(value[metric], str) for metric in quality):
            remarks.add(
                event.line,
                ProblemCode.CONVERTED_QUALITY,
                f"{event.key} holds text, read as the number in it",
            )
        if len(quality) == len(targets) == 1 and name not in quality:
            [(logged_name, figure)] = quality.items()
            remarks.add(
                event.line,
                ProblemCode.CONVERTED_QUALITY,
                f"{event.key} names its number {clean(logged_name, 40)}, taken as {name}",
            )
            return {name: figure}
        return quality
    if isinstance(value, list):
        return _quality_from_list(event, value, name, benchmark, remarks)
    single = number(value)
    if single is None and event.key == "eval_accuracy":
        single = not_finite(value)
    return {} if single is None else {name: single}


def _metric_of_number(event: Event, targets: Mapping[str, float]) -> str:
    """Return the metric name for a record that contains a bare number.

    The name is the metric of the only target, or the metric in the record's metadata.
    """
    metric = event.metadata.get("metric")  # Stable Diffusion logs FID and CLIP in separate records
    if len(targets) == 1:
        return next(iter(targets))
    return metric if isinstance(metric, str) and metric else "quality"


def _value_inside_text(event: Event, remarks: Remarks) -> Json:
    """Return the value of a record.

    If the value is a string that contains a number or a list (`"[0.324]"`, `"75.9%"`), the function
    parses the string and adds a remark.
    """
    if not isinstance(event.value, str):
        return event.value
    try:
        inner, end, _ = read_lenient_json(event.value, 0)
    except ValueError:
        return event.value
    if event.value[end:].strip() or isinstance(inner, str):
        return event.value
    remarks.add(
        event.line,
        ProblemCode.CONVERTED_QUALITY,
        f"{event.key} holds text, read as the number in it",
    )
    return inner


def _quality_from_list(
    event: Event, value: Sequence[Json], name: str, benchmark: str, remarks: Remarks
) -> dict[str, float]:
    """Parse `[0.76]`, `[0.377, 0.339]` (box, mask), or `[["BBOX", 0.377], …]`.

    The mapping is empty for all other lists.
    """
    figures = [figure for item in value if (figure := number(item)) is not None]
    if event.key == "eval_accuracy" and len(figures) < len(value):
        either = [
            number(item) if number(item) is not None else not_finite(item)
            for item in value
            if item is not None
        ]
        figures = [figure for figure in either if figure is not None]
    names = QUALITY_PAIRS.get(_rules_name(benchmark), ())
    if len(value) == len(figures) == 1:
        remarks.add(
            event.line, ProblemCode.CONVERTED_QUALITY, f"{event.key} holds a list of one number"
        )
        return {name: figures[0]}
    if len(value) == len(figures) == len(names):
        remarks.add(
            event.line,
            ProblemCode.CONVERTED_QUALITY,
            f"{event.key} holds a pair, read as {' and '.join(names)}",
        )
        return dict(zip(names, figures, strict=True))
    pairs = [
        item
        for item in value
        if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)
    ]
    quality = numbers(dict(pairs)) if pairs and len(pairs) == len(value) else {}
    if quality:
        remarks.add(
            event.line,
            ProblemCode.CONVERTED_QUALITY,
            f"{event.key} holds a list of pairs, read as name and number",
        )
    return quality
