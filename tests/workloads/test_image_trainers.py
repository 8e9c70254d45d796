"""The frameworks compute one thing for each image workload: outputs, losses, state from the same
weights and batches.

The reference is torchvision's own model in float64 (tests/probes/torchvision_models.py). What a
workload alone has is tested in its folder.
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
"""The whole networks, and ten steps by LARS, which workloads/frameworks/test_updates.py holds on
smaller arrays.
"""
CASES = [*SMALL, *(pytest.param(*case, marks=pytest.mark.full) for case in LARGE)]
"""With a reference in float64."""
STEPPED = CASES[:3]
UNEVEN = [(workload, "uneven") for workload in WORKLOADS]
SHAPES = {
    "resnet50": {"logits": (2, 1000)},
    "ssd": {"offsets": (2, 4, 8732), "logits": (2, 81, 8732)},
}
"""Of the case `full`."""
LOSS_LIMIT = {"resnet50": 1e-3, "ssd": 1e-5}
ON_TWO = {"resnet50": "sgd", "ssd": "steps"}
"""The case that two devices train."""
ON_TWO_STEPS = 3


def in_each(cases, frameworks=FRAMEWORKS):
    """Parametrizes by `workload`, `case` and each of the frameworks that has a trainer of the
    workload.

    Against float64 `make test` holds SSD, and ResNet-50 in PyTorch; against PyTorch the others, on
    uneven sizes.
    """
    plain = [one.values if hasattr(one, "marks") else one for one in cases]
    every = [
        (*one, name)
        for one in plain
        for name in frameworks
        if name in registry.frameworks_of(one[0])
    ]
    short = [
        one
        for one in every
        if one[:2] in (*UNEVEN, SMALL[1]) or (one[:2] == SMALL[0] and one[2] in ("pytorch", "jax"))
    ]
    return pytest.mark.parametrize(("workload", "case", "framework"), full_but(every, *short))


def trained(workload, framework, case):
    """What a trainer computes."""
    return probe(framework, TRAINED, workload, framework, case)


def reference(workload, case, *how):
    """What torchvision computes in float64."""
    return probe("pytorch", REFERENCE, workload, case, *how)


all_at_once = begins(
    lambda workload, case: None if case == "uneven" else ("pytorch", REFERENCE, workload, case),
    lambda workload, framework, case: (framework, TRAINED, workload, framework, case),
)


@in_each(CASES)
def test_outputs_are_those_of_float64(workload, case, framework):
    found, wanted = (
        below(one, "outputs/")
        for one in (trained(workload, framework, case), reference(workload, case))
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
        below(one, "state/")
        for one in (trained(workload, framework, case), reference(workload, case))
    )
    assert {name: value.shape for name, value in found.items()} == {
        n: value.shape for n, value in wanted.items()
    }
    # The stem's statistics hardly depend on what training made of the weights.
    for kind in ("mean", "var"):
        assert relative(found[f"bn1.running_{kind}"], wanted[f"bn1.running_{kind}"]) < 5e-3


@in_each([*CASES, *UNEVEN])
def test_warm_up_leaves_no_trace_and_state_comes_back(workload, case, framework):
    digests = trained(workload, framework, case)["digests"]
    assert digests[0] == digests[1] != digests[2] == digests[3]


@pytest.mark.parametrize(("workload", "case"), CASES)
def test_gradients_in_float64(workload, case):
    """Every parameter's, in PyTorch."""
    found, wanted = (
        below(one, "gradient/")
        for one in (trained(workload, "pytorch", case), reference(workload, case))
    )
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert relative(found[name], gradient) <= 1e-5, name


@in_each(UNEVEN, FRAMEWORKS[1:])
def test_odd_sizes_and_narrow_layers_agree_with_pytorch(workload, case, framework):
    """Maps of odd sizes show every padding mistake; 24 channels are not whole blocks of oneDNN's."""
    found, wanted = trained(workload, framework, case), trained(workload, "pytorch", case)
    for name, output in below(wanted, "outputs/").items():
        assert relative(found[f"outputs/{name}"], output) <= 1e-5
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    for name, velocity in below(wanted, "first/velocity.").items():
        difference = found[f"first/velocity.{name}"] - velocity
        assert np.linalg.norm(difference) <= 1e-2 * np.linalg.norm(velocity), name


@pytest.mark.parametrize("workload", WORKLOADS)
def test_mxnet_computes_the_same_without_its_graph(workload):
    """`compile=off` calls the same operators one by one."""
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
"""TensorFlow's two devices are looked at with NCF and small models."""


@pytest.mark.parametrize(("workload", "framework"), full_but(PAIRS, *ON_TWO_IN_SHORT))
def test_two_devices_follow_two_replicas_in_float64(workload, framework):
    """Each has half of a batch and its own batch norm, so losses are not those of one device."""
    processes, case = 1 if framework == "mxnet" else 2, ON_TWO[workload]
    two, *others = probe_together(
        framework, processes, TRAINED, workload, framework, case, 2, "", ON_TWO_STEPS
    )
    wanted = reference(workload, case, 2, ON_TWO_STEPS)
    np.testing.assert_allclose(two["losses"], wanted["losses"], rtol=1e-5)
    for name, velocity in below(wanted, "first/velocity.").items():
        difference = two[f"first/velocity.{name}"] - velocity
        assert np.linalg.norm(difference) <= 1e-2 * np.linalg.norm(velocity), name
    for kind in ("mean", "var"):
        assert (
            relative(two[f"first/bn1.running_{kind}"], wanted[f"first/bn1.running_{kind}"]) < 1e-5
        )
        assert (
            relative(two[f"state/bn1.running_{kind}"], wanted[f"state/bn1.running_{kind}"]) < 5e-3
        )
    assert two["digests"][0] == two["digests"][1] != two["digests"][2] == two["digests"][3]
    for other in others:
        assert (
            two["digests"][2] == other["digests"][2]
        )  # parameters, velocities and averaged statistics
