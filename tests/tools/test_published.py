"""`python -m tools.published` on small results repositories with generated logs."""

import csv
import json
import subprocess
import sys

import pytest

from suite.results.published_results import SHIPPED
from suite.results.scoring_rules import find_scoring_rule
from testing.fake_logs import START_MS, line, write
from tests.helpers import PROJECT
from tools.published.__main__ import main
from tools.published.rows import LoggedRun, score

LOSSES = (4.2, 3.6, 3.29)
EVAL_SAMPLES = 12_288


def llama_log(seconds, start=0, losses=LOSSES, status="success", early=0, batch=16):
    """Return a log of Llama 3.1 8B with an evaluation of two seconds after each 12,288 samples."""
    at = 1000 * start
    lines = [
        line(at, "submission_benchmark", "llama31_8b"),
        line(at, "submission_org", "Somebody"),
        line(at, "global_batch_size", batch),
        line(at, "run_start"),
    ]
    for index, loss in enumerate(losses, 1):
        samples, end = index * EVAL_SAMPLES, at + 1000 * seconds * index // len(losses)
        lines += [
            line(end - 2000, "eval_start", samples_count=samples),
            line(end - 1, "eval_accuracy", loss, samples_count=samples - early),
            line(end, "eval_stop", samples_count=samples),
        ]
    if status:
        lines.append(line(at + 1000 * seconds, "run_stop", status=status))
    return lines


def diffusion_log(seconds, start):
    """Return a log of Stable Diffusion, whose checkpoints are evaluated after the run."""
    at = 1000 * start
    lines = [
        line(at, "submission_benchmark", "stable_diffusion"),
        line(at, "global_batch_size", 512),
        line(at, "run_start"),
        line(at + 1000 * seconds, "run_stop", status="success"),
    ]
    for samples, distance, similarity in ((512_000, 120, 0.12), (1_024_000, 80, 0.16)):
        lines += [
            line(at + 2_000_000, "eval_accuracy", distance, samples_count=samples, metric="FID"),
            line(at + 2_000_000, "eval_accuracy", similarity, samples_count=samples, metric="CLIP"),
        ]
    return lines


def system(path, devices=8, nodes=1):
    description = {
        "submitter": "Somebody",
        "division": "closed",
        "status": "Available cloud",
        "framework": "PyTorch 2.9",
        "accelerator_model_name": "NVIDIA B200",
        "number_of_nodes": nodes,
        "accelerators_per_node": devices,
    }
    return write(path, [json.dumps(description)])


@pytest.fixture
def repository(tmp_path):
    """Write a results repository: three entries with a score, a copy, and an entry without one."""
    root = tmp_path / "work"
    for name in ("one_node", "copy", "broken"):
        system(root / f"Somebody/systems/{name}.json")
    system(root / "Other/systems/two_nodes.json", nodes=2)
    first = root / "Somebody/results/one_node/llama31_8b"
    for number in range(10):
        seconds, start = 300 + 3 * number, 1000 * number
        log = llama_log(seconds, start, early=16)
        if number == 4:
            log = llama_log(seconds, start, losses=(4.2, 3.6, 3.4), status="aborted")
        write(first / f"result_{number}.txt", log)
        write(root / f"Somebody/results/copy/llama31_8b/result_{number}.txt", log)
        diffusion = root / f"Other/results/two_nodes/stable_diffusion/result_{number}.txt"
        write(diffusion, diffusion_log(500 + number, 100_000 + 1000 * number))
        lost = llama_log(300, 50_000 + 1000 * number, status="success" if number > 1 else None)
        write(root / f"Somebody/results/broken/llama31_8b/result_{number}.txt", lost)
    write(first / "scaling.json", [json.dumps({"scaling_factor": 1.01})])
    return root


@pytest.fixture
def figures(tmp_path):
    """Return a folder with the header lines of the shipped files, and one earlier entry."""
    folder = tmp_path / "figures"
    folder.mkdir()
    for name in ("results.csv", "runs.csv"):
        lines = (SHIPPED / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:2]), encoding="utf-8")
    return folder


def rows(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def add(repository, folder, *options):
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "tools.published", str(repository), "--round", "v5.1"]
    return subprocess.run(
        [*command, "--into", str(folder), *options], cwd=PROJECT, capture_output=True, text=True
    )


