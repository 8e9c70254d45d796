"""What benchmarks say of rates that processes printed, what they make up, and that what they type
can be run.
"""

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
    assert found["suite_to_bare"] == 1.0  # of 1.0, 0.5, 1.2
    assert (found["suite_to_stock"], found["suite_to_stock_per_operation"]) == (1.0, 2.0)
    assert "suite_to_bare_per_operation" not in found
    assert found["images_per_second"] == {"suite": 10.0, "bare": 10, "stock": 10}
    assert found["gigaflops_per_image"] == {"suite": 8.0, "bare": 8.0, "stock": 4.0}
    assert not [name for name in found if name.endswith("_cpu")]


def test_shares_of_processor_time_stand_beside_those_of_time():
    def rounds(rate, of_cpu):
        return [
            {"images_per_second": rate, "images_per_cpu_second": of_cpu, "gigaflops_per_image": 8.0}
        ]

    found = image_step.summary({"suite": rounds(10.0, 6.0), "stock": rounds(20.0, 5.0)})
    assert (found["suite_to_stock"], found["suite_to_stock_cpu"]) == (0.5, 1.2)


def test_every_model_has_its_script():
    for workload in [name for name in image_step.BATCHES if not name.startswith("zoo:")]:
        for framework in image_step.STOCK:
            name = f"{workload.removesuffix('50')}_{framework}.py"
            text = (PROJECT / "benchmarks" / "bare" / name).read_text()
            for model in set(image_step.models(workload, framework)) - {"suite", "bare_malloc"}:
                assert model in text, f"{name} does not know {model}"
            assert "workloads" not in text
            assert "import suite" not in text


def test_networks_of_the_zoo_are_held_against_stock_ones_that_there_are():
    of_zoo = [name for name in image_step.BATCHES if name.startswith("zoo:")]
    assert set(of_zoo) <= set(image_step.IMAGE_SIZES)
    pairs = itertools.product(of_zoo, image_step.STOCK)
    found = {
        (name, framework): list(image_step.models(name, framework)) for name, framework in pairs
    }
    assert all(names[:2] == ["suite", "stock"] for names in found.values())
    assert [pair for pair, names in found.items() if len(names) > 2] == [
        ("zoo:resnet50", "mxnet")
    ]  # two versions
    said = image_step.models("zoo:resnet50", "tensorflow")["stock"]
    assert said == image_step.STOCK["tensorflow"]["stock"]  # another network, and it says in what


@pytest.mark.parametrize(("pipeline", "met"), [(100.0, False), (5.0, None)])
def test_a_share_is_judged_only_where_the_pipeline_is_faster(pipeline, met):
    synthetic = [{"images_per_second": rate} for rate in (10.0, 20.0, 10.0)]
    of_pipeline = {"pipeline_images_per_second": pipeline, "data_wait_share": 0.1}
    fed = [{"images_per_second": rate, **of_pipeline} for rate in (9.0, 19.0, 9.4)]
    found = image_feeding.summary(synthetic, fed)
    assert found["share"] == 0.94
    assert found["met"] is met


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("trained", 20, 400), ("undecided", 8_000, 40_000)]
)
def test_synthetic_outputs_are_what_they_are_called(kind, least, most):
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


def test_every_plain_loop_that_a_step_is_held_against_has_its_script():
    steps = (gnmt_step, transformer_step)
    names = [
        f"{step.KIND.workload.name}_{framework}" for step in steps for framework in step.KIND.models
    ]
    others = maskrcnn_step.COMPARED_MODELS
    names += [
        f"maskrcnn_{framework if name == 'bare' else name}"
        for framework, (name, _) in others.items()
    ]
    assert {f"{workload}_{framework}" for workload in ("gnmt",) for framework in others} <= set(
        names
    )
    for name in names:
        assert (PROJECT / "benchmarks" / "bare" / f"{name}.py").exists(), name


CIFAR = SimpleNamespace(dataset="cifar-demo", cores=1, epochs=1)


class Typed(Exception):
    """What a benchmark types, instead of a run."""


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
def test_what_a_benchmark_types_can_be_planned(tmp_path, monkeypatch, name, measure):
    def typed(words, output, prefix=()):
        raise Typed(*words)

    benchmark = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(benchmark, "run_suite", typed)
    monkeypatch.setattr(
        benchmark, "in_environment", lambda *given, **options: Counter(), raising=False
    )
    with pytest.raises(Typed) as caught:
        measure(benchmark, tmp_path)
    planned = plan(
        composed(*caught.value.args, f"output={tmp_path / 'out'}"), "job", tmp_path / "out"
    )
    assert not planned.findings
    assert planned.draft is not None


@pytest.mark.parametrize("workload", ["ssd", "maskrcnn"])
def test_the_input_that_is_measured_makes_batches(tmp_path, workload):
    photos.write_coco(tmp_path / "images", 33, 50)
    Coco2017().prepare(tmp_path / "images", tmp_path / "prepared")
    data = coco_input.data_of(workload, "exact", str(tmp_path / "prepared"))
    (batch,) = next(data.train(0, 1))
    data.close()
    assert len(batch.arrays["label"]) == coco_input.BATCHES[workload]
