"""Trainers compute one SSD: outputs, loss, gradients and state from the same weights and batches.

The reference is torchvision's trunk with plain heads in float64, with the loss and the optimizer in NumPy
(tests/probes/ssd_torchvision.py).
"""

import functools

import numpy as np
import pytest

from tests.frameworks_probe import command, relative, run
from tests.workloads.ssd import ssd_loss_numpy, synthetic_ssd

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
CASES = ("full", "steps")
TRUNK = ("conv1", "bn1", "layer")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ssd")


def read(path):
    with np.load(path) as arrays:
        return dict(arrays)


@functools.cache
def probe(framework, case, folder):
    """What a trainer computes."""
    out = folder / f"{framework}-{case}.npz"
    run(command(framework, "ssd_probe.py", framework, case, str(out)))
    return read(out)


@functools.cache
def reference(case, folder):
    """What torchvision's trunk computes in float64."""
    out = folder / f"torchvision-{case}.npz"
    run(command("pytorch", "ssd_torchvision.py", case, str(out)))
    return read(out)


def below(found, start):
    """The entries below `start`, without it."""
    return {name.removeprefix(start): value for name, value in found.items() if name.startswith(start)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_heads_have_the_outputs_of_float64(framework, case, folder):
    found, wanted = probe(framework, case, folder), reference(case, folder)
    if case == "full":
        assert found["offsets"].shape == (2, 4, 8732)
        assert found["logits"].shape == (2, 81, 8732)
    for name in ("offsets", "logits"):
        assert found[name].dtype == np.float32
        assert relative(found[name], wanted[name]) <= 1e-5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_loss_of_made_up_outputs_is_numpys(framework, folder):
    """With an image without positives, and with one that has too few negatives."""
    made, found = synthetic_ssd.outputs(), probe(framework, "steps", folder)
    positives = (made["labels"] > 0).sum(1)
    priors = made["labels"].shape[1]
    assert positives.min() == 0
    assert positives.max() * (1 + ssd_loss_numpy.NEGATIVES_PER_POSITIVE) > priors
    arrays = (made[name] for name in ("logits", "offsets", "labels", "wanted"))
    loss, by_logits, by_offsets = ssd_loss_numpy.loss_and_gradients(*arrays)
    assert found["loss"] == pytest.approx(loss, rel=1e-6)
    assert relative(found["by_logits"], by_logits) <= 1e-6
    assert relative(found["by_offsets"], by_offsets) <= 1e-6
    assert not found["by_logits"][positives == 0].any()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_loss_of_a_batch_is_that_of_float64(framework, case, folder):
    found, wanted = probe(framework, case, folder), reference(case, folder)
    assert found["losses"][0] == pytest.approx(wanted["losses"][0], rel=1e-5)
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_gradients_in_float64(case, folder):
    """Every parameter's, in PyTorch."""
    found, wanted = below(probe("pytorch", case, folder), "gradient/"), below(reference(case, folder), "gradient/")
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert relative(found[name], gradient) <= 1e-5, name


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_first_step_has_the_gradients_of_float64(framework, folder):
    """The velocity is gradient and decay. In fp32 some ReLUs of the trunk fall on the other side of 0, hence its limit."""
    found, wanted = probe(framework, "steps", folder), below(reference("steps", folder), "first/velocity.")
    for name, velocity in wanted.items():
        difference = found[f"first/velocity.{name}"] - velocity
        limit = 1e-2 if name.startswith(TRUNK) else 1e-4
        assert np.linalg.norm(difference) <= limit * np.linalg.norm(velocity), name


@pytest.mark.parametrize("framework", FRAMEWORKS[1:])
def test_odd_sizes_and_narrow_layers_agree_with_pytorch(framework, folder):
    """Maps of 13, 7, 4, 2 cells show every padding mistake; 24 channels are not whole blocks of oneDNN's."""
    found, wanted = probe(framework, "uneven", folder), probe("pytorch", "uneven", folder)
    for name in ("offsets", "logits"):
        assert relative(found[name], wanted[name]) <= 1e-5
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    for name, velocity in below(wanted, "first/velocity.").items():
        difference = found[f"first/velocity.{name}"] - velocity
        assert np.linalg.norm(difference) <= 1e-2 * np.linalg.norm(velocity), name


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ten_steps_follow_float64(framework, folder):
    found, wanted = probe(framework, "steps", folder), reference("steps", folder)
    assert len(found["losses"]) == synthetic_ssd.STEPS
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-3)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_state_has_every_parameter_velocity_and_statistic(framework, folder):
    found, wanted = (below(one, "state/") for one in (probe(framework, "steps", folder), reference("steps", folder)))
    assert found.keys() == wanted.keys()
    assert {name: value.shape for name, value in found.items()} == {n: value.shape for n, value in wanted.items()}
    # The stem's statistics hardly depend on what training made of the weights.
    for kind in ("mean", "var"):
        assert relative(found[f"bn1.running_{kind}"], wanted[f"bn1.running_{kind}"]) < 5e-3


@pytest.mark.parametrize("case", [*CASES, "uneven"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_warm_up_leaves_no_trace_and_state_comes_back(framework, case, folder):
    digests = probe(framework, case, folder)["digests"]
    assert digests[0] == digests[1]
    assert digests[2] == digests[3]


def test_mxnet_computes_the_same_without_its_graph(folder):
    """`compile=off` calls the same operators one by one."""
    out = folder / "mxnet-off.npz"
    run(command("mxnet", "ssd_probe.py", "mxnet", "uneven", str(out), "1", "off"))
    found, wanted = read(out), probe("mxnet", "uneven", folder)
    assert relative(found["logits"], wanted["logits"]) <= 1e-5
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_outputs_become_detections(framework, folder):
    """`measure` of the float64 outputs finds what it finds in the trainer's."""
    found, wanted = probe(framework, "full", folder), reference("full", folder)
    made = synthetic_ssd.workload("full", framework)
    outputs = {name: wanted[name].astype(np.float32) for name in ("logits", "offsets")}
    detections = made.measure(synthetic_ssd.batch(made, 0), outputs)
    assert len(detections["score"]) > 0
    np.testing.assert_array_equal(found["detections/seen"], detections["seen"])
    np.testing.assert_allclose(found["detections/score"], detections["score"], atol=1e-5)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_two_devices_train(framework, folder):
    """Batch norm sees half of the images on each device, so losses are near those of one device, not equal."""
    outs = [folder / f"{framework}-two-{rank}.npz" for rank in range(1 if framework == "mxnet" else 2)]
    run(*(command(framework, "ssd_probe.py", framework, "uneven", str(out), "2") for out in outs))
    two, *others = (read(out) for out in outs)
    one = probe(framework, "uneven", folder)
    assert np.isfinite(two["losses"]).all()
    assert two["losses"][0] == pytest.approx(one["losses"][0], rel=0.2)
    assert two["digests"][0] == two["digests"][1]
    assert two["digests"][2] == two["digests"][3]
    for other in others:
        assert two["digests"][2] == other["digests"][2]  # parameters, velocities and averaged statistics
    # The halves' mean is the mean of the whole.
    assert relative(two["first/bn1.running_mean"], one["first/bn1.running_mean"]) < 1e-5
