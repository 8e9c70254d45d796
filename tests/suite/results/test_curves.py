"""Learning curves: each evaluation with the training before it, and the example in the docs."""

from suite.results import curves
from testing.fake_logs import foreign, line, write, write_run
from tests.helpers import PROJECT

NAMES = [
    "run",
    "step",
    "epoch",
    "seconds",
    "metric",
    "value",
    "training_loss",
    "samples_per_second",
]


def listed(frame):
    values, missing = frame.astype(object).to_numpy(), frame.isna().to_numpy()
    return [
        tuple(None if is_missing else value for value, is_missing in zip(*row, strict=True))
        for row in zip(values.tolist(), missing.tolist(), strict=True)
    ]


def test_each_evaluation_has_its_step_epoch_and_the_training_before_it(tmp_path):
    write_run(tmp_path, "a", qualities=(0.3, 0.65))
    write_run(tmp_path, "b", qualities=(None, 0.1, None), samples=800, stop="epochs:3", start=9000)
    write_run(tmp_path, "dead", log=False, status={"status": "oom"})
    found = curves(tmp_path)
    assert list(found) == NAMES
    assert listed(found) == [
        ("a/run_0", 101, 1.0, 1.999, "hr_at_10", 0.3, 0.25, 400_000.0),
        ("a/run_0", 202, 2.0, 3.999, "hr_at_10", 0.65, 0.25, 400_000.0),
        ("b/run_0", 101, None, 1.999, None, None, 0.25, 800.0),
        ("b/run_0", 202, 2.0, 3.999, "hr_at_10", 0.1, 0.25, 800.0),
        ("b/run_0", 303, None, 5.999, None, None, 0.25, 800.0),
    ]


def test_foreign_logs_have_separate_rows_for_evaluations_and_throughput_and_copies_count_once(
    tmp_path,
):
    log = foreign(tmp_path / "x" / "resnet" / "result_0.txt", seconds=60)
    stats = line(30_000, "tracked_stats", {"throughput": 7.5}, step=10)
    write(log, [*log.read_text().splitlines(), stats])
    write(tmp_path / "y" / "resnet" / "result_0.txt", log.read_bytes())
    evaluation, segment = (
        (None, 2.0, 59.999, "top1", 0.76, None, None),
        (10, None, 30.0, None, None, None, 7.5),
    )
    assert [row[1:] for row in listed(curves([tmp_path]))] == [evaluation, segment]


def test_the_pandas_example_of_the_notebook_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "logs", "a", qualities=(0.3, 0.65))
    page = (PROJECT / "docs" / "how-to/analyze_in_a_notebook.md").read_text()
    exec(page.split("## Curves")[1].split("```python\n")[1].partition("```")[0], {})
    assert "hr_at_10" in capsys.readouterr().out
