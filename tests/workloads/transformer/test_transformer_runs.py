"""Transformer in real processes: synthetic batches; with the marker `full` the demo to its target."""

import json

import pytest

from tests.helpers import events, only, run_suite, status, suite

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """Two steps of a narrow model with all words in every framework."""
    tmp_path = tmp_path_factory.mktemp("synthetic")
    chosen = ("workload=transformer", f"framework={','.join(FRAMEWORKS)}", "gpus=1", "profile=synthetic", "device=cpu")
    sizes = ("workload.hidden=16", "workload.heads=4", "workload.feed_forward=32", "workload.layers=1")
    batches = ("batch=global:64", "workload.bucket_first=16", "workload.max_sequence_length=16")
    done = run_suite(tmp_path, "-m", *chosen, *sizes, *batches, "stop=steps:2", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_synthetic_steps_run(synthetic, framework):
    folder = only((synthetic / "logs").glob(f"*/transformer-{framework}-*/run_0"))
    found = {key: value for key, value, _ in events(folder / "result_0.txt")}
    assert status(folder)["status"] == "success"
    assert found["suite_run"]["labels"][:2] == ["synthetic", "cpu"]
    assert found["model_hp_hidden_size"] == 16
    row = only(json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    assert row["samples"] == 2 * 64 // 16
    assert row["rates"]["tokens"] > 2 * row["samples_per_second"]


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_demo_reaches_its_target(tmp_path, framework):
    done = run_suite(tmp_path, "workload=transformer", f"framework={framework}", "profile=demo", "seed=1", timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only((tmp_path / "logs").glob("*/*/run_0"))
    scores = [json.loads(line)["quality"]["bleu"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert scores[-1] >= 0.5 > scores[0]
    assert scores[0] < 0.1, "the first epoch must not be enough"
    assert suite(tmp_path, "check", folder / "result_0.txt").returncode == 0
