"""Implausible commands and incomplete workloads are refused in one line before a run starts."""

import itertools

import pytest

from suite.common import registry
from suite.plan.jobs import plan
from tests.helpers import TOY, TOY_RUN, composed


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Return the toy's class, from which tests remove attributes. Its data set exists."""
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.setenv("SUITE_DATA_DIR", str(tmp_path))
    import toy

    registry.refresh()
    registry.load_dataset("toy-demo").make_demo(tmp_path / "toy-demo")
    yield toy.Toy
    registry.refresh()


def without(*names):
    return lambda toy, patch: [patch.delattr(toy, name) for name in names]


def without_max_epochs(toy, patch):
    sets = {
        "demo": {
            key: value
            for key, value in toy.hyperparameter_sets()["demo"].items()
            if key != "max_epochs"
        }
    }
    patch.setattr(toy, "hyperparameter_sets", classmethod(lambda cls: sets))


def in_tokens(toy, patch):
    patch.setattr(toy, "batch_unit", "tokens")


def late(toy, patch):
    """Evaluate every 40 steps. Step 40 is in the toy's third epoch."""
    patch.setattr(toy, "evaluation_steps", lambda self: itertools.count(40, 40))


CASES = [
    # change of the toy, overrides, message
    (None, ("batch=global:1001", "lr_scaling=linear"),
     f"so it would be a single step at learning rate {0.2 * 1001 / 64:g}"),
    (None, ("batch=global:1001",), "batch size 1001: an epoch of toy on toy-demo has 1000 samples"),
    (None, ("batch=global:1001",), "Set batch=global:100 or less (10 steps per epoch)"),
    (None, ("batch=global:1000",), ""),
    (None, ("batch=global:1001", "stop=steps:2"), ""),
    (without("compute_metrics"), (),
     "Toy has a target for fit, but no compute_metrics. Define compute_metrics()"),
    (without("compute_metrics", "eval_batch_metrics"), (),
     " and no compute_metrics. Define eval_batch_metrics() and compute_metrics()"),
    (without_max_epochs, (), "its hyperparameter set demo has no max_epochs"),
    (in_tokens, ("stop=samples:640",),
     "the batch size of toy is in tokens, so the number of steps"),
    (in_tokens, ("stop=samples:640",), "for a number of samples is unknown"),
    (in_tokens, ("stop=samples:640",), "Set stop=steps:50 or stop=epochs:1"),
    (in_tokens, ("stop=epochs:1",), ""),
    (late, ("workload.max_epochs=2",),
     "workload.max_epochs=2: the first evaluation of toy is in epoch 3"),
    (late, ("workload.max_epochs=2",), "in epoch 3. Set workload.max_epochs=3 or more"),
    (late, ("workload.max_epochs=2",), "or stop=epochs:2 to train without a target"),
    (late, ("workload.max_epochs=3",), ""),
    (late, ("workload.max_epochs=2", "stop=epochs:2"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "words", "message"), CASES)
def test_an_implausible_command_names_overrides_that_are_accepted(
    toy, monkeypatch, tmp_path, changed, words, message
):
    if changed is not None:
        changed(toy, monkeypatch)
    found = plan(composed(*TOY_RUN, "device=cpu", *words), "job", tmp_path)
    assert [message in str(finding) for finding in found.findings] == ([True] if message else [])
    assert (found.job is None) == bool(message)
