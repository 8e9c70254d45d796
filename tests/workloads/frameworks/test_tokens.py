"""ModelTrainer of each framework, compared with float64 NumPy.

The workload has tokens in two shapes. The tests cover accumulated gradients, compilation, and
modes.
"""

import shutil

import numpy as np
import pytest

from tests.frameworks_probe import below, probe, probe_together, relative
from tests.workloads.frameworks import synthetic_tokens
from tests.workloads.frameworks.devices import FRAMEWORKS, on_devices
from tests.workloads.frameworks.synthetic_tokens import SIZES, VARIANTS, Tokens

PLAIN, COMPILED = ("plain", "pieces", "unused", "unused pieces"), ("compiled", "compiled pieces")
ANY_SHAPE = ("any shape", "any shape in pieces")
"""Variants with a single trace for all shapes. XLA still compiles each shape."""
RUNS = {
    **{("pytorch", devices): PLAIN for devices in (1, 2)},
    **{
        ("tensorflow", 1): ("plain", "unused pieces", "compiled", *ANY_SHAPE),
        ("tensorflow", 2): ("plain",),
    },
    **{("jax", 1): PLAIN, ("jax", 2): ("plain", "unused pieces")},
    **{("mxnet", devices): (*PLAIN, *COMPILED) for devices in (1, 2)},
}
LONG_RUN = [("tensorflow", 1, variant) for variant in ("compiled pieces", "any shape compiled")]
LONG_RUN += [("pytorch", 1, variant) for variant in COMPILED] if shutil.which("g++") else []
CLOSE = {"pytorch": 3e-6, "tensorflow": 3e-6, "jax": 3e-6, "mxnet": 5e-5}
"""Tolerance relative to the largest value.

fp32 rounds to 6e-8. A softmax over 40 words and six steps accumulate the error. MXNet's logarithm
has an error of 1e-6.
"""
every = pytest.mark.parametrize(
    ("framework", "devices", "variant"),
    [
        *((*run, variant) for run, variants in RUNS.items() for variant in variants),
        *(pytest.param(*run, marks=pytest.mark.full) for run in LONG_RUN),
    ],
)


def computed(framework, devices, variant):
    together = RUNS[framework, devices]
    asked = together if variant in together else (variant,)
    found = on_devices(framework, devices, "probes.small_trainers.tokens", *asked)
    return [of_process[variant] for of_process in found]


def close(found, wanted, framework, least=1.0):
    """Check for equal names, and for values that are equal within the tolerance of fp32."""
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        assert np.abs(found[name] - value).max() <= CLOSE[framework] * max(
            np.abs(value).max(), least
        ), name


@every
def test_losses_and_state_follow_float64(framework, devices, variant):
    wanted, losses = synthetic_tokens.expected(Tokens(devices, **VARIANTS[variant]))
    for found in computed(framework, devices, variant):
        np.testing.assert_allclose(found["losses"], losses, rtol=CLOSE[framework])
        close(below(found, "state/"), wanted, framework)
        assert found["same"]


@every
def test_passes_without_an_update_have_loss_and_gradients_and_change_nothing(
    framework, devices, variant
):
    workload = Tokens(devices, **VARIANTS[variant])
    weights = dict(workload.initial_weights(1))
    passes = [synthetic_tokens.summed(workload, step, weights) for step in range(2)]
    # Values that fp16 must represent do not shrink with the number of devices. PyTorch computes a
    # mean over the devices, which has the same effect. TensorFlow divides before the sum.
    scale = {"pytorch": 1, "tensorflow": 1 / 8, "jax": devices, "mxnet": devices}[
        framework
    ] * workload.optimizer().loss_scaling.start
    for found in computed(framework, devices, variant):
        for mode in ("forward", "forward_backward"):
            assert found[mode] == pytest.approx(
                np.mean([loss for loss, _ in passes]), rel=CLOSE[framework]
            )
        close(
            below(found, "gradient/"),
            {name: scale * value for name, value in passes[0][1].items()},
            framework,
        )
        assert found["untouched"]


@every
def test_outputs_equal_the_logits_of_the_model(framework, devices, variant):
    workload = Tokens(devices, **VARIANTS[variant])
    weights = dict(workload.initial_weights(1))
    for process, found in enumerate(computed(framework, devices, variant)):
        for step in range(2):
            wanted = synthetic_tokens.logits_of(
                weights, workload.batch(step, process).arrays["source"]
            )
            assert relative(found[f"logits/{step}"], wanted) <= CLOSE[framework]


@every
def test_each_shape_is_traced_once(framework, devices, variant):
    """Check that a model that accepts any shape has a single trace.

    MXNet compiles no graph that depends on the data.
    """
    wanted = {
        "pytorch": -1,
        "tensorflow": 1 if variant in ANY_SHAPE else len(SIZES),
        "jax": len(SIZES),
        "mxnet": len(SIZES) if variant in COMPILED else 0,
    }
    assert computed(framework, devices, variant)[0]["traces"] == wanted[framework]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_setup_warms_up_the_passes_of_the_mode(framework):
    """Count steps, passes with gradients, passes without, and evaluations, of each shape.

    PyTorch warms up evaluation only if the run evaluates.
    """
    found, each = (
        below(probe(framework, "probes.small_trainers.setup_checks", framework), "modes/"),
        len(SIZES),
    )
    evaluates = 0 if framework == "pytorch" else each
    assert {mode: counts.tolist() for mode, counts in found.items()} == {
        "train": [each, 0, 0, each],
        "forward_backward": [0, each, 0, evaluates],
        "forward": [0, 0, each, evaluates],
        "inference": [0, 0, 0, each],
    }


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_batch_that_cannot_be_split_is_rejected_in_one_line(framework):
    message = str(probe(framework, "probes.small_trainers.setup_checks", framework)["refused"])
    assert message.startswith("accumulation_steps=3: a device's batch of 4 ")
    assert "Set batch=per_device:N" in message
    assert "\n" not in message


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_a_parameter_without_gradient_is_reported_if_every_step_uses_all(framework):
    found = probe(framework, "probes.small_trainers.setup_checks", framework)
    assert "short.bias" in str(found["missing"])


def test_dropout_masks_differ_between_replicas_and_ignore_the_warm_up():
    alone = probe("pytorch", "probes.small_pytorch.dropout")
    pair = probe_together("pytorch", 2, "probes.small_pytorch.dropout")
    assert all(found["same"] for found in (alone, *pair))
    assert pair[0]["mask"] == alone["mask"] != pair[1]["mask"]
    assert abs(alone["losses"] - computed("pytorch", 1, "plain")[0]["losses"]).min() > 1e-3
