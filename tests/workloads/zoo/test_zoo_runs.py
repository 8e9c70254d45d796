"""LittleCNN's demo in real processes: every framework for a short epoch; with the marker `full` to the target."""

import json

import pytest

from tests.helpers import cpu_seconds, events, only, run_suite, run_suite_here, status, suite_here
from workloads.zoo.datasets import cifar_demo
from workloads.zoo.datasets.cifar_demo import CifarDemo

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
DEMO = ("workload=zoo", "profile=demo")
TARGET = 0.75
STEPS = 10
LITTLE_CNN = 2_168_362
"""Trained values."""
SECONDS, CORES = 60, 2
"""The demo's limit, on so many cores; tests count CPU seconds, which other work on the machine disturbs less."""


def metrics(folder):
    """The blocks of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def few_images(tmp_path_factory):
    """A data folder whose demo has a few images: an epoch of ten steps."""
    folder = tmp_path_factory.mktemp("few")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cifar_demo, "SIZES", {"train": 32 * STEPS, "val": 100})
        CifarDemo().make_demo(folder / "cifar-demo")
    return folder


@pytest.fixture(scope="module")
def epoch(tmp_path_factory, few_images):
    """A short epoch in every framework."""
    tmp_path = tmp_path_factory.mktemp("zoo")
    names = ",".join(FRAMEWORKS)
    sweep = ("-m", *DEMO, f"framework={names}", "gpus=1", "seed=1", "stop=epochs:1")
    done = run_suite(tmp_path, *sweep, timeout=900, SUITE_DATA_DIR=str(few_images))
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: only((tmp_path / "logs").glob(f"*/zoo-{name}-*/run_0")) for name in FRAMEWORKS}


def test_frameworks_train_alike(epoch):
    """The same weights, images and masks: rounding alone parts them."""
    blocks = {name: only(metrics(folder)) for name, folder in epoch.items()}
    losses = [block["loss"] for block in blocks.values()]
    assert max(losses) <= 1.001 * min(losses), losses
    assert {block["samples"] for block in blocks.values()} == {32 * STEPS}
    assert all(block["quality"]["top1"] < 0.5 for block in blocks.values()), blocks


def test_the_log_says_what_was_trained(epoch):
    for name, folder in epoch.items():
        found = {key: value for key, value, _ in events(folder / "result_0.txt")}
        assert found["suite_run"]["framework"] == name
        assert found["suite_run"]["labels"][:2] == ["demo", "cpu"]
        assert found["submission_division"] == "open"
        assert (found["model_name"], found["model_parameters"]) == ("littlecnn", LITTLE_CNN)
        assert (found["opt_name"], found["opt_rho"], found["opt_epsilon"]) == ("rmsprop", 0.9, 1e-7)
        assert (found["opt_base_learning_rate"], found["global_batch_size"]) == (1e-3, 32)
        assert (found["train_samples"], found["eval_samples"]) == (32 * STEPS, 100)


def test_the_validation_loss_stands_beside_the_judged_metric(epoch):
    for folder in epoch.values():
        (stats,) = [value for key, value, _ in events(folder / "result_0.txt") if key == "tracked_stats"]
        assert 0 < stats["scores"]["eval_loss"] < 10
        accuracies = [value for key, value, _ in events(folder / "result_0.txt") if key == "eval_accuracy"]
        assert len(accuracies) == 1


def test_report_has_a_row_for_each(epoch, tmp_path):
    done = suite_here(tmp_path, "report", *(folder.parent for folder in epoch.values()))
    assert done.returncode == 0, done.stderr
    for name in FRAMEWORKS:
        assert f"| {name}" in done.stdout


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("profile=demo", "workload.image_size=64"), "images of cifar-demo have 32 pixels a side and are not resized"),
        (("profile=synthetic", "workload.model=vgg61"), "did you mean 'vgg19'"),
        (("profile=synthetic", "workload.model=vgg16", "workload.padding=valid"), "type workload.padding=same"),
        (("profile=synthetic", "workload.implementation=stock"), "pytorch has no such littlecnn"),
        (
            ("profile=synthetic", "workload.model=inception_v3", "workload.image_size=64"),
            "type workload.image_size=75 or more",
        ),
        (("profile=synthetic", "precision=fp16"), "precision=fp16: GPUs alone have it"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, few_images, overrides, words):
    done = run_suite_here(tmp_path, "workload=zoo", "device=cpu", *overrides, SUITE_DATA_DIR=str(few_images))
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("dataset", ["cifar10", "fashion-mnist"])
def test_reference_without_data_says_what_to_type(tmp_path, dataset):
    words = ("workload=zoo", "device=cpu", f"workload.dataset={dataset}")
    done = run_suite_here(tmp_path, *words, SUITE_DATA_DIR=str(tmp_path / "none"))
    assert done.returncode == 2
    assert f"suite data prepare {dataset} --from" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_reaches_the_target_in_a_minute_of_two_cores(tmp_path, framework, demo_data):
    demo_data("cifar-demo")
    before = cpu_seconds()
    done = run_suite(tmp_path, *DEMO, f"framework={framework}", "gpus=1", "seed=1", timeout=900)
    used = cpu_seconds() - before
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only((tmp_path / "logs").glob("*/*/run_0"))
    assert status(folder)["status"] == "success"
    reached = [block["quality"]["top1"] for block in metrics(folder)]
    assert reached[-1] >= TARGET > reached[0]
    assert used <= SECONDS * CORES
