"""Metrics that improve as they fall, compared with every rule file of mlperf-logging."""

import ctypes
import re

import pytest

from suite.compliance.check_log import check_file
from suite.results import read
from suite.results.directions import FALLING_METRICS, improves_as_it_falls, meets
from suite.results.targets import OFFICIAL_TARGETS, target_text
from testing.fake_logs import line, write
from testing.rule_logs import compliance_folder

_KEY = re.compile(
    r"NAME: +(?:aggregated_)?eval_accuracy\n(?:(?!\n- ).)*?ATLEAST_ONE_CHECK: *(.*)", re.DOTALL
)


def checks():
    """Yield (file, benchmark, metric or "", whether the metric must be at most its target).

    The checks come from the closed rules of all rounds that the installed mlperf-logging has.
    """
    for file in sorted(compliance_folder().glob("*_*.0/closed_*.yaml")):
        for check in re.findall(r"ATLEAST_ONE_CHECK: *(.*)", file.read_text()):
            benchmark = file.stem.removeprefix("closed_")
            between = re.findall(r"([\d.]+) <= v\['value'\]\['(\w+)'\] <= ([\d.]+)", check)
            for low, metric, high in between:
                yield file, benchmark, metric, float(low) == 0.0 and float(high) != 1.0
            single = re.search(r"v\['value'\](?:\['(\w+)'\])? (<=|>=|>) ", check)
            if not between and single:
                yield file, benchmark, single[1] or "", single[2] == "<="


def test_directions_agree_with_every_installed_rule_file():
    found = list(checks())
    wrong = [
        (file.name, file.parent.name, metric)
        for file, benchmark, metric, falls in found
        if improves_as_it_falls(metric or "quality", benchmark) != falls
    ]
    assert not wrong
    benchmarks = {benchmark for _, benchmark, _, _ in found}
    assert set(FALLING_METRICS) <= benchmarks
    assert {
        "resnet",
        "bert",
        "unet3d",
        "rnnt",
        "stable_diffusion",
        "llama31_8b",
        "flux1",
        "dlrmv4",
    } <= benchmarks


def test_a_value_meets_its_target_up_to_float32_rounding():
    assert meets(3.3, 3.3, falls=True)
    assert meets(3.2999999, 3.3, falls=True)
    assert not meets(3.31, 3.3, falls=True)
    assert meets(ctypes.c_float(0.635).value, 0.635, falls=False)
    assert not meets(0.6349, 0.635, falls=False)
    assert not any(
        meets(float(value), 1.0, falls)
        for value in ("nan", "inf", "-inf")
        for falls in (True, False)
    )


def loss_log(path, losses, benchmark="llama31_8b", target=3.3, **stop):
    events = [line(0, "submission_benchmark", benchmark), line(0, "submission_division", "closed")]
    events += [line(0, "quality_target", target)] if target else []
    events.append(line(0, "run_start"))
    for index, loss in enumerate(losses, start=1):
        events.append(line(1000 * index - 900, "epoch_start", epoch_num=index))
        events.append(line(1000 * index, "eval_accuracy", loss, epoch_num=index))
    events.append(line(1000 * len(losses) + 1, "run_stop", **{"status": "success", **stop}))
    return write(path / "result_0.txt", events)


@pytest.mark.parametrize(
    ("losses", "status", "epochs"),
    [
        ([4.0, 3.6, 3.29], "success", 3.0),
        ([4.0, 3.6, 3.3], "success", 3.0),
        ([4.0, 3.6, 3.4], "failed", None),
    ],
)
def test_a_loss_reaches_its_target_from_above(tmp_path, losses, status, epochs):
    record = read(loss_log(tmp_path, losses))
    assert (record.status, record.epochs_to_target) == (status, epochs)
    assert dict(record.best_quality) == {"quality": min(losses)}


def test_pages_and_checks_show_the_direction(tmp_path):
    assert target_text({"quality": 3.3}, "llama31_8b") == "log perplexity ≤ 3.3"
    assert target_text({"quality": 0.925}, "llama2_70b_lora") == "evaluation loss ≤ 0.925"
    assert target_text({"FID": 90.0, "CLIP": 0.15}, "stable_diffusion") == "FID ≤ 90, CLIP ≥ 0.15"
    assert target_text({"top1": 0.759}, "resnet50") == "top-1 accuracy ≥ 0.759"
    verdict = check_file(loss_log(tmp_path, [4.0, 3.5, 3.6]), rules="5.1.0")
    (complaint,) = [
        item
        for item in verdict.complaints
        if item.key == "eval_accuracy" and item.found.startswith("best")
    ]
    assert complaint.found == "best 3.5 (epoch 2) of 3"
    assert "at most 3.3" in complaint.needed


def test_targets_agree_with_every_installed_rule_file():
    """Check that each benchmark has the same target in the closed rules of all rounds.

    BERT is an exception, and it is not in the table.
    """
    for file in sorted(compliance_folder().glob("training_*.0/closed_*.yaml")):
        benchmark = file.stem.removeprefix("closed_")
        if benchmark == "ssd" and file.parent.name >= "training_2.0.0":
            benchmark = "retinanet"
        target = re.search(
            r"ATLEAST_ONE_CHECK: *\"[ (]*v\['value'\] (?:<=|>=) ([\d.]+)", file.read_text()
        )
        if target and benchmark not in ("bert", "minigo"):
            assert list(OFFICIAL_TARGETS["MLLOG"][benchmark].values()) == [float(target[1])], file
    assert {"llama31_8b", "flux1", "gpt_oss_20b", "deepseekv3_671b", "rnnt"} <= OFFICIAL_TARGETS[
        "MLLOG"
    ].keys()


@pytest.mark.parametrize(
    ("benchmark", "target"),
    [
        ("llama31_8b", 3.3),
        ("llama31_405b", 5.6),
        ("flux1", 0.586),
        ("llama2_70b_lora", 0.925),
        ("gpt_oss_20b", 3.34),
    ],
)
def test_a_log_without_a_target_is_judged_by_the_target_of_the_rules(tmp_path, benchmark, target):
    reached = read(loss_log(tmp_path, [2 * target, target], benchmark, target=None))
    assert (reached.status, reached.targets, reached.targets_source) == (
        "success",
        {"quality": target},
        "rules",
    )
    # The epoch labels of these benchmarks may be numbers of samples.
    assert reached.epochs_to_target is None
    missed = read(loss_log(tmp_path, [2 * target, 1.01 * target], benchmark, target=None))
    assert (missed.status, missed.reason) == (
        "failed",
        "run_stop has status success, but no evaluation reaches the target",
    )


def test_an_aborted_run_that_reached_its_target_is_not_reported_as_having_missed_it(tmp_path):
    record = read(loss_log(tmp_path, [3.6, 3.29], target=None, status="aborted"))
    assert (record.status, record.reason) == (
        "aborted",
        "run_stop has status aborted, but an evaluation reaches the target",
    )


def test_metrics_that_a_log_declares_improve_as_they_fall():
    assert improves_as_it_falls("error", "toy", ("error",))
    assert not improves_as_it_falls("fit", "toy", ("error",))
