"""What cannot have been meant is one line before anything starts: a batch above an epoch, a plugin's forgotten half."""

from types import SimpleNamespace

import pytest

from suite.plan.plausible import _check_batch
from tests.helpers import TOY, TOY_RUN, run_suite_here


def refused(tmp_path, *words):
    done = run_suite_here(tmp_path, *words, toy=True)
    assert done.returncode == 2, done.stdout
    assert not (tmp_path / "logs").exists()
    (line,) = done.stderr.strip().splitlines()
    return line


def test_a_batch_above_an_epoch(tmp_path):
    line = refused(tmp_path, *TOY_RUN, "batch=global:1001", "lr_scaling=linear")
    assert "batch size 1001: an epoch of toy on toy-demo has 1000 samples, so it would be one step" in line
    assert f"at learning rate {0.2 * 1001 / 64:g}" in line
    assert "type batch=global:100 or less" in line
    assert run_suite_here(tmp_path, *TOY_RUN, "batch=global:1001", "stop=steps:2", toy=True).returncode == 0


def test_a_batch_of_a_whole_epoch_is_allowed():
    _check_batch(SimpleNamespace(settings=SimpleNamespace(batch_size_global=1000), samples_per_epoch=1000))


@pytest.fixture
def toy(monkeypatch):
    """The toy's class, to take something away from."""
    monkeypatch.syspath_prepend(str(TOY))
    import toy

    return toy.Toy


def test_a_plugin_without_score_or_measure(tmp_path, toy, monkeypatch):
    monkeypatch.delattr(toy, "score")
    assert "Toy has a target for fit and no score; write score()" in refused(tmp_path, *TOY_RUN)
    monkeypatch.delattr(toy, "measure")
    assert "no measure and no score; write measure() and score()" in refused(tmp_path, *TOY_RUN)


def test_a_plugin_without_max_epochs(tmp_path, toy, monkeypatch):
    sets = {"demo": {k: v for k, v in toy.hyperparameter_sets()["demo"].items() if k != "max_epochs"}}
    monkeypatch.setattr(toy, "hyperparameter_sets", classmethod(lambda cls: sets))
    assert "its hyperparameter set demo names no max_epochs" in refused(tmp_path, *TOY_RUN)


def test_a_length_in_another_unit_than_the_batch(tmp_path, toy, monkeypatch):
    monkeypatch.setattr(toy, "batch_unit", "tokens")
    line = refused(tmp_path, *TOY_RUN, "stop=samples:640")
    assert (
        "stop=samples:640: a batch of toy is counted in tokens, so the steps of so many samples are not known" in line
    )
    assert line.endswith("type stop=steps:50 or stop=epochs:1")
    assert run_suite_here(tmp_path, *TOY_RUN, "stop=epochs:1", toy=True).returncode == 0
