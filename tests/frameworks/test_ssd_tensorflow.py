"""SSD in TensorFlow: compiled as plain, narrow precisions near fp32, steps without positives, ties among negatives."""

import numpy as np
import pytest

from suite.common import registry
from suite.environments.environment import resolve
from tests.frameworks_probe import relative, run
from tests.helpers import PROJECT
from tests.workloads.ssd import ssd_loss_numpy, synthetic_ssd

PROBE = str(PROJECT / "tests" / "frameworks" / "ssd_tensorflow_probe.py")
VARIANTS = ("fp32", "compiled", "bf16", "fp16")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("ssd") / "found.npz"
    environment = resolve({"name": "auto"}, registry.load_framework("tensorflow").environments["cpu"])
    run(environment.command(PROBE, str(out)))
    with np.load(out) as arrays:
        return dict(arrays)


def difference(found, variant, name):
    """From fp32, as a share of the largest value."""
    return relative(found[f"{variant}/{name}"], found[f"fp32/{name}"])


def test_compiled_computes_the_same(found):
    assert difference(found, "compiled", "logits") < 1e-5
    assert difference(found, "compiled", "offsets") < 1e-5
    assert difference(found, "compiled", "losses") < 1e-4


@pytest.mark.parametrize(("variant", "near"), [("bf16", 3e-2), ("fp16", 4e-3)])
def test_narrow_precisions_compute_narrow_and_keep_weights_in_fp32(found, variant, near):
    assert found[f"{variant}/narrow"]
    for name in ("logits", "offsets"):
        assert found[f"{variant}/{name}"].dtype == np.float32
        assert 1e-5 < difference(found, variant, name) < near
    assert difference(found, variant, "losses") < 2e-2
    assert found[f"{variant}/fp32"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_is_traced_once(found, variant):
    assert found[f"{variant}/traces"] == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_without_positives_has_no_loss_and_breaks_nothing(found, variant):
    assert found[f"{variant}/empty"] == 0
    assert np.isfinite(found[f"{variant}/behind_empty"])


@pytest.mark.parametrize("static", [False, True])
def test_of_equal_negatives_the_lower_priors_count(found, static):
    made = synthetic_ssd.outputs()
    arrays = (np.zeros_like(made["logits"]), made["offsets"], made["labels"], made["wanted"])
    _, by_logits, _ = ssd_loss_numpy.loss_and_gradients(*arrays)
    np.testing.assert_array_equal(found[f"equals/{static}"] != 0, by_logits != 0)
    assert relative(found[f"equals/{static}"], by_logits) <= 1e-6
