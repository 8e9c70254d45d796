"""GNMT and the Transformer in real processes: a small corpus, and rejected settings."""

import re

import pytest

from suite.cli import main
from tests.helpers import events, full_but, only, run_suite_here, suite_here
from tests.workloads.common.test_workload_runs import FRAMEWORKS, NARROW, metrics, swept
from workloads.common.text.corpus import candidates, plain


@pytest.mark.parametrize("framework", full_but(FRAMEWORKS, "pytorch"))
def test_a_small_corpus_is_learned_and_scored(tmp_path, framework):
    """Train the Transformer for two epochs on 400 user-provided sentence pairs."""
    text = tmp_path / "text"
    text.mkdir()
    for split, count in (("train", 400), ("dev", 8), ("test", 12)):
        pairs = [pair for pair, _ in zip(candidates(split), range(count), strict=False)]
        for language, side in (("en", "source"), ("de", "target")):
            lines = [f"{plain(getattr(pair, side))}\n" for pair in pairs]
            (text / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    to = tmp_path / "data" / "parallel-text"
    prepare = ["data", "prepare", "parallel-text", "--from", str(text), "--to", str(to)]
    assert main([*prepare, "--merges", "150"]) == 0
    batches = ("workload.dataset=parallel-text", "batch=global:512", "workload.evaluation_shapes=1")
    sizes = ("profile=demo", *NARROW, *batches, "workload.target=0.0", "seed=1", "stop=epochs:2")
    folder = swept(
        tmp_path, "transformer", [framework], *sizes, SUITE_DATA_DIR=str(tmp_path / "data")
    )[framework]
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
    assert found["suite_run"]["metric_signatures"]["bleu"].startswith("nrefs:1|case:lc")
    metadata = only(more for key, _, more in logged if key == "max_sequence_length")
    assert metadata["method"] == "discard"
    checked = suite_here(tmp_path, "check", folder / "result_0.txt")
    assert checked.returncode == 0, checked.stdout
    assert "needed:" not in checked.stdout, "the official checker finds every key"
    assert "set stop=target" in checked.stdout, "a run of two epochs has no target"


@pytest.mark.parametrize(
    ("workload", "overrides", "message"),
    [
        (
            "gnmt",
            ("gpus=1", "device=cpu"),
            r" and run: \S*suite data prepare wmt16-en-de --from FOLDER",
        ),
        (
            "gnmt",
            ("profile=demo", "gpus=3", "oversubscribe=true"),
            "32 cannot be divided equally among 3 devices",
        ),
        (
            "gnmt",
            ("profile=demo", "workload.hidden=100"),
            "workload.hidden=100: not a multiple of 8",
        ),
        ("gnmt", ("profile=demo", "precision=fp64"), "precision"),
        (
            "transformer",
            ("gpus=1", "device=cpu"),
            r" and run: \S*suite data prepare wmt17-en-de --from FOLDER",
        ),
        (
            "transformer",
            ("profile=demo", "workload.hidden=100"),
            "workload.hidden=100: not a multiple of 8",
        ),
        ("transformer", ("profile=demo", "batch=global:8"), "batch"),
        ("transformer", ("profile=demo", "precision=fp64"), "precision"),
    ],
)
def test_missing_data_and_invalid_settings_are_rejected_in_one_line(
    tmp_path, demo_data, workload, overrides, message
):
    demo_data("translation-demo")
    done = run_suite_here(tmp_path, f"workload={workload}", *overrides)
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len([line for line in lines if not line.startswith("environment ")]) == 1
    assert not (tmp_path / "logs").exists()
