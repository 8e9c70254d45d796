"""Summaries of printed rates, synthetic data, and overrides of the benchmarks."""

import importlib
import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import (
    coco_input,
    detections,
    gnmt_step,
    image_feeding,
    image_step,
    image_suite,
    maskrcnn_step,
    photos,
    transformer_step,
)
from suite.plan.jobs import plan
from tests.helpers import PROJECT, composed
from workloads.common.coco.dataset import Coco2017


def test_shares_are_medians_of_ratios_within_a_round():
    def rounds(rates, gigaflops=8.0):
        return [{"images_per_second": rate, "gigaflops_per_image": gigaflops} for rate in rates]

    ours = [{"images_per_second": rate} for rate in (10.0, 5.0, 12.0)]
    found = image_step.summary(
        {"suite": ours, "bare": rounds([10, 10, 10]), "stock": rounds([10, 5, 10], 4.0)}
    )
    assert found["suite_to_bare"] == 1.0  # median of 1.0, 0.5, 1.2
    assert (found["suite_to_stock"], found["suite_to_stock_per_operation"]) == (1.0, 2.0)
    assert "suite_to_bare_per_operation" not in found
    assert found["images_per_second"] == {"suite": 10.0, "bare": 10, "stock": 10}
    assert found["gigaflops_per_image"] == {"suite": 8.0, "bare": 8.0, "stock": 4.0}
    assert not [name for name in found if name.endswith("_cpu")]


def test_shares_are_computed_for_cpu_time_too():
    def rounds(rate, cpu_rate):
        return [
            {
                "images_per_second": rate,
                "images_per_cpu_second": cpu_rate,
                "gigaflops_per_image": 8.0,
            }
        ]

    found = image_step.summary({"suite": rounds(10.0, 6.0), "stock": rounds(20.0, 5.0)})
    assert (found["suite_to_stock"], found["suite_to_stock_cpu"]) == (0.5, 1.2)


def test_every_model_has_its_script():
    for workload in [name for name in image_step.BATCHES if not name.startswith("zoo:")]:
        for framework in image_step.STOCK:
            name = f"{workload.removesuffix('50')}_{framework}.py"
            text = (PROJECT / "benchmarks" / "bare" / name).read_text()
            for model in set(image_step.models(workload, framework)) - {"suite", "bare_malloc"}:
                assert model in text, f"{name} does not support {model}"
            assert "workloads" not in text
            assert "import suite" not in text


def test_networks_of_the_zoo_are_compared_with_available_stock_networks():
    zoo_networks = [name for name in image_step.BATCHES if name.startswith("zoo:")]
    assert set(zoo_networks) <= set(image_step.IMAGE_SIZES)
    pairs = itertools.product(zoo_networks, image_step.STOCK)
    found = {
        (name, framework): list(image_step.models(name, framework)) for name, framework in pairs
    }
    assert all(names[:2] == ["suite", "stock"] for names in found.values())
    assert [pair for pair, names in found.items() if len(names) > 2] == [
        ("zoo:resnet50", "mxnet")
    ]  # MXNet has two versions of ResNet-50.
    # The stock network differs, and its description states how.
    stock = image_step.models("zoo:resnet50", "tensorflow")["stock"]
    assert stock == image_step.STOCK["tensorflow"]["stock"]


@pytest.mark.parametrize(("pipeline", "met"), [(100.0, False), (5.0, None)])
def test_a_share_is_judged_only_if_the_pipeline_is_faster(pipeline, met):
    synthetic = [{"images_per_second": rate} for rate in (10.0, 20.0, 10.0)]
    pipeline_figures = {"pipeline_images_per_second": pipeline, "data_wait_share": 0.1}
    fed = [{"images_per_second": rate, **pipeline_figures} for rate in (9.0, 19.0, 9.4)]
    found = image_feeding.summary(synthetic, fed)
    assert found["share"] == 0.94
    assert found["met"] is met


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("trained", 20, 400), ("undecided", 8_000, 40_000)]
)
def test_synthetic_detections_have_the_expected_number_and_score(kind, least, most):
    workload = image_suite.full_size("ssd", "pytorch", "fp32", 32, 1)
    truth = detections.objects(np.random.default_rng(0), 3)
    found, results = detections.measure(workload, kind, 3, truth)
    assert least < found["scores_above_minimum_per_image"] < most
    assert results["seen"].tolist() == [0, 1, 2]
    if kind == "trained":
        assert (
            0.02
            < detections.scored(detections.ground_truth(truth, 5), results)["pycocotools"]["ap"]
            < 0.9
        )


def test_every_baseline_loop_has_its_script():
    steps = (gnmt_step, transformer_step)
    names = [
        f"{step.KIND.workload.name}_{framework}" for step in steps for framework in step.KIND.models
    ]
    baselines = maskrcnn_step.COMPARED_MODELS
    names += [
        f"maskrcnn_{framework if name == 'bare' else name}"
        for framework, (name, _) in baselines.items()
    ]
    assert {f"{workload}_{framework}" for workload in ("gnmt",) for framework in baselines} <= set(
        names
    )
    for name in names:
        assert (PROJECT / "benchmarks" / "bare" / f"{name}.py").exists(), name


CIFAR = SimpleNamespace(dataset="cifar-demo", cores=1, epochs=1)


class PlannedRun(Exception):
    """Exception with the overrides of a benchmark, raised instead of a run."""


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        (
            "overhead",
            lambda overhead, folder: overhead.suite_run("pytorch", "synthetic", 1, folder),
        ),
        ("ncf_roofline", lambda roofline, folder: roofline.measure(["pytorch"], 1, 1, folder)),
        ("allreduce", lambda allreduce, folder: allreduce.suite_seconds(1 << 20, folder)),
        ("little_cnn", lambda cnn, folder: cnn.measure(CIFAR, "pytorch", folder)),
    ],
)
def test_the_overrides_of_a_benchmark_can_be_planned(tmp_path, monkeypatch, name, measure):
    def record_overrides(overrides, output, prefix=()):
        raise PlannedRun(*overrides)

    benchmark = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(benchmark, "run_suite", record_overrides)
    monkeypatch.setattr(
        benchmark, "in_environment", lambda *arguments, **options: Counter(), raising=False
    )
    with pytest.raises(PlannedRun) as caught:
        measure(benchmark, tmp_path)
    planned = plan(
        composed(*caught.value.args, f"output={tmp_path / 'out'}"), "job", tmp_path / "out"
    )
    assert not planned.findings
    assert planned.draft is not None


@pytest.mark.parametrize("workload", ["ssd", "maskrcnn"])
def test_the_measured_input_pipeline_yields_batches(tmp_path, workload):
    photos.write_coco(tmp_path / "images", 33, 50)
    Coco2017().prepare(tmp_path / "images", tmp_path / "prepared")
    data = coco_input.data_of(workload, "exact", str(tmp_path / "prepared"))
    (batch,) = next(data.train(0, 1))
    data.close()
    assert len(batch.arrays["label"]) == coco_input.BATCHES[workload]
