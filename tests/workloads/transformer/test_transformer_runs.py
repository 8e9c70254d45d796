"""Transformer in real processes: synthetic batches, a small corpus, refusals; with the marker `full` the demo to its target."""

import pytest

from suite.cli import main
from tests.helpers import events, only, suite
from tests.workloads.translation_runs import (
    FRAMEWORKS,
    assert_demo_reaches_its_target,
    assert_refused,
    metrics,
    succeeded,
    swept,
)
from workloads.common.text.corpus import candidates, plain

SMALL = ("workload.hidden=32", "workload.feed_forward=32", "workload.layers=1", "workload.heads=4")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """Two steps of a narrow model with all words in every framework."""
    sizes = ("batch=global:64", "workload.max_sequence_length=16", "workload.bucket_growth=2.0")
    folder = tmp_path_factory.mktemp("synthetic")
    return swept(folder, "transformer", "profile=synthetic", *SMALL, *sizes, "stop=steps:2")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two epochs on 400 pairs of one's own in every framework."""
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
    sizes = (
        "workload.dataset=parallel-text",
        "batch=global:512",
        "workload.evaluation_shapes=1",
        "workload.target=0.0",
    )
    variables = {"SUITE_DATA_DIR": str(tmp_path / "data")}
    return swept(tmp_path, "transformer", "profile=demo", *SMALL, *sizes, "seed=1", "stop=epochs:2", **variables)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_synthetic_steps_run(synthetic, framework):
    folder = succeeded(synthetic, framework)
    found = {key: value for key, value, _ in events(folder / "result_0.txt")}
    assert found["suite_run"]["labels"][:2] == ["synthetic", "cpu"]
    assert found["global_batch_size"] == 64
    assert (found["model_hp_hidden_size"], found["model_hp_num_layers"]) == (32, 1)
    row = only(metrics(folder))
    assert row["rates"]["tokens"] > 2 * row["samples_per_second"] > 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_small_corpus_is_learned_and_scored(trained, framework):
    folder = succeeded(trained, framework)
    rows = [row["quality"] for row in metrics(folder)]
    assert len(rows) == 2
    assert rows[1]["validation_loss"] < rows[0]["validation_loss"] < 7
    assert all(0 <= row["bleu"] < 0.5 for row in rows)
    logged = list(events(folder / "result_0.txt"))
    assert [round(value, 6) for key, value, _ in logged if key == "eval_accuracy"] == [
        round(row["bleu"], 6) for row in rows
    ]
    found = {key: value for key, value, _ in logged}
    assert found["opt_name"] == "adam"
    assert found["suite_run"]["measured_by"]["bleu"].startswith("nrefs:1|case:lc")
    metadata = only(more for key, _, more in logged if key == "max_sequence_length")
    assert metadata["method"] == "discard"
    checked = suite(trained, "check", folder / "result_0.txt")
    assert checked.returncode == 0, checked.stdout
    assert "needed:" not in checked.stdout, "the official checker misses nothing"
    assert "type stop=target" in checked.stdout, "of two epochs no target was asked"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("gpus=1", "device=cpu"), r" and type: \S*suite data prepare wmt17-en-de --from FOLDER"),
        (("profile=demo", "workload.hidden=100"), "workload.hidden=100: not a multiple of 8"),
        (("profile=demo", "batch=global:8"), "batch"),
        (("profile=demo", "precision=fp64"), "precision"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, demo_data, overrides, words):
    demo_data("translation-demo")
    assert_refused(tmp_path, "transformer", overrides, words)


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_demo_reaches_its_target(tmp_path, framework):
    assert_demo_reaches_its_target(tmp_path, "transformer", framework)
