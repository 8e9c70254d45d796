"""Schedules, hyperparameter sets, rules, log keys, and detections of SSD."""

import itertools
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from suite.worker.evaluation import measured, merge
from testing import synthetic
from workloads.api import Batch, DatasetInfo, ParameterRule
from workloads.ssd.settings import DEMO_MODEL, REFERENCE_MODEL
from workloads.ssd.workload import SSD

COCO = DatasetInfo(117_266, 4_952, {"classes": 80}, "published")


def build_workload(set_name, dataset_info=COCO, rules="v0.7", **changes):
    """Return the full workload with a hyperparameter set."""
    values = {
        "devices": 8,
        "dataset": "coco2017",
        "model": REFERENCE_MODEL,
        "targets": {"map": 0.230},
        **changes,
    }
    return SSD(synthetic.of_set(SSD, set_name, rules=rules, **values), dataset_info)


def demo():
    changes = {"profile": "demo", "model": DEMO_MODEL, "devices": 1, "dataset": "coco-demo"}
    return build_workload("demo", DatasetInfo(2000, 300, {"classes": 10}, "synthetic"), **changes)


def rates_of_the_reference(base, warmup, per_epoch, steps, decay_epochs=(40, 50)):
    """Return the rates of the loop in the reference's train.py.

    A step that sets no rate keeps the last rate. The decay starts from the base rate.
    """
    found, current, rate = [], base, base
    for step in range(steps):
        if step % per_epoch == 0 and step // per_epoch in decay_epochs:
            current *= 0.1
            rate = current
        if step < warmup:
            rate = current - (warmup - step) * current / warmup
        found.append(rate)
    return found


def test_every_rate_of_the_reference():
    """Compare every rate.

    300 steps of 2.619685 epochs are 299 after the reference's rounding, so the plateau stays a
    299th below the base rate.
    """
    workload = build_workload("reference")
    warmup = int(2.619685 * 117_266 / 1_024)
    assert (workload.options.warmup_steps, workload.steps_per_epoch) == (warmup, 115) == (299, 115)
    expected = rates_of_the_reference(0.08, warmup, 115, 52 * 115)
    assert [workload.learning_rate(step) for step in range(52 * 115)] == pytest.approx(
        expected, rel=1e-12
    )
    assert expected[300] == expected[4_599] == pytest.approx(0.08 * (1 - 1 / 299), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "plateau"),
    [
        ("nvidia_v0.5_dgx1", 0.095 * (1 - 1 / 300)),
        ("nvidia_v0.6_dgx1", 0.0875 * (1 - 1 / 650)),
        ("nvidia_v0.7_dgxa100", 0.09 * (1 - 1 / 650)),
        ("nvidia_v0.7_64xa100", 0.14),
        ("reference_1gpu", 2.5e-3),
    ],
)
def test_the_plateau_is_that_of_each_entrys_code(name, plateau):
    """Compare the plateau of the entries.

    PyTorch's entries keep the last rate of the warm-up. MXNet's scheduler computes every rate.
    """
    assert build_workload(name).learning_rate(1_000) == pytest.approx(plateau, rel=1e-12)


def test_rates_of_the_published_v05_log():
    """Compare opt_learning_rate of iterations 0, 1, 2, 31 in NVIDIA's DGX-1 log."""
    workload = build_workload("nvidia_v0.5_dgx1", rules="v0.5")
    found = [workload.learning_rate(step) for step in (0, 1, 2, 31)]
    assert found == pytest.approx(
        [0.0, 0.0003166666666666734, 0.0006333333333333468, 0.009816666666666668]
    )
    assert workload.decay_steps == [4_210, 5_263]
    assert workload.decay_epochs == pytest.approx(
        [43.7, 54.6], abs=0.8
    )  # the steps of an epoch are rounded up
    assert workload.learning_rate(4_209) == pytest.approx(0.095 * (1 - 1 / 300), rel=1e-12)
    assert workload.learning_rate(4_210) == pytest.approx(0.0095)


def test_warm_up_with_a_factor_starts_higher():
    values = build_workload("reference").settings.hyperparameters
    workload = build_workload("reference", hyperparameters={**values, "warmup_factor": 2})
    assert workload.learning_rate(0) == pytest.approx(0.06)
    assert workload.learning_rate(150) == pytest.approx(0.08 - (299 - 150) * 0.08 / (299 * 4))
    assert workload.learning_rate(1_000) == pytest.approx(0.08 * (1 - 1 / (4 * 299)))


def test_demo_schedule():
    workload = demo()
    assert workload.steps_per_epoch == 125
    rates = [workload.learning_rate(125 * epoch) for epoch in (0, 1, 2, 9, 16, 20)]
    assert rates == pytest.approx([0, 0.01, 0.02, 0.01, 0, 0])
    assert list(itertools.islice(workload.evaluation_steps(), 3)) == [250, 500, 750]


def test_evaluations_are_those_of_the_rules():
    workload, epochs = build_workload("nvidia_v0.7_dgx1"), [40, 50, 55, 60, 65, 70, 75, 80, 85, 90]
    steps = list(itertools.islice(workload.evaluation_steps(), len(epochs)))
    assert [step / workload.steps_per_epoch for step in steps] == epochs


