"""The three frameworks compute one thing: the same logits, losses and states from the same weights and batches.

The reference is float64 NumPy (neumf_numpy.py), so that no framework is measured against another's mistake.
"""

import functools
import json
import os
import subprocess

import numpy as np
import pytest

from suite.common import registry
from suite.config.compose import compose
from suite.environments.environment import resolve
from suite.launch.base import place_of
from suite.plan.jobs import choose, make_job
from tests.helpers import PROJECT
from tests.workloads.ncf import neumf_numpy

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
BATCH = 45_001
"""Ten steps per epoch of the demo, the last one short and odd."""


def make_run(framework, folder, *overrides):
    """A RunSpec of the NCF demo as the controller would make it."""
    arguments = ("workload=ncf", f"framework={framework}", "profile=demo", "seed=7")
    # Without scaling: a large learning rate turns rounding of fp32 into different ReLU masks within ten steps.
    arguments += (f"batch=global:{BATCH}", "lr_scaling=none", *overrides)
    config = compose(arguments).jobs[0].config
    choice = choose(config)
    recipe = registry.load_dataset("ml-demo")
    from suite.common.paths import data_root

    if not recipe.is_prepared(data_root() / "ml-demo"):
        recipe.make_demo(data_root() / "ml-demo")
    run = make_job(choice, config, "job", folder).run(0, False)
    run.write(folder / f"{framework}.json")
    return run


@functools.cache
def probe(framework, folder):
    """The probe's arrays of one framework."""
    run = make_run(framework, folder)
    environment = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"])
    out = folder / f"{framework}.npz"
    command = environment.command(
        str(PROJECT / "tests/probes/ncf_probe.py"), str(folder / f"{framework}.json"), str(out)
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(out) as arrays:
        return run, dict(arrays)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("probes")


@functools.cache
def reference(folder):
    """Losses of two epochs in float64, from the same weights and batches."""
    run = make_run("pytorch", folder)
    workload = registry.load_workload("ncf")(run.settings, run.facts)
    weights = dict(workload.initial_weights(run.settings.seed))
    values = run.settings.hyperparameters
    adam = neumf_numpy.Adam(weights, values["learning_rate"], values["beta1"], values["beta2"], values["epsilon"])
    losses = []
    data = workload.open_data(place_of(run, 0, 1), run.settings.seed)
    for (batch,) in data.train(0, 2 * workload.steps_per_epoch):
        losses.append(neumf_numpy.loss(adam.weights, batch.arrays, batch.weight_global))
        adam.step(neumf_numpy.gradient(adam.weights, batch.arrays, batch.weight_global))
    data.close()
    return weights, np.array(losses), adam.weights


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_same_weights_give_the_same_logits(framework, folder):
    _, found = probe(framework, folder)
    weights, _, _ = reference(folder)
    users = np.repeat(found["users"], found["items"].shape[1])
    expected = neumf_numpy.logits(weights, users, found["items"].ravel()).reshape(found["logits"].shape)
    assert found["logits"].dtype == np.float32
    assert np.abs(found["logits"] - expected).max() <= 1e-5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_twenty_adam_steps_have_the_same_loss(framework, folder):
    _, found = probe(framework, folder)
    _, losses, final = reference(folder)
    assert len(losses) == 20
    np.testing.assert_allclose(found["losses"], losses, rtol=2e-6)
    assert np.abs(found["mlp_user"] - final["mlp_user"]).mean() < 1e-4 * np.abs(final["mlp_user"]).mean()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_warm_up_leaves_no_trace_and_a_state_can_be_loaded(framework, folder):
    _, found = probe(framework, folder)
    without, with_warm_up, trained, loaded, after_another_step = found["digests"]
    assert without == with_warm_up
    assert trained == loaded
    assert trained == after_another_step, "training reached a state that had been given away"
    assert trained != without


def test_tensorflow_traces_one_function_per_shape(folder):
    run, found = probe("tensorflow", folder)
    workload = registry.load_workload("ncf")(run.settings, run.facts)
    assert 1 <= int(found["traces"]) <= len(workload.shapes()) == 2


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_hashed_randomness_is_the_same_in_every_environment(framework):
    environment = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"])
    done = subprocess.run(
        environment.command(str(PROJECT / "tests/golden/randomness.py")), capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((PROJECT / "tests/golden/randomness.json").read_text())
