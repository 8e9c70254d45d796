"""Every sample occurs once in an epoch, except for a bounded share that fills the last batch.

The tests cover every workload whose batches are always full.
"""

import dataclasses
from fractions import Fraction

import pytest

from suite.catalog.division import find_deviations, schedule_inputs
from suite.catalog.sets import named_sets
from tests.workloads.gnmt.test_gnmt_workload import build_workload as gnmt
from tests.workloads.resnet50.test_resnet_workload import build_workload as resnet
from tests.workloads.ssd.test_ssd_workload import build_workload as ssd
from tests.workloads.transformer.test_transformer_workload import build_workload as transformer
from workloads.api import EpochSamples, share_of_samples
from workloads.common.text.dataset_info import synthetic_lengths
from workloads.ncf.dataset_info import published_facts
from workloads.ncf.workload import NCF

MOST = Fraction(1, 100)
IMAGES = {ssd: 117_266, resnet: 1_281_167}
"""Published numbers of images in COCO 2017 and ImageNet."""
ENTRIES = [
    (build, name)
    for build in IMAGES
    for name in named_sets(type(build("reference")))
    if name.startswith("nvidia")
]


def deviations(workload):
    found = find_deviations(type(workload), workload.settings, **schedule_inputs(workload))
    return [deviation.text for deviation in found if deviation.setting != "warmup_samples"]


@pytest.mark.parametrize("build", IMAGES)
@pytest.mark.parametrize(
    "batch", [1, 8, 960, 1_536, 1_664, 3_264, 8_192, 14_592, 16_384, 58_633, 64_000, 100_000]
)
def test_a_hundredth_of_an_epoch_may_be_repeated(build, batch):
    """Check that -n mod b of n images fill the last batch of b images."""
    workload = build("reference", global_batch_size=batch, devices=1)
    repeated = -IMAGES[build] % batch
    share = Fraction(repeated, IMAGES[build])
    assert workload.epoch_samples.repeated == repeated
    rounded = share_of_samples(repeated, IMAGES[build])
    assert 0 <= rounded - share < 1e-6
    allowed = share <= MOST
    message = f"repeated share of an epoch {rounded:.12g}, not 0.01 or less"
    assert deviations(workload) == ([] if allowed else [message])


@pytest.mark.parametrize(("build", "name"), ENTRIES)
def test_published_closed_entries_stay_closed(build, name):
    assert deviations(build(name)) == []


@pytest.mark.parametrize("repeated", [12_811, 12_812])
def test_the_bound_of_repeated_images(repeated, monkeypatch):
    """Check the bound. A hundredth of ImageNet is 12,811.67 images."""
    workload = resnet("reference")
    monkeypatch.setattr(type(workload), "epoch_samples", EpochSamples(1_281_167, repeated=repeated))
    assert bool(deviations(workload)) == (repeated > 12_811.67)


def test_a_sample_left_out_is_open(monkeypatch):
    workload = ssd("reference")
    monkeypatch.setattr(type(workload), "epoch_samples", EpochSamples(117_266, left_out=1))
    assert deviations(workload) == ["left-out share of an epoch 9e-06, not 0"]


@pytest.mark.parametrize(("build", "every"), [(gnmt, False), (transformer, True)])
@pytest.mark.parametrize("scale", [1, 30, 1_000])
def test_pairs_that_fill_no_batch_of_their_bucket(build, every, scale):
    """Count the pairs that are left out or repeated by hand, from the lengths.

    `scale` is the factor of the reference's batch size.
    """
    workload = build("reference")
    workload = build("reference", global_batch_size=scale * workload.settings.global_batch_size)
    lengths = (
        synthetic_lengths(workload.dataset_info.sizes["pairs"]).max(0).astype(int)
        + workload.framing.extra
    )
    left = first = rest = 0
    for bucket in workload.batching.buckets:
        rest = (rest if every else 0) + int(((lengths > first) & (lengths <= bucket.edge)).sum())
        rest, first = rest % bucket.batch_samples, bucket.edge
        left += 0 if every else rest
    assert workload.epoch_samples.left_out == left
    assert workload.epoch_samples.repeated == (-rest % bucket.batch_samples if every else 0)
    reported = any("share of an epoch" in text for text in deviations(workload))
    assert reported == (
        max(left, workload.epoch_samples.repeated) > workload.dataset_info.train_samples / 100
    )


@pytest.mark.parametrize("build", [gnmt, transformer])
def test_published_sets_of_translation_have_nearly_every_pair(build):
    names = [name for name in named_sets(type(build("reference"))) if name.startswith("nvidia")]
    assert names
    for name in names:
        assert not any("share of an epoch" in text for text in deviations(build(name)))


def test_a_smaller_last_batch_repeats_nothing():
    settings = dataclasses.replace(
        ssd("reference").settings, workload="ncf", rules="v0.5", model={}, options={}
    )
    workload = NCF(
        dataclasses.replace(settings, profile="demo", global_batch_size=10**7), published_facts()
    )
    assert (workload.epoch_samples.repeated, workload.epoch_samples.left_out) == (0, 0)
    assert deviations(workload) == []
