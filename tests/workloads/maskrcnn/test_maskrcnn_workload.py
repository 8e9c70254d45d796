"""Hyperparameter sets, schedules, log keys, and padded shapes of Mask R-CNN."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest

from suite.catalog.rounds import get_round
from suite.compliance.check_log import check_file
from suite.worker.evaluation import eval_accuracy_value
from testing import synthetic
from workloads.api import DatasetInfo, LossScaling, ParameterRule
from workloads.common.images.workload import GREY
from workloads.maskrcnn.settings import DEMO_MODEL, DEMO_TARGETS, REFERENCE_MODEL, with_shapes
from workloads.maskrcnn.workload import MaskRCNN

TARGETS = get_round("v0.7", MaskRCNN).targets

LOGS = Path(__file__).resolve().parents[2] / "data" / "logs"
COCO = DatasetInfo(117_266, 5_000, {"classes": 80, "objects_per_image_most": 63}, "published")


def build_workload(set_name, dataset_info=COCO, rules="v0.7", **changes):
    """Return the full workload with a hyperparameter set."""
    values = {"dataset": "coco2017", "model": REFERENCE_MODEL, "targets": TARGETS, **changes}
    return MaskRCNN(synthetic.of_set(MaskRCNN, set_name, rules=rules, **values), dataset_info)


def demo():
    dataset_info = DatasetInfo(
        2000,
        300,
        {"classes": 10, "objects_per_image_most": 8, "padding_fill_permille": 835},
        "synthetic",
    )
    return build_workload(
        "demo",
        dataset_info,
        profile="demo",
        model=DEMO_MODEL,
        dataset="coco-demo",
        targets=DEMO_TARGETS,
    )


@pytest.mark.parametrize(
    ("name", "batch", "rate", "steps", "slope", "candidates"),
    [
        ("reference", 2, 0.0025, [480_000, 640_000], 0.0025 / 750, 2_000),
        ("nvidia_v0.5_dgx1", 32, 0.04, [36_000, 48_000], 6.4e-5, 4_000),
        ("nvidia_v0.6_dgx1", 48, 0.06, [24_000, 32_000], 9.6e-5, 6_000),
        ("nvidia_v0.7_dgx1", 48, 0.06, [24_000, 32_000], 9.6e-5, 6_000),
        ("nvidia_v0.7_dgxa100", 64, 0.08, [18_000, 24_000], 1e-4, 8_000),
        ("dgx1_article_1gpu", 2, 0.0025, [480_000, 640_000], 0.0025 / 750, 2_000),
        ("dgx1_article_4gpu", 16, 0.02, [72_000, 96_000], 3.2e-5, 4_000),
        ("dgx1_article_8gpu", 32, 0.04, [36_000, 48_000], 6.4e-5, 4_000),
    ],
)
def test_published_figures_of_the_sets(name, batch, rate, steps, slope, candidates):
    """Compare with the published configurations.

    The values are: batch, rate, decay steps, warm-up factor, and candidates per device.
    """
    workload = build_workload(name)
    keys = workload.log_keys()
    assert workload.settings.global_batch_size == batch
    assert keys["opt_base_learning_rate"] == rate
    assert keys["opt_learning_rate_decay_steps"] == workload.decay_steps == steps
    assert keys["opt_learning_rate_warmup_factor"] == pytest.approx(slope, rel=1e-12)
    assert keys["num_image_candidates"] == candidates


def test_the_references_warm_up_starts_at_a_third():
    workload = build_workload("reference")
    found = [workload.learning_rate(step) for step in (0, 250, 499, 500, 479_999, 480_000, 640_000)]
    expected = [
        0.0025 / 3,
        0.0025 * 2 / 3,
        0.0025 * (1 - 2 / 3 / 500),
        0.0025,
        0.0025,
        0.00025,
        0.000025,
    ]
    assert found == pytest.approx(expected, rel=1e-12)


def test_warm_up_by_the_rules_formula():
    """Check lr(b) = r0 - (W - b) · f with f = r0 / (W · 2^k)."""
    workload = build_workload("nvidia_v0.7_dgxa100")
    assert workload.learning_rate(0) == 0.0
    assert [workload.learning_rate(b) for b in (0, 1, 400, 799)] == pytest.approx(
        [0, 1e-4, 0.04, 0.0799], abs=1e-15
    )
    values = {**workload.settings.hyperparameters, "warmup_start": 0.75}
    half = build_workload("nvidia_v0.7_dgxa100", hyperparameters=values)
    factor = 0.08 / (800 * 2**2)
    assert half.log_keys()["opt_learning_rate_warmup_factor"] == pytest.approx(factor)
    for step in (0, 13, 799):
        assert half.learning_rate(step) == pytest.approx(0.08 - (800 - step) * factor)


def test_demo_schedule():
    workload = demo()
    assert workload.steps_per_epoch == 250
    found = [workload.learning_rate(step) for step in (0, 125, 250, 1375, 2500, 9999)]
    assert found == pytest.approx([0, 0.01, 0.02, 0.01, 0, 0])
    assert list(itertools.islice(workload.evaluation_steps(), 3)) == [500, 1000, 1500]


def test_an_evaluation_after_every_epoch_of_both_orientations():
    """Count the steps of an epoch.

    They are one more than a device needs for its 14,659 images in batches of six. The reference has
    floor(images / batch) + 1.
    """
    sizes = {**COCO.sizes, "train_800x1344": 87_266, "train_1344x800": 30_000}
    sizes |= {
        f"train_{h}x{w}": 0 for h, w in REFERENCE_MODEL["padded_shapes"] if 1344 not in (h, w)
    }
    workload = build_workload("nvidia_v0.7_dgx1", dataclasses.replace(COCO, sizes=sizes))
    assert workload.steps_per_epoch == 2_444 + 1
    assert workload.epoch_samples.repeated == 2_445 * 48 - 117_266
    assert list(itertools.islice(workload.evaluation_steps(), 2)) == [2_445, 4_890]


def test_padded_shapes_from_the_command_line():
    model = MaskRCNN.defaults(
        "reference", get_round("v0.7", MaskRCNN), {"padded_shapes": "1344x832+800x1088+832x1344"}
    ).model
    assert model["padded_shapes"] == [[832, 1344], [800, 1088], [1344, 832]]
    assert model["image_size"] == 800
    default = "800x1344+800x1216+800x1088+1344x800+1216x800+1088x800"
    assert with_shapes(REFERENCE_MODEL, default) == REFERENCE_MODEL
    with pytest.raises(
        ValueError, match=r"800x1333\+1344x800: 1333 is not a multiple of 32. Set 800x1344\+"
    ) as raised:
        with_shapes(REFERENCE_MODEL, "800x1333+1344x800")
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="landscape and portrait images need a shape each"):
        with_shapes(REFERENCE_MODEL, "800x1344")


@pytest.mark.parametrize("name", ["nvidia_v0.6_dgx1", "nvidia_v0.7_dgxa100", "dgx1_article_4gpu"])
def test_the_checker_of_v06_passes(tmp_path, name):
    """Check the same values in the form of v0.6. rules_of_maskrcnn.py covers v0.7."""
    keys, lines = build_workload(name).log_keys(), []
    for line in (LOGS / "0.6.0" / "maskrcnn.txt").read_text().splitlines():
        start, _, body = line.partition(": {")
        key, content = start.split()[-1], json.loads("{" + body)
        content["value"] = keys.get(key, content["value"])
        if key == "eval_accuracy":
            content["value"] = eval_accuracy_value(
                {"BBOX": 0.3775, "SEGM": 0.343}, build_workload(name).settings.targets
            )
        lines.append(f"{start}: {json.dumps(content)}\n")
    (tmp_path / "log.txt").write_text("".join(lines))
    verdict = check_file(tmp_path / "log.txt", "0.6.0")
    assert verdict.passed, verdict.complaints


def test_log_keys_of_the_demo():
    found = demo().log_keys()
    assert (found["min_image_size"], found["max_image_size"]) == (96, 128)
    assert found["input_padding_fill"] == 0.835
    assert found["input_padded_shapes"] == [[96, 128], [128, 96]]
    assert "opt_learning_rate_decay_steps" not in found
    assert found["backbone_weights"] == "random"
    json.dumps(found)


def test_biases_learn_twice_as_fast_without_decay_and_the_first_stage_not_at_all():
    workload = build_workload("reference")
    assert workload.parameter_rule("fpn.inner0.weight") == ParameterRule(1e-4)
    assert workload.parameter_rule("fpn.inner0.bias") == ParameterRule(lr_multiplier=2.0)
    assert workload.parameter_rule("conv1.weight").frozen
    assert workload.parameter_rule("layer1.0.conv1.weight").frozen
    assert workload.parameter_rule("layer2.0.conv1.weight") == ParameterRule(1e-4)


def test_fp16_scales_the_loss_dynamically():
    """Compare with the reference's apex AMP.

    A static scale would neither grow nor skip a step that overflows.
    """
    assert build_workload("reference").optimizer().loss_scaling == LossScaling()
    scaling = (
        build_workload("reference", framework="tensorflow", precision="fp16")
        .optimizer()
        .loss_scaling
    )
    assert (scaling.mode, scaling.start, scaling.growth_interval) == ("dynamic", 65_536, 2_000)
    assert (scaling.growth_factor, scaling.backoff_factor, scaling.maximum) == (2, 0.5, 2**24)


def test_shapes_and_the_dummy_batch():
    workload = build_workload("nvidia_v0.7_dgx1", devices=8)
    shapes = workload.shapes()
    assert [specs["image"].shape for specs in shapes] == [
        (6, h, w, 3) for h, w in REFERENCE_MODEL["padded_shapes"]
    ]
    assert shapes[0]["anchor_offset"].shape == (6, 256, 4)
    assert shapes[0]["box"].shape == (6, 63, 4)
    dummy = workload.dummy_batch(shapes[-1])
    arrays = dummy.arrays
    assert (arrays["image"] == GREY).all()
    assert arrays["size"].tolist() == [[1088, 800]] * 6
    assert not arrays["anchor_weight"].any()
    assert arrays["object_ends"].shape == (6 * 63,)
    assert len(arrays["points"]) == len(arrays["polygon_ends"]) == 0
    assert (dummy.weight_sum, dummy.global_samples) == (6, 6)
    assert [set(specs) for specs in workload.evaluation_shapes()] == [{"image", "size"}] * 6


def test_activations_of_a_step_are_about_a_gigabyte():
    """Check an upper limit measured with torchvision's step at 800 x 1333 and batch 1.

    The step uses 2.85 GB in total.
    """
    settings = build_workload("reference").settings
    assert 0.95e9 < MaskRCNN.activation_bytes(settings) < 2.85e9 - 4 * 3 * 44_347_573
    half = MaskRCNN.activation_bytes(dataclasses.replace(settings, precision="bf16"))
    assert 2 * half == MaskRCNN.activation_bytes(settings)