def test_a_work_tree_adds_its_entries_and_leaves_earlier_rows_unchanged(repository, figures):
    before = {name: (figures / name).read_bytes() for name in ("results.csv", "runs.csv")}
    done = add(repository, figures)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"3 entries and 30 runs added to {figures}\n"
    assert done.stderr.splitlines() == [
        "left out: Somebody/results/broken/llama31_8b: 2 of 10 runs did not succeed, so there is no"
        " score"
    ]
    for name, content in before.items():
        assert (figures / name).read_bytes().startswith(content)
    diffusion, copy, first = rows(figures / "results.csv")[1:]
    # Runs 300 … 327 s; the aborted run of 312 s is the slowest, the run of 300 s the fastest.
    retained = [303, 306, 309, 315, 318, 321, 324, 327]
    assert float(first["seconds"]) == sum(retained) / 8
    assert float(first["minutes"]) == pytest.approx(sum(retained) / 8 / 60, abs=1e-6)
    assert [first[name] for name in ("runs", "runs_successful", "runs_used")] == ["10", "9", "8"]
    assert [first[name] for name in ("system", "chips", "nodes", "batch")] == [
        "one_node",
        "8",
        "1",
        "16",
    ]
    assert first["accelerator"] == "NVIDIA B200"
    assert first["availability"] == "Available cloud"
    assert (first["target"], first["quality_metric"]) == ("3.3", "log perplexity (lower is better)")
    assert first["epochs"] == first["epochs_minimum"] == str(3 * EVAL_SAMPLES)
    assert first["scaling_factor"] == "1.01"
    assert first["source"] == (
        "mlcommons/training_results_v5.1:Somebody/results/one_node/llama31_8b"
    )
    # Three evaluations take six seconds of each run.
    rates = sorted(3 * EVAL_SAMPLES * 8192 / (seconds - 6) for seconds in [300, *retained])
    assert float(first["throughput"]) == pytest.approx(rates[4], rel=1e-5)
    assert first["throughput_unit"] == "tokens/s"
    assert copy["first_entry"] == ""
    assert first["first_entry"] == "v5.1 Somebody/copy"
    assert "all 10 logs stand already under v5.1 Somebody/copy" in first["note"]
    assert "run 4 aborted" in first["note"]
    assert "eval_accuracy labels its samples one batch early" in first["note"]
    assert (diffusion["chips"], diffusion["nodes"]) == ("16", "2")
    assert (diffusion["target"], diffusion["target_mask"]) == ("90", "0.15")
    assert diffusion["epochs"] == "1024000"
    runs = rows(figures / "runs.csv")[1:]
    aborted = [row for row in runs if row["status"] == "aborted"]
    assert [(row["run"], row["epochs"], row["quality"]) for row in aborted] == [
        ("4", "", "3.4")
    ] * 2
    assert float(runs[-1]["run_start_unix_seconds"]) == START_MS / 1000 + 9000


def test_a_git_directory_gives_the_same_rows_and_a_second_call_adds_nothing(
    repository, figures, tmp_path
):
    bare = tmp_path / "bare"
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "x")):
        subprocess.run(["git", "-C", repository, *command], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", repository, bare], check=True)
    copies = tmp_path / "of_the_tree"
    copies.mkdir()
    for name in ("results.csv", "runs.csv"):
        (copies / name).write_bytes((figures / name).read_bytes())
    assert main([str(repository), "--round", "v5.1", "--into", str(copies)]) == 0
    assert add(bare, figures).returncode == 0
    for name in ("results.csv", "runs.csv"):
        assert (figures / name).read_bytes() == (copies / name).read_bytes()
    again = add(bare, figures)
    assert again.stdout == f"0 entries and 0 runs added to {figures}\n"
    assert (figures / "runs.csv").read_bytes() == (copies / "runs.csv").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"round_name": "next"}, "--round next: expected a round such as v5.1"),
        ({"repository": "missing"}, "no such folder. Give a results repository"),
        ({"repository": "."}, "no result_*.txt in SUBMITTER/results/SYSTEM/BENCHMARK"),
        ({"into": "missing"}, "Set --into to the folder with results.csv"),
    ],
)
def test_a_wrong_argument_is_one_line(change, message, figures, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    repository = tmp_path / "empty" / change.get("repository", ".")
    folder = figures / change.get("into", "")
    round_name = change.get("round_name", "v5.1")
    assert main([str(repository), "--round", round_name, "--into", str(folder)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_an_entry_with_too_few_runs_has_no_score():
    run = LoggedRun("result_0.txt", "success", 10.0, 1.0, {}, 16, None, None)
    with pytest.raises(ValueError, match="9 runs, but the rules require 10"):
        score([run] * 9, find_scoring_rule("llama31_8b"))
