"""Workloads in real processes of every framework: two steps on synthetic data.

With the marker `full`, the demos are trained to their targets.
"""

import json

import pytest

from suite.common import registry
from tests.helpers import events, only, run_suite, status, suite

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
NARROW = ("workload.hidden=32", "workload.feed_forward=32", "workload.layers=1", "workload.heads=4")
SYNTHETIC = {
    "gnmt": (
        "batch=global:4",
        "workload.hidden=16",
        "workload.layers=2",
        "workload.max_sequence_length=20",
    ),
    "transformer": (
        *NARROW,
        "batch=global:64",
        "workload.max_sequence_length=16",
        "workload.bucket_growth=2.0",
    ),
    "ssd": ("batch=global:2", "workload.evaluation_batch_size=2"),
}
KEYS = {
    "gnmt": {
        "global_batch_size": 4,
        "model_hp_hidden_size": 16,
        "opt_learning_rate_alt_decay_func": True,
    },
    "transformer": {"global_batch_size": 64, "model_hp_hidden_size": 32, "model_hp_num_layers": 1},
    "ssd": {"global_batch_size": 2},
}
"""Keys and values that the logs of the runs in SYNTHETIC contain."""
DEMOS = {
    **{"resnet50": ("top1", 0.8, 0.8), "zoo": ("top1", 0.75, 0.75), "ssd": ("map", 0.23, 0.23)},
    **{"gnmt": ("bleu", 0.5, 0.1), "transformer": ("bleu", 0.5, 0.1)},
    "llama31_8b": ("log_perplexity", 2.45, 2.7),
}
"""Metric, target, and limit that the first evaluation does not reach. For NCF see
ncf/test_ncf_runs.py.
"""


def swept(tmp_path, workload, frameworks, *overrides, **env):
    """Run a sweep on one CPU device. All runs must succeed. Return the run folder per framework."""
    chosen = (f"workload={workload}", f"framework={','.join(frameworks)}", "gpus=1", "device=cpu")
    done = run_suite(tmp_path, "-m", *chosen, *overrides, timeout=900, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    folders = {name: only((tmp_path / "logs").glob(f"*/*-{name}-*/run_0")) for name in frameworks}
    assert {status(folder)["status"] for folder in folders.values()} == {"success"}
    return folders


def metrics(folder):
    """Return the rows of a run's `metrics.jsonl`."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("workload", "frameworks"),
    [
        ("gnmt", FRAMEWORKS[:1]),
        # test_ssd_backbone.py runs PyTorch's SSD, starting from backbone weights.
        *(pytest.param(name, FRAMEWORKS[1:], marks=pytest.mark.full) for name in ("ssd", "gnmt")),
        # test_translation_runs.py trains the Transformer.
        pytest.param("transformer", FRAMEWORKS, marks=pytest.mark.full),
    ],
)
def test_synthetic_steps_run(tmp_path, workload, frameworks):
    """Run the full SSD, and narrow translation models with the full vocabulary."""
    sizes = ("profile=synthetic", *SYNTHETIC[workload], "stop=steps:2")
    for folder in swept(tmp_path, workload, frameworks, *sizes).values():
        found = {key: value for key, value, _ in events(folder / "result_0.txt")}
        assert found["suite_run"]["labels"][:2] == ["synthetic", "cpu"]
        assert KEYS[workload].items() <= found.items()
        row = only(metrics(folder))
        if workload == "ssd":
            assert row["samples"] == 4
        else:
            assert row["rates"]["tokens"] > 2 * row["samples_per_second"] > 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("workload", "framework"),
    [(name, framework) for name in DEMOS for framework in registry.frameworks_of(name)],
)
def test_a_demo_reaches_its_target_but_not_in_its_first_epoch(tmp_path, workload, framework):
    """Train a demo to its target and check its log with the official checker.

    The checker has no rules for the zoo, whose log is not checked.
    """
    metric, target, first = DEMOS[workload]
    overrides = (
        f"workload={workload}",
        "profile=demo",
        f"framework={framework}",
        "gpus=1",
        "seed=1",
    )
    done = run_suite(tmp_path, *overrides, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only((tmp_path / "logs").glob("*/*/run_0"))
    scores = [row["quality"][metric] for row in metrics(folder)]
    if metric in registry.load_workload(workload).falling_metrics:
        scores, target, first = [-score for score in scores], -target, -first
    assert scores[-1] >= target
    assert scores[0] < first
    assert workload == "zoo" or suite(tmp_path, "check", folder / "result_0.txt").returncode == 0
