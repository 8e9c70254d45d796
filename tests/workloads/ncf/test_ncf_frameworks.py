"""All frameworks compute the same logits, losses and states.

They start from the same weights and batches. The reference is float64 NumPy (neumf_numpy.py), so
that an error of a framework cannot become the expected value.
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest

from testing import synthetic_ncf as synthetic
from tests.frameworks_probe import begins, below, probe, probe_together
from tests.workloads.ncf import neumf_numpy
from workloads.common import optimizers

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
TRAINED, ON_CORES = "probes.ncf_trainers.trained", "probes.ncf_trainers.on_cores"
EXCHANGING = FRAMEWORKS[:3]
"""Frameworks that run a process per device. In MXNet, a single process drives both devices."""


def trained(framework):
    """Return the results of a trainer on a single device."""
    return probe(framework, TRAINED, framework)


@functools.cache
def trained_on_two(framework):
    """Return the results of each process on two devices."""
    return probe_together(framework, 2 if framework in EXCHANGING else 1, TRAINED, framework, 2)


@functools.cache
def reference():
    """Return weights before the steps, losses in float64, and weights after them."""
    with tempfile.TemporaryDirectory() as folder:
        workload = synthetic.workload(Path(folder))
        weights, (rate, *betas, epsilon, _) = (
            dict(workload.initial_weights(7)),
            synthetic.ADAM.values(),
        )
        states = {
            name: (np.float64(value), *np.zeros((2, *value.shape)))
            for name, value in weights.items()
        }
        losses, data = [], workload.open_data(synthetic.place(0, range(1), 1), 7)
        for step, (batch,) in enumerate(data.train(0, workload.steps_per_epoch + 2), start=1):
            now = {name: value for name, (value, *_) in states.items()}
            losses.append(neumf_numpy.loss(now, batch.arrays, batch.global_weight_sum))
            for name, gradient in neumf_numpy.gradient(
                now, batch.arrays, batch.global_weight_sum
            ).items():
                states[name] = optimizers.adam(*states[name], gradient, rate, step, betas, epsilon)
        data.close()
    return weights, losses, {name: value for name, (value, *_) in states.items()}


all_at_once = begins(lambda framework: (framework, TRAINED, framework))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_same_weights_give_the_same_logits(framework):
    found, (weights, _, _) = trained(framework), reference()
    users = np.repeat(found["users"], found["items"].shape[1])
    expected = neumf_numpy.logits(weights, users, found["items"].ravel()).reshape(
        found["logits"].shape
    )
    assert found["logits"].dtype == np.float32
    assert np.abs(found["logits"] - expected).max() <= 1e-5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_adam_steps_have_the_same_loss_on_one_device_and_on_two(framework):
    found, (_, losses, final) = trained(framework), reference()
    assert len(found["losses"]) == len(losses) == 12
    for results in (found, *trained_on_two(framework)):
        np.testing.assert_allclose(results["losses"], losses, rtol=2e-6)
        np.testing.assert_allclose(results["forward"], losses[0], rtol=1e-6)
        assert (
            np.abs(results["mlp_user"] - final["mlp_user"]).mean()
            < 1e-4 * np.abs(final["mlp_user"]).mean()
        )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_warm_up_leaves_no_trace_and_a_state_can_be_loaded(framework):
    without, with_warm_up, after_steps, loaded, after_another_step = trained(framework)["digests"]
    assert without == with_warm_up
    assert after_steps == loaded
    assert after_steps == after_another_step, (
        "training changed a state that had been returned before"
    )
    assert after_steps != without


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_process_detects_a_loss_that_is_nan(framework):
    assert all(found["diverges"] for found in (trained(framework), *trained_on_two(framework)))


@pytest.mark.parametrize("framework", EXCHANGING)
def test_process_0_gathers_different_arrays_of_other_processes(framework):
    first, second = trained_on_two(framework)
    gathered = {name: value.tolist() for name, value in below(first, "gathered/").items()}
    assert gathered == {"0/hit": [True, False, True], "0/number": [0.0, 1.0], "1/hit": [True] * 7}
    assert below(second, "gathered/") == {}
    assert [float(found["broadcast"]) for found in (first, second)] == [2.5, 2.5]


@pytest.mark.parametrize("framework", EXCHANGING)
def test_bf16_multiplies_in_bf16_and_keeps_weights_in_fp32(framework):
    low = probe(framework, TRAINED, framework, 1, "bf16")
    difference = np.abs(low["losses"] / trained(framework)["losses"] - 1).max()
    assert 1e-7 < difference < 5e-3


@pytest.mark.full
def test_tensorflow_computes_the_same_compiled_in_pieces_and_traces_a_function_per_shape():
    graph, compiled = (
        trained("tensorflow"),
        probe("tensorflow", TRAINED, "tensorflow", 1, "fp32", True),
    )
    np.testing.assert_allclose(compiled["losses"], graph["losses"], rtol=1e-6)
    np.testing.assert_allclose(compiled["logits"], graph["logits"], atol=1e-6, rtol=0)
    assert {
        int(results["traces"]) for results in (graph, compiled, *trained_on_two("tensorflow"))
    } == {2}


def test_pytorchs_sums_by_table_equal_the_sum_of_the_whole_gradient():
    """Check that sums of single tables equal the sum of the whole gradient.

    On GPUs, the sum of a table starts while other tables' gradients are computed. Here, two CPU
    processes are forced to do the same.
    """
    found = probe_together("pytorch", 2, "probes.ncf_trainers.summed_by_table")
    for results in found:
        assert np.count_nonzero(results["at_once"]) > 1_000
        np.testing.assert_array_equal(results["by_table"], results["at_once"])
    np.testing.assert_array_equal(found[0]["by_table"], found[1]["by_table"])


def test_threads_compute_pytorchs_pieces_in_parallel_with_equal_results():
    alone, *parallel = (probe("pytorch", ON_CORES, cores) for cores in (1, 2, 4))
    used = [
        (int(results["threads"]), results["inside"].tolist(), int(results["outside"]))
        for results in (alone, parallel[0])
    ]
    assert used == [(1, [1], 1), (2, [1], 2)]
    assert all(found["digest"] == alone["digest"] for found in parallel)
    assert all(np.array_equal(found["logits"], alone["logits"]) for found in parallel)
