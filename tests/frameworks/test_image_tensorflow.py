"""Image workloads in TensorFlow: compiled as plain, 1×1 convolutions as products or not, narrow
precisions near fp32.
"""

import numpy as np
import pytest

from tests.frameworks_probe import below, probe, relative
from tests.helpers import full_but
from tests.workloads import test_image_trainers as image_trainers

COMPUTED = [("resnet50", "convolutions")]
COMPUTED += [
    pytest.param(workload, "compiled", marks=pytest.mark.full) for workload in ("ssd", "resnet50")
]
"""In fp32, in another way."""
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
    """From fp32 as test_image_trainers.py has it, as a fraction of the largest value: of every
    output; of the losses; of the stem's running variance.
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
def test_fp32_is_the_same_however_it_is_computed(workload, variant):
    outputs, losses, variance = differences(workload, variant)
    assert max(outputs) < 1e-5
    assert losses < LOSSES[workload]
    assert variance < 1e-3


IN_SHORT = [("resnet50", "bf16"), ("ssd", "fp16")]


@pytest.mark.parametrize(("workload", "variant"), full_but(NEAR, *IN_SHORT))
def test_narrow_precisions_compute_narrow_and_keep_weights_in_fp32(workload, variant):
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
def test_a_step_without_positives_has_no_loss_and_breaks_nothing(variant):
    found = trained("ssd", variant)
    assert found["empty"] == 0
    assert np.isfinite(found["after_empty"])
