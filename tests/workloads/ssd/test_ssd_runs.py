"""SSD in real processes: synthetic batches, refusals; with the marker `full` the demo to its target."""

import json

import pytest

from tests.helpers import events, only, run_suite, status, suite

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """Two steps of the full model in every framework."""
    tmp_path = tmp_path_factory.mktemp("synthetic")
    chosen = ("workload=ssd", f"framework={','.join(FRAMEWORKS)}", "gpus=1", "profile=synthetic", "device=cpu")
    sizes = ("batch=global:2", "workload.evaluation_batch_size=2", "stop=steps:2")
    done = run_suite(tmp_path, "-m", *chosen, *sizes, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_synthetic_steps_run(synthetic, framework):
    folder = only((synthetic / "logs").glob(f"*/ssd-{framework}-*/run_0"))
    found = {key: value for key, value, _ in events(folder / "result_0.txt")}
    assert status(folder)["status"] == "success"
    assert found["suite_run"]["labels"][:2] == ["synthetic", "cpu"]
    assert only(json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())["samples"] == 4


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_demo_reaches_its_target(tmp_path, framework):
    done = run_suite(tmp_path, "workload=ssd", f"framework={framework}", "profile=demo", "seed=1", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only((tmp_path / "logs").glob("*/*/run_0"))
    maps = [json.loads(line)["quality"]["map"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert maps[-1] >= 0.23 > maps[0]
    assert suite(tmp_path, "check", folder / "result_0.txt").returncode == 0
