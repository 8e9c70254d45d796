"""All frameworks compute the same outputs, losses, and states for each image workload.

They start from the same weights and batches. The reference is torchvision's model in float64
(tests/probes/torchvision_models.py). Tests of a single workload are in its folder.
"""

import itertools

import numpy as np
import pytest

from suite.common import registry
from tests.frameworks_probe import begins, below, probe, probe_together, relative
from tests.helpers import full_but

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
TRAINED = "probes.image_trainers.trained"
REFERENCE = "probes.torchvision_models.trained"
WORKLOADS = ("resnet50", "ssd")
SMALL = [("resnet50", "sgd"), ("ssd", "steps")]
LARGE = [("resnet50", "lars"), ("resnet50", "full"), ("ssd", "full")]
"""The whole networks, and ten steps with LARS.

workloads/frameworks/test_updates.py tests LARS on smaller arrays.
"""
CASES = [*SMALL, *(pytest.param(*case, marks=pytest.mark.full) for case in LARGE)]
"""Cases with a reference in float64."""
STEPPED = CASES[:3]
UNEVEN = [(workload, "uneven") for workload in WORKLOADS]
SHAPES = {
    "resnet50": {"logits": (2, 1000)},
    "ssd": {"offsets": (2, 4, 8732), "logits": (2, 81, 8732)},
}
"""Shapes of the outputs in case `full`."""
LOSS_LIMIT = {"resnet50": 1e-3, "ssd": 1e-5}
ON_TWO = {"resnet50": "sgd", "ssd": "steps"}
"""Case that two devices train."""
ON_TWO_STEPS = 3


def in_each(cases, frameworks=FRAMEWORKS):
    """Parametrize by `workload`, `case`, and each framework that has a trainer of the workload.

    `make test` compares SSD and ResNet-50 in PyTorch with float64. It compares the other frameworks
    with PyTorch on uneven sizes.
    """
    plain = [case.values if hasattr(case, "marks") else case for case in cases]
    every = [
        (*case_, name)
        for case_ in plain
        for name in frameworks
        if name in registry.frameworks_of(case_[0])
    ]
    short = [
        case_
        for case_ in every
        if case_[:2] in (*UNEVEN, SMALL[1])
        or (case_[:2] == SMALL[0] and case_[2] in ("pytorch", "jax"))
    ]
    return pytest.mark.parametrize(("workload", "case", "framework"), full_but(every, *short))


def trained(workload, framework, case):
    """Return the results of a trainer."""
    return probe(framework, TRAINED, workload, framework, case)


def reference(workload, case, *how):
    """Return torchvision's results in float64."""
    return probe("pytorch", REFERENCE, workload, case, *how)


all_at_once = begins(
    lambda workload, case: None if case == "uneven" else ("pytorch", REFERENCE, workload, case),
    lambda workload, framework, case: (framework, TRAINED, workload, framework, case),
)


@in_each(CASES)
def test_outputs_are_those_of_float64(workload, case, framework):
    found, wanted = (
        below(results, "outputs/")
        for results in (trained(workload, framework, case), reference(workload, case))
    )
    assert found.keys() == wanted.keys() == SHAPES[workload].keys()
    for name, output in found.items():
        assert output.dtype == np.float32
        assert output.shape == (SHAPES[workload][name] if case == "full" else wanted[name].shape)
        assert relative(output, wanted[name]) <= 1e-5


@in_each(CASES)
def test_loss_of_a_batch_is_that_of_float64(workload, case, framework):
    found, wanted = trained(workload, framework, case), reference(workload, case)
    assert found["losses"][0] == pytest.approx(wanted["losses"][0], rel=LOSS_LIMIT[workload])
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=LOSS_LIMIT[workload])


@in_each(STEPPED)
def test_ten_steps_follow_float64(workload, case, framework):
    found, wanted = trained(workload, framework, case), reference(workload, case)
    assert len(found["losses"]) == len(wanted["losses"]) == 10
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-3)


@in_each(STEPPED)
def test_state_has_every_parameter_velocity_and_statistic(workload, case, framework):
    found, wanted = (
        below(results, "state/")
        for results in (trained(workload, framework, case), reference(workload, case))
    )
    assert {name: value.shape for name, value in found.items()} == {
        n: value.shape for n, value in wanted.items()
    }
    # The stem's statistics hardly depend on the effect of training on the weights.
    for kind in ("mean", "var"):
        assert relative(found[f"bn1.running_{kind}"], wanted[f"bn1.running_{kind}"]) < 5e-3


