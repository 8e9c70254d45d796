"""The three frameworks compute one thing: the same logits, losses and states from the same weights and batches.

The reference is float64 NumPy (neumf_numpy.py), so that no framework is measured against another's mistake.
"""

import functools

import numpy as np
import pytest

from suite.common import registry
from suite.config.compose import compose
from suite.launch.base import place_of
from suite.plan.jobs import plan
from tests.frameworks_probe import begin_chosen, probe, probe_together
from tests.workloads.ncf import neumf_numpy

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
TRAINED = "probes.ncf_trainers.trained"
BATCH = 45_001
"""Ten steps per epoch of the demo, the last one short and odd."""
EPOCH = 10


@functools.cache
def make_run(framework, folder, devices=1):
    """A RunSpec of the NCF demo as the controller would make it, and where it is written."""
    arguments = ("workload=ncf", f"framework={framework}", "profile=demo", "seed=7", f"gpus={devices}")
    # Without scaling: a large learning rate turns rounding of fp32 into different ReLU masks within ten steps.
    arguments += (f"batch=global:{BATCH}", "lr_scaling=none", "oversubscribe=true")
    config = compose(arguments).jobs[0].config
    run = plan(config, "job", folder).job.run(0, False)
    path = folder / f"{framework}-{devices}.json"
    run.write(path)
    return run, str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, demo_data, request):
    """Where the runs are written; every framework begins with what the chosen tests will ask of it."""
    folder = tmp_path_factory.mktemp("probes")
    demo_data("ml-demo")
    begin_chosen(request, lambda framework: (framework, TRAINED, make_run(framework, folder)[1]))
    return folder


def trained(framework, folder):
    """What a trainer computes on one device."""
    return probe(framework, TRAINED, make_run(framework, folder)[1])


@functools.cache
def trained_on_two(framework, folder):
    """What it computes on two: one process drives both in MXNet."""
    count = 1 if framework == "mxnet" else 2
    return probe_together(framework, count, TRAINED, make_run(framework, folder, 2)[1])[0]


@functools.cache
def reference(folder):
    """Losses of two epochs in float64, from the same weights and batches."""
    run, _ = make_run("pytorch", folder)
    workload = registry.load_workload("ncf")(run.settings, run.facts)
    weights = dict(workload.initial_weights(run.settings.seed))
    values = run.settings.hyperparameters
    adam = neumf_numpy.Adam(weights, values["learning_rate"], values["beta1"], values["beta2"], values["epsilon"])
    losses = []
    data = workload.open_data(place_of(run, 0, 1), run.settings.seed)
    for (batch,) in data.train(0, 2 * EPOCH):
        losses.append(neumf_numpy.loss(adam.weights, batch.arrays, batch.weight_global))
        adam.step(neumf_numpy.gradient(adam.weights, batch.arrays, batch.weight_global))
    data.close()
    return weights, np.array(losses), adam.weights


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_same_weights_give_the_same_logits(framework, folder):
    found = trained(framework, folder)
    weights, _, _ = reference(folder)
    users = np.repeat(found["users"], found["items"].shape[1])
    expected = neumf_numpy.logits(weights, users, found["items"].ravel()).reshape(found["logits"].shape)
    assert found["logits"].dtype == np.float32
    assert np.abs(found["logits"] - expected).max() <= 1e-5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_twenty_adam_steps_have_the_same_loss(framework, folder):
    found = trained(framework, folder)
    _, losses, final = reference(folder)
    assert len(found["losses"]) == len(losses) == 20
    np.testing.assert_allclose(found["losses"], losses, rtol=2e-6)
    assert np.abs(found["mlp_user"] - final["mlp_user"]).mean() < 1e-4 * np.abs(final["mlp_user"]).mean()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_device_computes_what_two_compute(framework, folder):
    one, two = trained(framework, folder)["losses"], trained_on_two(framework, folder)["losses"]
    np.testing.assert_allclose(two, one, rtol=2e-6)
    assert two[:EPOCH].mean() == pytest.approx(one[:EPOCH].mean(), rel=1e-6)


def test_sums_of_each_table_are_those_of_the_whole_gradient(folder):
    """On GPUs they begin one by one while other tables' gradients are added up; forced here on two processes of cores."""
    found = probe_together("pytorch", 2, "probes.ncf_trainers.summed_by_table", make_run("pytorch", folder, 2)[1])
    for one in found:
        assert np.count_nonzero(one["at_once"]) > 1_000
        np.testing.assert_array_equal(one["by_table"], one["at_once"])
    np.testing.assert_array_equal(found[0]["by_table"], found[1]["by_table"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_frameworks_compute_one_loss(framework, folder):
    wanted = trained("pytorch", folder)["losses"][:EPOCH].mean()
    for found in (trained(framework, folder), trained_on_two(framework, folder)):
        assert found["losses"][:EPOCH].mean() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_warm_up_leaves_no_trace_and_a_state_can_be_loaded(framework, folder):
    without, with_warm_up, after_steps, loaded, after_another_step = trained(framework, folder)["digests"]
    assert without == with_warm_up
    assert after_steps == loaded
    assert after_steps == after_another_step, "training reached a state that had been given away"
    assert after_steps != without


def test_tensorflow_traces_one_function_per_shape(folder):
    run, _ = make_run("tensorflow", folder)
    workload = registry.load_workload("ncf")(run.settings, run.facts)
    assert workload.steps_per_epoch == EPOCH
    assert 1 <= int(trained("tensorflow", folder)["traces"]) <= len(workload.shapes()) == 2
