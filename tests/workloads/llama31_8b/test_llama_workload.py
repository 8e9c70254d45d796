"""Llama as a workload: schedule, evaluations, quality, memory, and refusals."""

import math

import numpy as np
import pytest

from suite.catalog.sets import named_sets
from suite.plan import capacity
from suite.plan.capacity import check_memory
from testing import synthetic, synthetic_llama
from tests.helpers import run_suite_here
from workloads.api import DatasetInfo
from workloads.llama31_8b.settings import METRIC, REFERENCE_MODEL
from workloads.llama31_8b.workload import Llama

C4 = DatasetInfo(2_562_767, 1_024, {}, "C4")
GB = 10**9


def settings_of(name="reference", **changes):
    """Return the settings of a reference run on 8 GPUs in bf16 with a hyperparameter set."""
    values = {"devices": 8, "precision": "bf16", "model": REFERENCE_MODEL, "rules": "v5.1"}
    return synthetic.of_set(Llama, name, **{**values, **changes})


def test_evaluations_follow_12288_samples():
    workload = Llama(settings_of(), C4)
    steps = workload.evaluation_steps()
    assert [next(steps) for _ in range(3)] == [768, 1_536, 2_304]
    small = synthetic_llama.workload()
    assert next(small.evaluation_steps()) == 512 // synthetic_llama.BATCH


def test_the_rate_increases_linearly_and_then_follows_a_cosine():
    """Check step s: peak · (s + 1) / (W + 1) up to W, and a cosine down to a tenth afterwards."""
    workload = synthetic_llama.workload()
    peak, warmup, last = 0.003, 4, 12
    for step in range(warmup + 1):
        assert workload.learning_rate(step) == pytest.approx(peak * (step + 1) / (warmup + 1))
    middle = (warmup + last) // 2
    assert workload.learning_rate(middle) == pytest.approx(0.55 * peak)
    for step in (last, last + 100):
        assert workload.learning_rate(step) == pytest.approx(0.1 * peak)
    reference = Llama(settings_of(), C4)
    assert reference.learning_rate(10_000) == pytest.approx(4e-4, rel=2e-4)


def test_matrices_decay_and_vectors_do_not():
    workload = synthetic_llama.workload()
    for name, shape in workload.network.shapes().items():
        assert workload.parameter_rule(name).decay == (0.1 if len(shape) == 2 else 0.0), name


def test_quality_is_the_mean_over_all_sequences_in_their_order():
    workload = synthetic_llama.workload()
    losses = np.linspace(1, 2, 9)
    order = np.array([3, 1, 0, 2, 8, 7, 6, 5, 4])
    found = workload.compute_metrics({"number": order, "loss": losses[order]})
    assert found == {METRIC: np.mean(losses)}
    for numbers in (order[:-1], np.append(order, 3)):
        with pytest.raises(ValueError, match="sequences"):
            workload.compute_metrics({"number": numbers, "loss": losses[: len(numbers)]})


def test_a_lower_quality_is_the_better_quality():
    assert Llama.falling_metrics == {METRIC}


@pytest.mark.parametrize("name", sorted(set(named_sets(Llama)) - {"demo"}))
def test_sets_have_the_fixed_values_of_the_rules(name):
    values = named_sets(Llama)[name].plain
    fixed = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-5, "weight_decay": 0.1, "clip_norm": 1.0}
    fixed |= {"max_steps": 1_200_000, "end_rate_factor": 0.1}
    assert {key: values[key] for key in fixed} == fixed


def test_memory_of_a_device():
    """Check 16 bytes per parameter, and 139,264 bytes per token and layer in bf16."""
    settings = settings_of()
    assert Llama.state_bytes(settings) == 16 * 8_030_261_248 // 8
    per_sequence = 139_264 * 32 * 8_192
    accumulation = settings.hyperparameters["accumulation_steps"]
    assert Llama.activation_bytes(settings) == per_sequence // accumulation
    recomputed = settings_of(options={"recompute": True})
    assert Llama.activation_bytes(recomputed) == 8_192 * 32 * 8_192 // accumulation
    replicated = settings_of(options={"sharding": "replicate"})
    assert Llama.state_bytes(replicated) == 16 * 8_030_261_248


@pytest.mark.parametrize(
    ("changes", "gigabytes", "message"),
    [
        ({}, 80, None),
        ({"options": {"sharding": "replicate"}}, 80, r"need at least 120 GiB, but only 74\.5 GiB"),
        ({"devices": 1, "global_batch_size": 2, "options": {"recompute": True}}, 141, None),
        ({"devices": 1, "global_batch_size": 2}, 80, "Set gpus to more than 1"),
        ({"global_batch_size": 64}, 80, "Set batch=global:"),
        ({"global_batch_size": 64, "options": {"recompute": True}}, 80, None),
    ],
)
def test_runs_that_do_not_fit_the_memory_of_a_gpu_are_refused(
    changes, gigabytes, message, monkeypatch
):
    monkeypatch.setattr(capacity.devices, "gpus", tuple)
    monkeypatch.setattr(capacity, "memory_of_each_gpu", lambda hardware: gigabytes * GB)
    if message is None:
        check_memory(Llama, settings_of(**changes))
        return
    with pytest.raises(capacity.TooLarge, match=message) as error:
        check_memory(Llama, settings_of(**changes))
    assert "\n" not in str(error.value)


def test_devices_must_share_a_batch_evenly():
    with pytest.raises(ValueError, match=r"Set batch=global:16"):
        Llama(settings_of(global_batch_size=20), C4)


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_other_frameworks_are_refused_in_a_line(framework, tmp_path):
    done = run_suite_here(
        tmp_path, "workload=llama31_8b", "profile=demo", f"framework={framework}", "device=cpu",
        "gpus=1", "dry_run=true",
    )  # fmt: skip
    assert done.returncode != 0
    assert "jax" in done.stderr
    assert "pytorch" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_log_has_the_keys_of_the_rules():
    keys = Llama(settings_of(), C4).log_keys()
    assert keys["max_sequence_length"] == 8_192
    assert keys["opt_end_learning_rate"] == pytest.approx(4e-5)
    assert keys["opt_learning_rate_decay_steps"] == 1_200_000 - 16
    assert math.isclose(keys["opt_adamw_weight_decay"], 0.1)
