"""Image workloads in TensorFlow: fp32 variants agree, and narrow precisions are close to fp32."""

import numpy as np
import pytest

from tests.frameworks_probe import below, probe, relative
from tests.helpers import full_but
from tests.workloads import test_image_trainers as image_trainers

COMPUTED = [("resnet50", "convolutions")]
COMPUTED += [
    pytest.param(workload, "compiled", marks=pytest.mark.full) for workload in ("ssd", "resnet50")
]
"""Variants that compute in fp32: 1×1 convolutions as convolutions, or compiled by XLA."""
LOSSES = {"resnet50": 1e-3, "ssd": 1e-4}
NEAR = {
    ("resnet50", "bf16"): 2e-2,
    ("resnet50", "fp16"): 4e-3,
    ("ssd", "bf16"): 3e-2,
    ("ssd", "fp16"): 4e-3,
}
NEAR_LOSSES = {"resnet50": 1e-2, "ssd": 2e-2}


def trained(workload, variant):
    return probe("tensorflow", "probes.tensorflow_variants.trained", workload, variant)


def differences(workload, variant):
    """Return the differences from the fp32 values of test_image_trainers.py.

    The differences of every output, of the losses, and of the stem's running variance are fractions
    of the largest value.
    """
    found, wanted = (
        trained(workload, variant),
        image_trainers.trained(workload, "tensorflow", "uneven"),
    )
    outputs = [
        relative(value, wanted[f"outputs/{name}"])
        for name, value in below(found, "outputs/").items()
    ]
    assert len(outputs) == {"resnet50": 1, "ssd": 2}[workload]
    variance = relative(found["first/bn1.running_var"], wanted["first/bn1.running_var"])
    return outputs, relative(found["losses"], wanted["losses"][:3]), variance


@pytest.mark.parametrize(("workload", "variant"), COMPUTED)
def test_variants_in_fp32_agree(workload, variant):
    outputs, losses, variance = differences(workload, variant)
    assert max(outputs) < 1e-5
    assert losses < LOSSES[workload]
    assert variance < 1e-3


IN_SHORT = [("resnet50", "bf16"), ("ssd", "fp16")]


@pytest.mark.parametrize(("workload", "variant"), full_but(NEAR, *IN_SHORT))
def test_narrow_precisions_are_used_and_keep_weights_in_fp32(workload, variant):
    found, (outputs, losses, _) = trained(workload, variant), differences(workload, variant)
    assert found["narrow"]
    assert found["dtypes"] == ["float32"]
    assert all(value.dtype == np.float32 for value in below(found, "outputs/").values())
    assert 1e-5 < min(outputs) <= max(outputs) < NEAR[workload, variant]
    assert losses < NEAR_LOSSES[workload]


@pytest.mark.parametrize(("workload", "variant"), [*COMPUTED, *full_but(NEAR, *IN_SHORT)])
def test_a_step_is_traced_once(workload, variant):
    assert trained(workload, variant)["traces"] == 1


@pytest.mark.parametrize("variant", full_but(("compiled", "bf16", "fp16"), "fp16"))
def test_a_step_without_positives_has_zero_loss_and_a_finite_next_loss(variant):
    found = trained("ssd", variant)
    assert found["empty"] == 0
    assert np.isfinite(found["after_empty"])