def evaluations_of_the_reference(batch, steps):
    """Return the steps of each evaluation and its epoch, from 0, as in v0.5's train.py."""
    iteration, found = 0, []
    wanted = [int(n * 32 / batch) for n in (120_000, 160_000, 180_000, 200_000, 220_000, 240_000)]
    for epoch in range(66):
        for done in range(epoch * steps + 1, epoch * steps + steps + 1):
            if iteration in wanted:
                found.append((done, epoch))
            iteration += 1
    return found


@pytest.mark.parametrize(("batch", "first"), [(32, 120_001), (1_216, 3_158), (1_024, 3_751)])
def test_evaluations_of_v05_come_after_the_references_iterations(batch, first):
    """Check evaluations within epochs.

    NVIDIA's logs, at batch 1,216, have the epochs 32, 43, 48, 54, 59, 65.
    """
    workload = build_workload("reference_v0.5", rules="v0.5", global_batch_size=batch)
    steps = list(itertools.islice(workload.evaluation_steps(), 8))
    found = [(step, workload.epochs.epoch_of(step - 1)) for step in steps]
    assert found[:6] == evaluations_of_the_reference(batch, workload.steps_per_epoch)
    assert steps[0] == first
    assert batch != 1_216 or [epoch for _, epoch in found[:6]] == [32, 43, 48, 54, 59, 65]
    assert steps[6:] == [count * 32 // batch + 1 for count in (260_000, 280_000)]


def test_everything_is_decayed():
    workload = build_workload("reference")
    for name in ("conv1.weight", "bn1.bias", "class1.bias"):
        assert workload.parameter_rule(name) == ParameterRule(5e-4, False)


def test_log_keys():
    found = build_workload("nvidia_v0.7_dgx1").log_keys()
    assert found["opt_base_learning_rate"] == 0.0875
    assert found["opt_learning_rate_decay_boundary_epochs"] == [44, 55]
    assert found["model_bn_span"] == 120
    assert found["input_decode"] == "exact"
    assert (
        build_workload("reference", options={"decode": "scaled"}).log_keys()["input_decode"]
        == "scaled"
    )
    assert (found["max_samples"], found["opt_learning_rate_warmup_steps"]) == (1, 650)
    assert "opt_learning_rate_decay_boundary_epochs" not in demo().log_keys()
    assert demo().log_keys()["backbone_weights"] == "random"


@pytest.mark.parametrize(
    ("devices", "batch", "repeated"),
    [(8, 1_024, 494), (1, 1, 0), (2, 117_266, 0), (2, 117_264, 117_262)],
)
def test_images_that_fill_the_last_batch_are_counted(devices, batch, repeated):
    workload = build_workload("reference", devices=devices, global_batch_size=batch)
    assert workload.epoch_samples.repeated == repeated
    assert workload.steps_per_epoch * batch == COCO.train_samples + repeated


def test_maps_and_priors_must_agree():
    with pytest.raises(
        AssertionError, match=r"maps \[38, 19, 10, 5, 3, 1\], but priors for \[37, "
    ):
        build_workload("reference", model={**REFERENCE_MODEL, "map_sizes": [37, 19, 10, 5, 3, 1]})


def test_shapes():
    (shape,) = build_workload("reference").shapes()
    assert shape["image"].shape == (128, 300, 300, 3)
    assert shape["offset"].shape == (128, 4, 8732)
    assert shape["label"].shape == (128, 8732)


def test_eval_batch_metrics_returns_pixels_and_drops_padding():
    workload = demo()
    logits = np.zeros((3, 11, 1488), np.float32)
    logits[:, 0] = 10
    logits[[0, 2], 4, 1472] = 20  # first prior of the last map: center (0.25, 0.25), side 0.46
    arrays = {
        "number": np.array([7, 8, 0]), "valid": np.array([True, True, False]),
        "width": np.array([200, 100, 1]), "height": np.array([100, 50, 1]),
    }  # fmt: skip
    found = workload.eval_batch_metrics(
        Batch(arrays, 2, 2, 2), {"logits": logits, "offsets": np.zeros((3, 4, 1488), np.float32)}
    )
    assert found["seen"].tolist() == [7, 8]
    assert found["number"].tolist() == [7]
    assert found["label"].tolist() == [4]
    assert found["box"][0].tolist() == pytest.approx([4, 2, 92, 46], abs=1e-4)
    assert found["score"][0] == pytest.approx(1, abs=1e-3)


def test_an_evaluation_holds_no_more_than_two_batches_of_outputs():
    """Measure the peak memory of twelve batches. The loop only keeps the detections."""
    workload, images = demo(), 32
    logits = np.zeros((11, 1488), np.float32)
    logits[0] = 10
    logits[4, 1472] = 20
    size = images * (11 + 4) * 1488 * 4

    def predict(batches):
        for first in range(0, len(batches) * images, images):
            arrays = {"number": np.arange(first, first + images), "valid": np.ones(images, bool)}
            arrays |= {name: np.full(images, 100) for name in ("width", "height")}
            outputs = {
                "logits": np.tile(logits, (images, 1, 1)),
                "offsets": np.zeros((images, 4, 1488), np.float32),
            }
            yield Batch(arrays, images, images, images), outputs

    def evaluated(batches):
        data, heartbeat = (
            SimpleNamespace(evaluation=lambda: range(batches)),
            SimpleNamespace(update=lambda: None),
        )
        return merge(measured(workload, SimpleNamespace(predict=predict), data, heartbeat))

    evaluated(1)  # imports and caches of the first call do not count
    tracemalloc.start()
    found = evaluated(12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found["score"]) == len(found["seen"]) == 12 * images
    assert size < peak < 3 * size
