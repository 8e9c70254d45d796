"""GNMT in real processes: synthetic batches, refusals; with the marker `full` the demo to its target."""

import json

import pytest

from tests.helpers import events, only, run_suite, status, suite

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """Two steps of a narrow model with all words in every framework."""
    tmp_path = tmp_path_factory.mktemp("synthetic")
    chosen = ("workload=gnmt", f"framework={','.join(FRAMEWORKS)}", "gpus=1", "profile=synthetic", "device=cpu")
    sizes = ("batch=global:4", "workload.hidden=16", "workload.layers=2", "workload.max_sequence_length=20")
    done = run_suite(tmp_path, "-m", *chosen, *sizes, "stop=steps:2", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_synthetic_steps_run(synthetic, framework):
    folder = only((synthetic / "logs").glob(f"*/gnmt-{framework}-*/run_0"))
    found = {key: value for key, value, _ in events(folder / "result_0.txt")}
    assert status(folder)["status"] == "success"
    assert found["suite_run"]["labels"][:2] == ["synthetic", "cpu"]
    assert found["model_hp_hidden_size"] == 16
    assert found["opt_learning_rate_alt_decay_func"] is True
    row = only(json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    assert row["samples"] == 8
    assert row["rates"]["tokens"] > 2 * row["samples_per_second"]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("gpus=1", "device=cpu"), "type: suite data prepare wmt16-en-de --from FOLDER"),
        (("profile=demo", "gpus=3", "oversubscribe=true"), "32 cannot be shared equally by 3 devices"),
        (("profile=demo", "workload.hidden=100"), "workload.hidden=100: not a multiple of 8"),
        (("profile=demo", "precision=fp64"), "precision"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, demo_data, overrides, words):
    demo_data("translation-demo")
    done = run_suite(tmp_path, "workload=gnmt", *overrides, timeout=60)
    assert done.returncode == 2
    assert words in done.stderr
    assert len([line for line in done.stderr.strip().splitlines() if not line.startswith("environment ")]) == 1
    assert not (tmp_path / "logs").exists()


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_demo_reaches_its_target(tmp_path, framework):
    done = run_suite(tmp_path, "workload=gnmt", f"framework={framework}", "profile=demo", "seed=1", timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only((tmp_path / "logs").glob("*/*/run_0"))
    scores = [json.loads(line)["quality"]["bleu"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert scores[-1] >= 0.5 > scores[0]
    assert scores[0] < 0.1, "the first epoch must not be enough"
    assert suite(tmp_path, "check", folder / "result_0.txt").returncode == 0
