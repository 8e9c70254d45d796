"""The framework-independent parts of NCF: parameters, weights, schedule, shapes, log keys."""

import dataclasses
import math

import numpy as np
import pytest

from suite.common import registry
from suite.plan.settings import resolve_settings
from testing import synthetic_ncf
from tests.helpers import composed
from tests.workloads.ncf import neumf_numpy
from workloads.api import Batch, WorkerContext
from workloads.ncf import weights
from workloads.ncf.dataset_info import published_facts
from workloads.ncf.settings import DEMO_MODEL, REFERENCE_MODEL
from workloads.ncf.workload import NCF


def workload_of(*overrides, dataset_info=None):
    config = composed("workload=ncf", "device=cpu", *overrides)
    settings = resolve_settings(config, NCF, registry.load_framework("pytorch"))
    return NCF(settings, dataset_info or NCF.load_dataset_info(settings))


@pytest.fixture(scope="module")
def demo(demo_data):
    demo_data("ml-demo")
    return workload_of("profile=demo", "seed=5")


def test_parameter_count_of_the_reference():
    assert weights.parameter_count(138_493, 26_744, REFERENCE_MODEL) == 31_832_577
    sizes = weights.shapes(138_493, 26_744, REFERENCE_MODEL)
    assert sum(math.prod(sizes[name]) for name in sizes if "_" in name) == 31_725_504
    assert sizes["mlp.0.weight"] == (256, 256)
    assert sizes["output.weight"] == (1, 128)


def test_another_model_with_the_published_counts_is_refused():
    workload = workload_of(dataset_info=published_facts())
    with pytest.raises(AssertionError):
        NCF(
            dataclasses.replace(workload.settings, model={**REFERENCE_MODEL, "mf_dim": 32}),
            workload.dataset_info,
        )


def test_initial_weights_have_the_reference_distributions():
    found = dict(weights.initial_weights(3000, 2000, REFERENCE_MODEL, seed=1))
    assert found["gmf_user"].std() == pytest.approx(0.01, rel=0.02)
    assert abs(found["mlp_item"].mean()) < 1e-4
    glorot = math.sqrt(6 / (256 + 256))
    assert 0.99 * glorot < np.abs(found["mlp.0.weight"]).max() <= glorot
    assert found["mlp.0.weight"].std() == pytest.approx(glorot / math.sqrt(3), rel=0.02)
    assert np.abs(found["output.weight"]).max() <= math.sqrt(3 / 128)
    assert np.abs(found["mlp.1.bias"]).max() <= 1 / 16
    assert all(value.dtype == np.float32 for value in found.values())


def test_weights_depend_on_the_seed_alone():
    first, again, other_seed = (
        dict(weights.initial_weights(50, 40, DEMO_MODEL, seed)) for seed in (1, 1, 2)
    )
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not any(np.array_equal(first[name], other_seed[name]) for name in first)


def test_epoch_and_batch_counts_of_ml_20m():
    workload = workload_of(dataset_info=published_facts())
    assert workload.epoch_samples.trained == 99_308_850
    assert workload.steps_per_epoch == 48_491
    big = workload_of("workload.hyperparameter_set=nvidia_v0.5", dataset_info=published_facts())
    assert big.steps_per_epoch == 95
    assert [spec["user"].shape for spec in big.shapes()] == [
        (1_048_576,),
        (99_308_850 % 1_048_576,),
    ]
    on_seven = NCF(dataclasses.replace(big.settings, devices=7), big.dataset_info)
    assert [spec["user"].shape for spec in on_seven.shapes()] == [
        (149_797,),
        (106_101,),
    ]  # 1,048,576 / 7, 742,706 / 7
    steps = big.evaluation_steps()
    assert [next(steps), next(steps)] == [95, 190]


@pytest.mark.parametrize("seed", [1, 2])
def test_an_untrained_model_stays_under_three_percent(demo, seed):
    """Check that the target is not trivial.

    10 of 1,000 candidates count, so random scores result in 0.01.
    """
    values = dict(demo.initial_weights(seed))
    data = demo.open_data(WorkerContext(0, 1, range(1), 1, ("cpu",)), seed)
    found = []
    for (batch,) in data.evaluation():
        # A user's candidates fit into the cache of a core.
        pairs = zip(batch.arrays["user"], batch.arrays["item"], strict=True)
        logits = [
            neumf_numpy.logits(values, np.full(items.shape, user), items) for user, items in pairs
        ]
        measured = demo.eval_batch_metrics(batch, {"logits": np.stack(logits)})
        found.append(measured["hit"])
    data.close()
    assert demo.compute_metrics({"hit": np.concatenate(found)})["hr_at_10"] < 0.03


def test_the_rate_is_constant_and_only_gpus_have_a_measuring_thread(demo):
    assert {demo.learning_rate(step) for step in (0, 1, 1000)} == {0.006}
    assert demo.measure_threads == 0
    on_gpu = NCF(dataclasses.replace(demo.settings, device="cuda"), demo.dataset_info)
    assert on_gpu.measure_threads == 1


def test_eval_batch_metrics_drops_padding_and_missing_users_are_an_error(demo):
    items = np.tile(np.arange(1000, dtype=np.int32), (3, 1))
    batch = Batch({"item": items, "valid": np.array([True, True, False])}, 2, 2, 2)
    logits = np.zeros((3, 1000), np.float32)
    logits[0, 0] = 1
    assert demo.eval_batch_metrics(batch, {"logits": logits})["hit"].tolist() == [True, False]
    with pytest.raises(ValueError, match="3 of 2000 users"):
        demo.compute_metrics({"hit": np.array([True, False, True])})


def test_log_keys_have_the_values_of_the_rules():
    keys = workload_of(dataset_info=published_facts()).log_keys()
    assert keys["eval_hp_num_users"] == 138_493
    assert keys["model_hp_mlp_layer_sizes"] == [256, 256, 128, 64]
    assert keys["opt_adam_epsilon"] == 1e-8
    assert keys["preproc_hp_num_eval"] == 999


@pytest.mark.parametrize(("framework", "device"), [("pytorch", "cpu"), ("mxnet", "cuda")])
def test_only_pytorch_on_gpus_draws_samples_on_the_device(tmp_path, framework, device):
    message = (
        rf"^workload\.sample_on_device=on: .*, not {framework} with device={device}\. Set"
        r" workload\.sample_on_device=auto$"
    )
    with pytest.raises(ValueError, match=message):
        synthetic_ncf.workload(
            tmp_path, framework, device=device, options={"sample_on_device": "on"}
        )
