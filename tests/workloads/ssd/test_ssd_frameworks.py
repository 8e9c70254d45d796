"""SSD's loss and the gradients of the first step, in every framework.

tests/workloads/test_image_trainers.py tests everything that SSD shares with ResNet-50.
"""

import numpy as np
import pytest

from testing import synthetic_ssd
from tests.frameworks_probe import below, probe, relative
from tests.workloads.ssd import ssd_loss_numpy
from tests.workloads.test_image_trainers import FRAMEWORKS, reference, trained

TRUNK = ("conv1", "bn1", "layer")


@pytest.mark.parametrize(("equal", "negatives"), [(False, 3), (True, 3), (False, 1)])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_loss_of_synthetic_outputs_is_numpys(framework, equal, negatives):
    """Check images without positives and with too few negatives.

    Among equal logits, the lower priors count.
    """
    found = probe(framework, f"probes.ssd_loss.of_{framework}", equal, negatives)
    outputs = synthetic_ssd.outputs(equal)
    positives = (outputs["labels"] > 0).sum(1)
    priors = outputs["labels"].shape[1]
    assert positives.min() == 0
    assert positives.max() * (1 + ssd_loss_numpy.NEGATIVES_PER_POSITIVE) > priors
    arrays = (outputs[name] for name in ("logits", "offsets", "labels", "wanted"))
    loss, by_logits, by_offsets = ssd_loss_numpy.loss_and_gradients(*arrays, negatives)
    assert found["loss"] == pytest.approx(loss, rel=1e-6)
    assert relative(found["by_logits"], by_logits) <= 1e-6
    assert relative(found["by_offsets"], by_offsets) <= 1e-6
    assert not found["by_logits"][positives == 0].any()


@pytest.mark.parametrize("negatives", [1, 3])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_loss_of_a_trainer_counts_the_negatives_of_its_workload(framework, negatives):
    """Compare with NumPy on PyTorch's outputs in training mode.

    tests/workloads/test_image_trainers.py compares the outputs of all frameworks.
    """
    model = probe("pytorch", "probes.ssd_loss.of_trainer", "pytorch", negatives)
    found = probe(framework, "probes.ssd_loss.of_trainer", framework, negatives)
    arrays = (model[name] for name in ("logits", "offsets", "labels", "wanted"))
    loss, *_ = ssd_loss_numpy.loss_and_gradients(*arrays, negatives)
    assert found["loss"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_first_step_has_the_gradients_of_float64(framework):
    """Compare the velocity, which is the sum of gradient and decay.

    In fp32, the inputs of some ReLUs in the trunk have the wrong sign, so its limit is larger.
    """
    found, wanted = (
        trained("ssd", framework, "steps"),
        below(reference("ssd", "steps"), "first/velocity."),
    )
    for name, velocity in wanted.items():
        difference = found[f"first/velocity.{name}"] - velocity
        limit = 1e-2 if name.startswith(TRUNK) else 1e-4
        assert np.linalg.norm(difference) <= limit * np.linalg.norm(velocity), name
