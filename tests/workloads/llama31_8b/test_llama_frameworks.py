"""The trainers compute the same losses, gradients, and steps as float64 NumPy.

The number of devices, sharding, recomputation, chunks of the loss, and micro-batches do not change
the results.
"""

import numpy as np
import pytest

from testing import synthetic_llama as synthetic
from tests.frameworks_probe import begins, below, probe, probe_together, relative
from tests.workloads.llama31_8b import golden, small

FRAMEWORKS = ("pytorch", "jax")
PROBES = "probes.llama_trainers"
EACH = pytest.mark.parametrize("framework", FRAMEWORKS)
VARIANTS = {
    "recompute": ((), (("recompute", True),)),
    "chunks": ((), (("loss_chunk_tokens", 40),)),
    "micro-batches": ((("accumulation_steps", 2),), ()),
}
SHARDED = (("sharding", "shard"),)
REPLICATED = (("sharding", "replicate"),)


def trained(framework, changes=(), options=(), precision="fp32"):
    """Return the results of a trainer on a single device."""
    return probe(framework, f"{PROBES}.trained", framework, 1, precision, changes, options)


def trained_on_two(framework, options, changes=(), precision="fp32"):
    """Return the results of two processes."""
    arguments = framework, 2, precision, changes, options
    return probe_together(framework, 2, f"{PROBES}.trained", *arguments)


all_at_once = begins(
    lambda framework: (framework, f"{PROBES}.trained", framework, 1, "fp32", (), ()),
)


@EACH
def test_losses_equal_those_of_transformers(framework):
    found = probe(framework, f"{PROBES}.predicted", framework)
    np.testing.assert_allclose(found["loss"], golden.LOSSES, rtol=golden.ACCURACY)


@EACH
def test_every_gradient(framework):
    found, (loss, gradients) = probe(framework, f"{PROBES}.gradients", framework), small.gradients()
    assert found["loss"] == pytest.approx(loss, rel=1e-6)
    of_trainer = below(found, "gradient/")
    assert of_trainer.keys() == gradients.keys()
    for name, gradient in gradients.items():
        assert of_trainer[name].shape == gradient.shape
        assert relative(of_trainer[name], gradient) <= 1e-5, name


def assert_expected(found, close=1e-6):
    """Check the losses of ten steps, and the weights after them if this process returned them."""
    losses, weights = small.steps()
    np.testing.assert_allclose(found["losses"], losses, rtol=close)
    np.testing.assert_allclose(found["forward"], losses[0], rtol=close)
    state = below(found, "state/")
    for name in weights if state else ():
        difference = np.linalg.norm(state[name] - weights[name])
        assert difference <= 1e-4 * np.linalg.norm(weights[name]), name


@EACH
def test_ten_steps(framework):
    assert_expected(trained(framework))
    assert trained(framework)["traces"] in (-1, 1), "JAX traced the step again"


@EACH
@pytest.mark.parametrize("variant", VARIANTS)
def test_ten_steps_of_variants(framework, variant):
    assert_expected(trained(framework, *VARIANTS[variant]))


@EACH
@pytest.mark.parametrize("options", [REPLICATED, SHARDED], ids=["replicated", "sharded"])
def test_ten_steps_on_two_devices(framework, options):
    first, second = trained_on_two(framework, options)
    for found in (first, second):
        assert_expected(found)
    np.testing.assert_array_equal(first["losses"], second["losses"])
    network = synthetic.workload().network
    whole = network.parameter_count()
    vectors = sum(shape[0] for shape in network.shapes().values() if len(shape) == 1)
    for found in (first, second):
        held = whole if options == REPLICATED else (whole + vectors) / 2
        assert held - vectors <= found["local"] <= held + vectors
    assert below(first, "state/").keys() == below(trained(framework), "state/").keys()


@EACH
def test_ten_steps_with_micro_batches_on_two_devices_with_sharded_parameters(framework):
    changes, options = VARIANTS["micro-batches"]
    assert_expected(trained_on_two(framework, SHARDED + options, changes)[0])


@EACH
@pytest.mark.parametrize("devices", [1, 2])
def test_evaluation_covers_every_sequence_once(framework, devices):
    every = trained_on_two(framework, SHARDED) if devices == 2 else (trained(framework),)
    found = {}
    for results in every:
        valid = results["number"] >= 0
        for number, loss in zip(
            results["number"][valid], results["evaluation"][valid], strict=True
        ):
            assert number not in found
            found[number] = loss
    expected = small.evaluation()
    assert found.keys() == expected.keys() == set(range(2 * synthetic.BATCH + 1))
    for number, loss in expected.items():
        assert found[number] == pytest.approx(loss, rel=1e-5)


@EACH
@pytest.mark.parametrize("devices", [1, 2])
def test_warm_up_leaves_no_trace_and_a_state_can_be_loaded(framework, devices):
    found = trained_on_two(framework, SHARDED)[0] if devices == 2 else trained(framework)
    without, with_warm_up, after_steps, loaded = found["digests"]
    assert without == with_warm_up != after_steps
    assert after_steps == loaded


@EACH
def test_the_state_of_sharded_parameters_has_the_names_and_shapes_of_the_replicated_state(
    framework,
):
    whole = below(trained(framework), "state/")
    sharded = below(trained_on_two(framework, SHARDED)[0], "state/")
    assert {name: value.shape for name, value in sharded.items()} == {
        name: value.shape for name, value in whole.items()
    }


@EACH
@pytest.mark.parametrize("devices", [1, 2])
def test_bf16_multiplies_in_bf16_and_keeps_weights_in_fp32(framework, devices):
    found = (
        trained_on_two(framework, SHARDED, precision="bf16")[0]
        if devices == 2
        else trained(framework, precision="bf16")
    )
    difference = np.abs(found["losses"] / small.steps()[0] - 1).max()
    assert 1e-6 < difference < 1e-2
    assert {value.dtype for value in below(found, "state/").values()} == {np.dtype(np.float32)}


@pytest.mark.full
def test_jax_gathers_matrices_again_in_the_backward_pass():
    """Check the collectives of a step, because a kept matrix would need the memory of the model.

    The scan has one layer with four matrices. Embedding and classifier are gathered once.
    """
    found = below(trained_on_two("jax", SHARDED)[0], "collectives/")
    of_layer, of_model = 4, 2
    assert int(found["all-gather"]) == 2 * of_layer + of_model
    assert int(found["reduce-scatter"]) == of_layer + of_model
    assert int(found["all-to-all"]) == 0
    replicated = below(trained_on_two("jax", REPLICATED)[0], "collectives/")
    assert {name: int(count) for name, count in replicated.items()} == {
        "all-gather": 0, "all-reduce": 1, "reduce-scatter": 0, "all-to-all": 0,
    }  # fmt: skip
