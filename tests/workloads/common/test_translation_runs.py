"""GNMT and the Transformer in real processes: synthetic batches, a small corpus, refusals; with the marker `full` the rest."""

import json
import re

import pytest

from suite.cli import main
from tests.helpers import events, only, run_suite, run_suite_here, status, suite, suite_here
from workloads.common.text.corpus import candidates, plain

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
NARROW = ("workload.hidden=32", "workload.feed_forward=32", "workload.layers=1", "workload.heads=4")
SYNTHETIC = {
    "gnmt": ("batch=global:4", "workload.hidden=16", "workload.layers=2", "workload.max_sequence_length=20"),
    "transformer": (*NARROW, "batch=global:64", "workload.max_sequence_length=16", "workload.bucket_growth=2.0"),
}
KEYS = {
    "gnmt": {"global_batch_size": 4, "model_hp_hidden_size": 16, "opt_learning_rate_alt_decay_func": True},
    "transformer": {"global_batch_size": 64, "model_hp_hidden_size": 32, "model_hp_num_layers": 1},
}
"""Of the logs of these."""


def swept(tmp_path, workload, frameworks, *overrides, **variables):
    """Run folder by framework after a sweep on one CPU device; all ended well."""
    chosen = (f"workload={workload}", f"framework={','.join(frameworks)}", "gpus=1", "device=cpu")
    done = run_suite(tmp_path, "-m", *chosen, *overrides, timeout=900, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    folders = {name: only((tmp_path / "logs").glob(f"*/*-{name}-*/run_0")) for name in frameworks}
    assert {status(folder)["status"] for folder in folders.values()} == {"success"}
    return folders


def metrics(folder):
    """The rows of a run's `metrics.jsonl`."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("workload", "frameworks"),
    [
        ("gnmt", FRAMEWORKS),
        ("transformer", FRAMEWORKS[:1]),  # the others train on a small corpus below
        pytest.param("transformer", FRAMEWORKS[1:], marks=pytest.mark.full),
    ],
)
def test_synthetic_steps_run(tmp_path, workload, frameworks):
    """Two steps of a narrow model with all words."""
    sizes = ("profile=synthetic", *SYNTHETIC[workload], "stop=steps:2")
    for folder in swept(tmp_path, workload, frameworks, *sizes).values():
        found = {key: value for key, value, _ in events(folder / "result_0.txt")}
        assert found["suite_run"]["labels"][:2] == ["synthetic", "cpu"]
        assert KEYS[workload].items() <= found.items()
        row = only(metrics(folder))
        assert row["rates"]["tokens"] > 2 * row["samples_per_second"] > 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folders of two epochs of the Transformer on 400 pairs of one's own, by framework."""
    tmp_path = tmp_path_factory.mktemp("trained")
    text = tmp_path / "text"
    text.mkdir()
    for split, count in (("train", 400), ("dev", 8), ("test", 12)):
        pairs = [pair for pair, _ in zip(candidates(split), range(count), strict=False)]
        for language, side in (("en", "source"), ("de", "target")):
            lines = [f"{plain(getattr(pair, side))}\n" for pair in pairs]
            (text / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    to = tmp_path / "data" / "parallel-text"
    assert main(["data", "prepare", "parallel-text", "--from", str(text), "--merges", "150", "--to", str(to)]) == 0
    batches = ("workload.dataset=parallel-text", "batch=global:512", "workload.evaluation_shapes=1")
    sizes = ("profile=demo", *NARROW, *batches, "workload.target=0.0", "seed=1", "stop=epochs:2")
    return swept(tmp_path, "transformer", FRAMEWORKS, *sizes, SUITE_DATA_DIR=str(tmp_path / "data"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_small_corpus_is_learned_and_scored(tmp_path, trained, framework):
    folder = trained[framework]
    rows = [row["quality"] for row in metrics(folder)]
    assert len(rows) == 2
    assert rows[1]["validation_loss"] < rows[0]["validation_loss"] < 7
    assert all(0 <= row["bleu"] < 0.5 for row in rows)
    logged = list(events(folder / "result_0.txt"))
    assert [value for key, value, _ in logged if key == "eval_accuracy"] == pytest.approx(
        [row["bleu"] for row in rows], abs=1e-6
    )
    found = {key: value for key, value, _ in logged}
    assert found["opt_name"] == "adam"
    assert found["suite_run"]["measured_by"]["bleu"].startswith("nrefs:1|case:lc")
    metadata = only(more for key, _, more in logged if key == "max_sequence_length")
    assert metadata["method"] == "discard"
    checked = suite_here(tmp_path, "check", folder / "result_0.txt")
    assert checked.returncode == 0, checked.stdout
    assert "needed:" not in checked.stdout, "the official checker misses nothing"
    assert "type stop=target" in checked.stdout, "of two epochs no target was asked"


@pytest.mark.parametrize(
    ("workload", "overrides", "words"),
    [
        ("gnmt", ("gpus=1", "device=cpu"), r" and type: \S*suite data prepare wmt16-en-de --from FOLDER"),
        ("gnmt", ("profile=demo", "gpus=3", "oversubscribe=true"), "32 cannot be shared equally by 3 devices"),
        ("gnmt", ("profile=demo", "workload.hidden=100"), "workload.hidden=100: not a multiple of 8"),
        ("gnmt", ("profile=demo", "precision=fp64"), "precision"),
        ("transformer", ("gpus=1", "device=cpu"), r" and type: \S*suite data prepare wmt17-en-de --from FOLDER"),
        ("transformer", ("profile=demo", "workload.hidden=100"), "workload.hidden=100: not a multiple of 8"),
        ("transformer", ("profile=demo", "batch=global:8"), "batch"),
        ("transformer", ("profile=demo", "precision=fp64"), "precision"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, demo_data, workload, overrides, words):
    demo_data("translation-demo")
    done = run_suite_here(tmp_path, f"workload={workload}", *overrides)
    assert done.returncode == 2
    assert re.search(words, done.stderr)
    assert len([line for line in done.stderr.strip().splitlines() if not line.startswith("environment ")]) == 1
    assert not (tmp_path / "logs").exists()


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workload", SYNTHETIC)
def test_the_demo_reaches_its_target(tmp_path, workload, framework):
    """BLEU 50, not after the first epoch, in a log that the official checker accepts."""
    done = run_suite(tmp_path, f"workload={workload}", f"framework={framework}", "profile=demo", "seed=1", timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only((tmp_path / "logs").glob("*/*/run_0"))
    scores = [row["quality"]["bleu"] for row in metrics(folder)]
    assert scores[-1] >= 0.5 > scores[0]
    assert scores[0] < 0.1, "the first epoch must not be enough"
    assert suite(tmp_path, "check", folder / "result_0.txt").returncode == 0
