"""Copies of logs: a run counts once per entry, and each entry keeps logs that it shares."""

import shutil

import pytest

from suite.results.scores import results
from suite.results.table import table
from testing.fake_logs import START_MS, foreign, write


def entry(root, submitter="Lab", round_name="v4.0", system="box", benchmark="resnet"):
    (root / round_name / submitter / "systems").mkdir(parents=True, exist_ok=True)
    return root / round_name / submitter / "results" / system / benchmark


def write_logs(folder, indices, benchmark="resnet"):
    for index in indices:
        foreign(folder / f"result_{index}.txt", "box", 60 + index, benchmark, seed=index)
    return folder


def by_folder(root):
    return {result.folder: result for result in results(root)}


@pytest.mark.parametrize(
    "second_entry",
    [{"submitter": "Lab-power"}, {"round_name": "v4.1"}, {"system": "another_box"}],
    ids=str,
)
@pytest.mark.parametrize("shared", [2, 5])
def test_each_entry_keeps_logs_that_another_entry_has_too(tmp_path, second_entry, shared):
    first, second = entry(tmp_path), entry(tmp_path, **second_entry)
    write_logs(first, range(5))
    write_logs(second, [*range(shared), *range(20, 25 - shared)])
    found = by_folder(tmp_path)
    assert [found[str(folder)].runs_successful for folder in (first, second)] == [5, 5]
    assert found[str(first)].seconds == 62.0
    logs = "all 5 logs" if shared == 5 else f"{shared} of 5 logs"
    name = "/".join(second.parts[-5:]).replace("results/", "")
    assert f"{logs} are also in {name}" in found[str(first)].score_notes
    assert not table(tmp_path)["copy_of"].any()


def test_a_copied_entry_counts_once(tmp_path):
    write_logs(entry(tmp_path / "a"), range(5))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (found,) = by_folder(tmp_path).values()
    assert (found.runs_successful, found.score_notes) == (5, ())
    assert (table(tmp_path)["copy_of"] != "").sum() == 5


def test_a_copied_log_in_the_same_folder_counts_once(tmp_path):
    folder = write_logs(entry(tmp_path), range(5))
    shutil.copy(folder / "result_2.txt", folder / "result_9.txt")
    (found,) = by_folder(tmp_path).values()
    assert (found.runs_successful, found.seconds) == (5, 62.0)


def test_a_set_that_is_complete_only_with_copies_is_scored_as_submitted(tmp_path):
    """Keep repeated logs if the set of runs is complete only with them.

    The official score of v4.0/smc-ac-power's DLRM counts ten logs, of which five are repetitions.
    """
    folder = write_logs(entry(tmp_path), range(4))
    shutil.copy(folder / "result_3.txt", folder / "result_4.txt")
    (found,) = by_folder(tmp_path).values()
    assert (found.runs_successful, found.seconds) == (5, pytest.approx((61 + 62 + 63) / 3))
    assert (
        "1 of 5 logs repeat logs of the folder; the official score counts them" in found.score_notes
    )
    assert sorted(path[-12:] for path in table(tmp_path)["repeat_of"] if path) == ["result_3.txt"]


def test_a_folder_that_contains_only_copies_does_not_count(tmp_path):
    write_logs(tmp_path / "one", range(3))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    write_logs(tmp_path / "three", [0, 7, 8])
    found = by_folder(tmp_path)
    assert {
        folder.rpartition("/")[2]: result.runs_successful for folder, result in found.items()
    } == {
        "one": 3,
        "three": 3,
    }


@pytest.mark.parametrize("names", [("a", "z"), ("z", "a")])
def test_a_folder_with_truncated_copies_of_logs_does_not_count(tmp_path, names):
    whole, begun = (tmp_path / name for name in names)
    write_logs(whole, range(2))
    for index in range(2):
        lines = (whole / f"result_{index}.txt").read_text().splitlines()[:-1]
        write(
            begun / f"result_{index}.txt",
            [line.replace(str(START_MS), str(START_MS)) for line in lines],
        )
    (found,) = by_folder(tmp_path).values()
    assert (found.folder, found.runs_successful, found.runs_failed) == (str(whole), 2, 0)