@in_each([*CASES, *UNEVEN])
def test_warm_up_leaves_no_trace_and_state_comes_back(workload, case, framework):
    digests = trained(workload, framework, case)["digests"]
    assert digests[0] == digests[1] != digests[2] == digests[3]


@pytest.mark.parametrize(("workload", "case"), CASES)
def test_gradients_in_float64(workload, case):
    """Check every parameter's gradient in PyTorch."""
    found, wanted = (
        below(results, "gradient/")
        for results in (trained(workload, "pytorch", case), reference(workload, case))
    )
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert relative(found[name], gradient) <= 1e-5, name


@in_each(UNEVEN, FRAMEWORKS[1:])
def test_odd_sizes_and_narrow_layers_agree_with_pytorch(workload, case, framework):
    """Check maps of odd sizes, which reveal padding errors.

    24 channels are not whole blocks of oneDNN.
    """
    found, wanted = trained(workload, framework, case), trained(workload, "pytorch", case)
    for name, output in below(wanted, "outputs/").items():
        assert relative(found[f"outputs/{name}"], output) <= 1e-5
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    for name, velocity in below(wanted, "first/velocity.").items():
        difference = found[f"first/velocity.{name}"] - velocity
        assert np.linalg.norm(difference) <= 1e-2 * np.linalg.norm(velocity), name


@pytest.mark.parametrize("workload", WORKLOADS)
def test_mxnet_computes_the_same_without_its_graph(workload):
    """Check `compile=off`, which calls the same operators individually."""
    found = probe("mxnet", TRAINED, workload, "mxnet", "uneven", 1, "off")
    wanted = trained(workload, "mxnet", "uneven")
    np.testing.assert_allclose(
        found["outputs/logits"], wanted["outputs/logits"], rtol=1e-5, atol=1e-5
    )
    assert relative(found["outputs/logits"], wanted["outputs/logits"]) <= 1e-5
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)


@in_each([*CASES, *UNEVEN], ("tensorflow", "jax"))
def test_the_step_is_traced_once(workload, case, framework):
    assert trained(workload, framework, case)["traces"] == 1


PAIRS = [
    pair
    for pair in itertools.product(WORKLOADS, FRAMEWORKS)
    if pair[1] in registry.frameworks_of(pair[0])
]
ON_TWO_IN_SHORT = [*((workload, "pytorch") for workload in WORKLOADS), ("resnet50", "mxnet")]
"""Combinations in the short test run. NCF and small models cover TensorFlow's two devices."""


@pytest.mark.parametrize(("workload", "framework"), full_but(PAIRS, *ON_TWO_IN_SHORT))
def test_two_devices_follow_two_replicas_in_float64(workload, framework):
    """Check training on two devices.

    Each device has half of a batch and separate batch norms, so losses differ from a single
    device's.
    """
    processes, case = 1 if framework == "mxnet" else 2, ON_TWO[workload]
    first, *remaining = probe_together(
        framework, processes, TRAINED, workload, framework, case, 2, "", ON_TWO_STEPS
    )
    wanted = reference(workload, case, 2, ON_TWO_STEPS)
    np.testing.assert_allclose(first["losses"], wanted["losses"], rtol=1e-5)
    for name, velocity in below(wanted, "first/velocity.").items():
        difference = first[f"first/velocity.{name}"] - velocity
        assert np.linalg.norm(difference) <= 1e-2 * np.linalg.norm(velocity), name
    for kind in ("mean", "var"):
        assert (
            relative(first[f"first/bn1.running_{kind}"], wanted[f"first/bn1.running_{kind}"]) < 1e-5
        )
        assert (
            relative(first[f"state/bn1.running_{kind}"], wanted[f"state/bn1.running_{kind}"]) < 5e-3
        )
    assert first["digests"][0] == first["digests"][1] != first["digests"][2] == first["digests"][3]
    for process_results in remaining:
        # Parameters, velocities and averaged statistics are equal.
        assert first["digests"][2] == process_results["digests"][2]
