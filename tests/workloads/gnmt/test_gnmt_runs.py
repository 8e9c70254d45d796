"""GNMT in real processes: synthetic batches, refusals; with the marker `full` the demo to its target."""

import pytest

from tests.helpers import events, only
from tests.workloads.translation_runs import (
    FRAMEWORKS,
    assert_demo_reaches_its_target,
    assert_refused,
    metrics,
    succeeded,
    swept,
)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """Two steps of a narrow model with all words in every framework."""
    sizes = ("batch=global:4", "workload.hidden=16", "workload.layers=2", "workload.max_sequence_length=20")
    return swept(tmp_path_factory.mktemp("synthetic"), "gnmt", "profile=synthetic", *sizes, "stop=steps:2")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_synthetic_steps_run(synthetic, framework):
    folder = succeeded(synthetic, framework)
    found = {key: value for key, value, _ in events(folder / "result_0.txt")}
    assert found["suite_run"]["labels"][:2] == ["synthetic", "cpu"]
    assert found["model_hp_hidden_size"] == 16
    assert found["opt_learning_rate_alt_decay_func"] is True
    row = only(metrics(folder))
    assert row["samples"] == 8
    assert row["rates"]["tokens"] > 2 * row["samples_per_second"]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("gpus=1", "device=cpu"), r" and type: \S*suite data prepare wmt16-en-de --from FOLDER"),
        (("profile=demo", "gpus=3", "oversubscribe=true"), "32 cannot be shared equally by 3 devices"),
        (("profile=demo", "workload.hidden=100"), "workload.hidden=100: not a multiple of 8"),
        (("profile=demo", "precision=fp64"), "precision"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, demo_data, overrides, words):
    demo_data("translation-demo")
    assert_refused(tmp_path, "gnmt", overrides, words)


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_demo_reaches_its_target(tmp_path, framework):
    assert_demo_reaches_its_target(tmp_path, "gnmt", framework)
