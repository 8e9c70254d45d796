"""Rules of the warm-up: it must end within the run and before the learning rate falls.

Under v0.5 it must also end before the first decay of the reference.
"""

import math

import pytest

from suite.catalog.division import find_deviations, schedule_inputs
from suite.catalog.sets import named_sets
from tests.workloads.closed_logs import changed
from tests.workloads.gnmt.test_gnmt_workload import build_workload as gnmt
from tests.workloads.maskrcnn.test_maskrcnn_workload import build_workload as maskrcnn
from tests.workloads.resnet50.test_resnet_workload import build_workload as resnet
from tests.workloads.ssd.test_ssd_workload import build_workload as ssd
from tests.workloads.transformer.test_transformer_workload import build_workload as transformer

CONSTANT_IMAGES = {ssd: 160_000 * 32, maskrcnn: 480_000 * 2, resnet: 30 * 1_281_167}
"""Number of images that the references of tag v0.5 train on before their first decay."""


def warmup(workload, **changes):
    """Return the deviations from the rules of the warm-up."""
    workload = type(workload)(changed(workload.settings, **changes), workload.dataset_info)
    found = find_deviations(type(workload), workload.settings, **schedule_inputs(workload))
    return [deviation.text for deviation in found if deviation.setting == "warmup_samples"]


@pytest.mark.parametrize("build", [ssd, maskrcnn])
@pytest.mark.parametrize("batch", [32, 64])
def test_v05_bounds_the_warm_up_in_images(build, batch):
    """Check a bound by the rule's text "is a constant r0 for more than wb batches"."""
    workload = build("nvidia_v0.5_dgx1", rules="v0.5", global_batch_size=batch)
    most = math.ceil(CONSTANT_IMAGES[build] / batch) - 1
    assert warmup(workload, warmup_steps=most) == []
    assert warmup(workload, warmup_steps=most + 1)


def test_v05_bounds_resnets_warm_up_in_epochs():
    """Check 30 epochs, which are 37,534 steps.

    They are one step fewer than those before the reference's first decay.
    """
    workload = resnet("nvidia_v0.5_dgx1", rules="v0.5")
    assert [bool(warmup(workload, warmup_epochs=epochs)) for epochs in (0, 29, 30, 31)] == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("rules", ["v0.5", "v0.7"])
@pytest.mark.parametrize(
    ("build", "name", "steps"),
    [
        (ssd, "nvidia_v0.5_dgx1", 10_000_000),
        (ssd, "nvidia_v0.7_dgx1", 10_000_000),
        (maskrcnn, "nvidia_v0.5_dgx1", 479_999),
        (gnmt, "nvidia_v0.5_dgx1", 10_000_000),
        (transformer, "nvidia_v0.5_dgx1", 10_000_000),
    ],
)
def test_a_warm_up_longer_than_the_run_is_open(build, name, steps, rules):
    assert warmup(build(name, rules=rules), warmup_steps=steps, max_epochs=10)


@pytest.mark.parametrize(("build", "first"), [(gnmt, 1), (transformer, 0)])
def test_a_warm_up_may_last_until_the_last_step(build, first):
    """Check the longest warm-up.

    `first` is the position of the schedule at the first update.
    """
    workload = build("reference")
    steps = 3 * workload.steps_per_epoch
    assert warmup(workload, warmup_steps=first + steps - 1, max_epochs=3) == []
    assert warmup(workload, warmup_steps=first + steps, max_epochs=3) == [
        f"samples of warm-up {steps * workload.settings.global_batch_size}, not below those before"
        " the first decay and those of the run"
    ]


@pytest.mark.parametrize(
    ("build", "name"), [(ssd, "nvidia_v0.7_dgx1"), (maskrcnn, "nvidia_v0.7_dgx1")]
)
def test_a_rate_that_falls_before_its_peak_is_open(build, name):
    """Check v0.7, whose base rate is that "after warm up and before decay"."""
    workload = build(name)
    first = workload.decay_steps[0]
    assert warmup(workload, warmup_steps=first - 1) == []
    assert warmup(workload, warmup_steps=first)


@pytest.mark.parametrize("build", [ssd, maskrcnn, resnet, gnmt, transformer])
def test_the_rate_after_the_warm_up_is_that_of_the_set(build):
    """Check that `warmup_steps` and `first_decay_step` agree with `learning_rate`."""
    for name in named_sets(type(build("reference"))):
        workload = build(name)
        if name == "demo" or workload.options.__dict__.get("plateau") == "last_warmup_rate":
            continue
        peak, end = workload.options.learning_rate, workload.warmup_steps
        assert workload.learning_rate(end) == peak
        assert end == 0 or workload.learning_rate(end - 1) < peak
        if workload.first_decay_step is not None:
            assert workload.learning_rate(workload.first_decay_step - 1) == peak
            assert workload.learning_rate(workload.first_decay_step) < peak
