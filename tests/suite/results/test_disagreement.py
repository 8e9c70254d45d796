"""Detection and report of disagreeing runs of one experiment in several folders."""

from dataclasses import replace

import pytest

from suite.results.disagreement import find_disagreements
from suite.results.render.document import document
from suite.results.scores import results
from suite.results.table import read_runs
from suite.results.views.report_view import report
from testing.fake_logs import write_run


def write_folders(root, *folders):
    """Write output folders a, b, … with runs on one device of the given seconds per epoch."""
    for number, seconds in enumerate(folders):
        for index, each in enumerate(seconds):
            start = 100_000 * number + 10_000 * index
            write_run(
                root / "ab"[number],
                "ncf-1",
                index,
                start=start,
                seconds_per_epoch=each,
                keys={"seed": start},
            )
    return root


@pytest.mark.parametrize(
    ("folders", "ratio"),
    [
        (((2.0,), (3.0,)), 1.5),
        (((2.0, 2.1), (3.0, 3.1)), 3.05 / 2.05),
        (((2.0,), (2.1,)), None),  # The difference is less than 10 %.
        (((2.0, 4.0), (3.0, 5.0)), None),  # The spread of the first folder explains it.
        (((2.0, 3.0),), None),  # There is only one folder.
    ],
)
def test_folders_disagree_beyond_their_spread(tmp_path, folders, ratio):
    found = find_disagreements(results(write_folders(tmp_path, *folders)))
    assert [disagreement.ratio for disagreement in found] == (
        [] if ratio is None else [pytest.approx(ratio)]
    )
    assert all(disagreement.has_spread == (len(folders[0]) > 1) for disagreement in found)


def test_different_numbers_of_epochs_are_no_disagreement(tmp_path):
    write_run(tmp_path / "a", "ncf-1", qualities=(0.7,))
    write_run(tmp_path / "b", "ncf-1", start=90_000, qualities=(0.1, 0.2, 0.7), keys={"seed": 1})
    assert find_disagreements(results(tmp_path)) == []


def test_a_log_below_the_root_has_an_output_folder(tmp_path):
    write_run(tmp_path, "ncf-1")
    (result,) = results(tmp_path)
    shallow = [
        replace(result.runs[0], path=path, seconds=seconds)
        for path, seconds in (("/x.txt", 6.0), ("/a/b/c", 9.0))
    ]
    # Both logs belong to the output folder "/".
    assert find_disagreements([replace(result, runs=tuple(shallow))]) == []


def test_a_report_names_the_folders_and_the_spread(tmp_path):
    text = " ".join(document(report(read_runs(write_folders(tmp_path, (2.0,), (3.0,))))).split())
    assert f"6.0 s in {tmp_path / 'a'}, 9.0 s in {tmp_path / 'b'}" in text
    assert "differ by 1.50×" in text
    assert "6.0–9.0 s" in text
