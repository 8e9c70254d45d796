"""The three frameworks compute one ResNet: logits, losses and state from the same weights and batches.

The reference is torchvision's own model in float64 with the optimizers in NumPy (tests/probes/resnet_torchvision.py).
"""

import functools

import numpy as np
import pytest

from tests.frameworks_probe import command, relative, run

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("resnet")


@functools.cache
def probe(framework, case, folder):
    """What a trainer computes."""
    out = folder / f"{framework}-{case}.npz"
    run(command(framework, "resnet_probe.py", framework, case, str(out)))
    with np.load(out) as arrays:
        return dict(arrays)


@functools.cache
def reference(case, folder):
    """What torchvision computes in float64."""
    out = folder / f"torchvision-{case}.npz"
    run(command("pytorch", "resnet_torchvision.py", case, str(out)))
    with np.load(out) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_fifty_layers_have_torchvisions_logits(framework, folder):
    found, wanted = probe(framework, "full", folder), reference("full", folder)
    assert found["logits"].shape == (2, 1000)
    assert relative(found["logits"], wanted["logits"]) <= 1e-5
    assert found["training_loss"] == pytest.approx(wanted["training_loss"], rel=1e-3)


@pytest.mark.parametrize("case", ["sgd", "lars"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ten_steps_follow_float64(framework, case, folder):
    found, wanted = probe(framework, case, folder), reference(case, folder)
    assert relative(found["logits"], wanted["logits"]) <= 1e-5
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-3)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_state_has_every_parameter_velocity_and_statistic(framework, folder):
    found, wanted = probe(framework, "sgd", folder), reference("sgd", folder)
    names = {name for name in found if name.startswith("state/")}
    assert names == {name for name in wanted if name.startswith("state/")}
    for name in names:
        assert found[name].shape == wanted[name].shape
    # The stem's statistics hardly depend on what training made of the weights.
    for kind in ("mean", "var"):
        assert relative(found[f"state/bn1.running_{kind}"], wanted[f"state/bn1.running_{kind}"]) < 5e-3


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_warm_up_leaves_no_trace_and_state_comes_back(framework, folder):
    digests = probe(framework, "uneven", folder)["digests"]
    assert digests[0] == digests[1]
    assert digests[2] == digests[3]


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_odd_sizes_agree_with_pytorch(framework, folder):
    """57 pixels, 7 classes, label smoothing 0: maps of odd sizes show every padding mistake."""
    found, wanted = probe(framework, "uneven", folder), probe("pytorch", "uneven", folder)
    assert relative(found["logits"], wanted["logits"]) <= 1e-5
    np.testing.assert_allclose(found["losses"][:3], wanted["losses"][:3], rtol=1e-4)


def test_mxnet_computes_the_same_without_its_graph(folder):
    """`compile=off` calls the same operators one by one."""
    out = folder / "mxnet-off.npz"
    run(command("mxnet", "resnet_probe.py", "mxnet", "uneven", str(out), "1", "off"))
    hybridized = probe("mxnet", "uneven", folder)
    with np.load(out) as arrays:
        np.testing.assert_allclose(arrays["logits"], hybridized["logits"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(arrays["losses"][:3], hybridized["losses"][:3], rtol=1e-4)


def test_tensorflow_traces_the_step_once(folder):
    assert 1 <= probe("tensorflow", "uneven", folder)["traces"] <= 1


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_two_devices_train(framework, folder):
    """Batch norm sees half of the images on each device, so losses are near those of one device, not equal."""
    outs = [folder / f"{framework}-two-{rank}.npz" for rank in range(2)]
    one_process = framework == "mxnet"
    run(
        *(
            command(framework, "resnet_probe.py", framework, "uneven", str(out), "2")
            for out in outs[: 1 if one_process else 2]
        )
    )
    with np.load(outs[0]) as arrays:
        two = dict(arrays)
    one = probe(framework, "uneven", folder)
    assert np.isfinite(two["losses"]).all()
    assert two["losses"][0] == pytest.approx(one["losses"][0], rel=0.5)
    assert two["digests"][0] == two["digests"][1]
    assert two["digests"][2] == two["digests"][3]
    both = [probe(framework, "uneven", folder)["state/bn1.running_mean"], two["state/bn1.running_mean"]]
    assert relative(both[1], both[0]) < 0.05  # the halves' mean is the mean of the whole
