"""Settings that planning resolves: devices, cores, batch, learning rate, sources, deviations."""

import os

import pytest

from suite.catalog.division import find_deviations
from suite.catalog.sets import named_sets
from suite.common import registry
from suite.machine import devices
from suite.plan.settings import resolve_settings
from tests.helpers import composed
from workloads.ncf.data import evaluation_users_per_batch
from workloads.ncf.workload import NCF


def settings_of(*overrides):
    config = composed("workload=ncf", "device=cpu", *overrides)
    return resolve_settings(config, NCF, registry.load_framework(config.framework.name))


def test_reference_defaults():
    settings = settings_of()
    assert settings.profile == "reference"
    assert (settings.global_batch_size, settings.hyperparameters["learning_rate"]) == (2048, 5e-4)
    assert settings.targets == {"hr_at_10": 0.635}
    assert (settings.rules, settings.dataset, settings.threads_per_device) == (
        "v0.5",
        "ml-20m",
        "auto",
    )


def test_named_sets_match_the_published_ones():
    settings = settings_of("workload.hyperparameter_set=nvidia_v0.5")
    assert settings.global_batch_size == 1_048_576
    published = {
        "learning_rate": 0.0045,
        "beta1": 0.25,
        "beta2": 0.5,
        "epsilon": 1e-8,
        "max_epochs": 20,
    }
    assert settings.hyperparameters == published
    assert all(
        source.startswith("published: ") for source in settings.hyperparameter_sources.values()
    )
    for values in named_sets(NCF).values():
        assert {value.source.partition(":")[0] for value in values.values()} <= {
            "published",
            "derived",
            "presumed",
        }


@pytest.mark.parametrize(("words", "users"), [((), 64), (("=7",), 7), (("=9999",), 2_000)])
def test_the_users_per_evaluation_batch_can_be_set(words, users):
    settings = settings_of(
        "profile=demo", *(f"workload.evaluation_users_per_batch{word}" for word in words)
    )
    assert evaluation_users_per_batch(settings, 2_000, replicas=1) == users


@pytest.mark.parametrize(
    ("batch", "scaling", "gpus", "size", "rate"),
    [
        ("default", "default", 2, 8192, 0.006), ("global:4096", "linear", 1, 4096, 0.003),
        ("global:4096", "default", 1, 4096, 0.003), ("global:32768", "sqrt", 1, 32768, 0.012),
        ("per_device:8192", "none", 2, 16384, 0.006), ("per_device:4096", "linear", 2, 8192, 0.006),
    ],
)  # fmt: skip
def test_batch_and_learning_rate(batch, scaling, gpus, size, rate):
    words = (f"batch={batch}", f"lr_scaling={scaling}", f"gpus={gpus}", "oversubscribe=true")
    settings = settings_of("profile=demo", *words)
    assert settings.global_batch_size == size
    assert settings.hyperparameters["learning_rate"] == pytest.approx(rate)
    assert settings.hyperparameter_sources["learning_rate"].startswith("derived") == (rate != 0.006)


def test_a_user_defined_value_takes_precedence_and_is_labeled():
    settings = settings_of("profile=demo", "workload.learning_rate=0.5", "batch=global:4096")
    assert settings.hyperparameters["learning_rate"] == 0.5
    assert settings.hyperparameter_sources["learning_rate"] == "user"


def test_deviations_from_the_closed_division_are_listed():
    assert find_deviations(NCF, settings_of()) == []
    found = find_deviations(NCF, settings_of("workload.dataset=ml-1m", "workload.target=0.5"))
    assert [deviation.text for deviation in found] == [
        "data set ml-1m, not ml-20m",
        "targets hr_at_10 0.5, not hr_at_10 0.635 or above",
    ]


def test_all_cores_may_be_one_device():
    assert settings_of("profile=demo", "cpu.cores_per_device=all").cores_per_device == len(
        os.sched_getaffinity(0)
    )


def test_this_machine(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices.gpus() == []
    found = devices.hardware()
    assert found["cpu_cores"] == len(os.sched_getaffinity(0))
    assert found["memory_bytes"] > 1 << 30
