"""All views of a folder show the same runs with the same figures.

The folders are generated, and the expected figures are computed with plain sums.
"""

import json
import shutil
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from suite.results import curves
from suite.results import published_results as files
from suite.results.scores import results as scored
from suite.results.scores import results_of
from suite.results.table import read_runs
from suite.results.views.advise_view import advise
from suite.results.views.baseline import baseline_section
from suite.results.views.compare_sides import logs_side, published_side
from suite.results.views.compare_view import compare
from suite.results.views.published_view import published_list
from suite.results.views.report_view import report
from suite.results.views.tables_view import tables
from testing.fake_logs import foreign, write, write_run
from tests.helpers import examples
from tests.suite.results.rows import lines

TARGETS, RATES, BATCHES, DEVICES = (0.5, 0.635), (0.003, 0.006), (512, 4096), (1, 2)
MS = 125
"""Unit of all times in milliseconds, so that timestamps are whole milliseconds."""


def run_of(**fixed):
    names = {
        "devices": DEVICES,
        "target": TARGETS,
        "rate": RATES,
        "batch": BATCHES,
        "commit": ("aaaaaaa", "bbbbbbb"),
    }
    drawn = {name: st.sampled_from(values) for name, values in names.items()}
    drawn |= {"epochs": st.integers(1, 3), "epoch_ms": st.integers(4, 40).map(lambda n: n * MS)}
    return st.fixed_dictionaries(
        {**drawn, "succeeds": st.sampled_from([True, True, True, False]), **fixed}
    )


OURS = st.lists(
    st.tuples(run_of(), st.sampled_from(["", "", "copy", "early copy"])), min_size=1, max_size=9
)
THEIR_RUN = {
    "seconds": st.integers(60, 90),
    "succeeds": st.booleans(),
    "rate": st.sampled_from(RATES),
}
THEIRS = st.lists(st.fixed_dictionaries(THEIR_RUN), min_size=3, max_size=6)


def write_ours(folder, drawn):
    for index, (run, copied) in enumerate(drawn):
        job = write_run(
            folder,
            f"j{index}",
            devices=run["devices"],
            global_batch_size=run["batch"],
            batch_rule=f"global:{run['batch']}",
            targets={"hr_at_10": run["target"]},
            git_commit=run["commit"],
            start=1_000_000 * index,
            qualities=[0.1] * (run["epochs"] - 1) + [0.65 if run["succeeds"] else 0.2],
            seconds_per_epoch=run["epoch_ms"] / 1e3,
            keys={
                "opt_base_learning_rate": run["rate"],
                "seed": index,
                "global_batch_size": run["batch"],
            },
        )
        if copied == "copy":
            shutil.copytree(job.parent, folder / f"a{index}")
        elif copied:
            lines = (job / "result_0.txt").read_text().splitlines()
            for name, fewer in (("a", 1), ("z", 3)):
                write(folder / f"{name}{index}" / "run_0" / "result_0.txt", lines[:-fewer])


def write_theirs(folder, drawn):
    """Write a folder of a submission in which every run logs a different throughput."""
    for index, run in enumerate(drawn):
        log = folder / "box" / "resnet" / f"result_{index}.txt"
        foreign(
            log,
            "box",
            run["seconds"],
            throughput=100.0 + index,
            opt_base_learning_rate=run["rate"],
            seed=index,
        )
        if not run["succeeds"]:
            write(log, log.read_text().splitlines()[:-2])  # The log is cut off.
    write(
        folder / "box" / "system.json",
        [json.dumps({"number_of_nodes": 1, "accelerators_per_node": 8})],
    )


def mean(seconds, slowest_failed=False):
    """Return the mean without the fastest and the slowest run, or None without runs.

    They are dropped if there are at least three runs. With `slowest_failed`, a failed run counts as
    the slowest, so only the fastest run is dropped, if there are at least two.
    """
    kept = sorted(seconds)
    if slowest_failed:
        kept = kept[1:] if len(kept) >= 2 else kept
    elif len(kept) >= 3:
        kept = kept[1:-1]
    return sum(kept) / len(kept) if kept else None


def expected_of(drawn):
    """Return (successes, failures, seconds) by (devices, target, rate, batch)."""
    members = defaultdict(list)
    for run, _ in drawn:
        members[place_of(run)].append(run)
    times = defaultdict(list)
    for run in (run for run, _ in drawn if run["succeeds"]):
        times[place_of(run)].append(run["epochs"] * run["epoch_ms"] / 1e3)
    return {
        place: (len(lengths := times[place]), len(runs) - len(lengths), mean(lengths))
        for place, runs in members.items()
    }


def figures(results, seconds="seconds"):
    """Count each (devices, successes, failures, ms) among the results with a time."""
    listed = [(row, getattr(row, seconds)) for row in results if getattr(row, seconds)]
    return Counter(
        (row.devices, row.runs_successful, row.runs_failed or 0, round(1000 * time))
        for row, time in listed
    )


@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OURS)
def test_all_views_of_a_folder_agree(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("logs")
    write_ours(folder, drawn)
    runs, expected = read_runs(folder), expected_of(drawn)
    results = results_of(runs)
    found = {
        (
            row.devices,
            row.targets["hr_at_10"],
            row.learning_rate or rate_of(row),
            row.global_batch_size,
        ): (row.runs_successful, row.runs_failed, row.seconds and pytest.approx(row.seconds))
        for row in results
    }
    assert {place: found[place] for place in expected} == expected
    assert len(results) == len(expected)
    assert curves(folder)["run"].nunique() == len(drawn)
    commits = defaultdict(set)
    for run in (run for run, _ in drawn if run["succeeds"]):
        commits[place_of(run)].add(run["commit"])
    assert sum(row.git_commit == "mixed" for row in results) == sum(
        len(names) > 1 for names in commits.values()
    )
    whole = figures(results)
    assert figures(lines(report(runs).data)) == whole
    base = (
        baseline_section(results, ("gpus", str(results[0].devices))) if results[0].seconds else None
    )
    assert base is None or Counter(
        round(1000 * seconds) for seconds in base.table.to_frame()["seconds"]
    ) == times(whole)
    if not whole:
        return
    assert figures(lines(tables(results).data.to_frame().query("table == 6"))) == whole
    assert (
        figures(lines(advise([row for row in results if row.seconds]).data), "train_seconds")
        == whole
    )
    side = logs_side([folder], "A", "demo")
    compared = compare(side, logs_side([folder], "B", "demo"), ()).data.to_frame()
    same = [
        row for row in lines(compared) if row.quantity == "time to target" and row.kind == "ratio"
    ]
    times_of = [
        (row.devices, row.runs_ours, row.failed_ours or 0, round(1000 * row.ours_value))
        for row in same
    ]
    assert Counter(times_of) == whole
    assert {row.ratio for row in same} == {1.0}
    assert not any("faster" in row.verdict for row in same)


def rate_of(row):
    """Return the learning rate of a result without a successful run, which lacks the column."""
    return row.hyperparameters["opt_base_learning_rate"]


def place_of(run):
    return run["devices"], run["target"], run["rate"], run["batch"]


def times(whole):
    return Counter(
        {
            ms: sum(count for (*_, length), count in whole.items() if length == ms)
            for *_, ms in whole
        }
    )


@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(THEIRS)
def test_all_views_of_a_submission_agree_with_its_published_result(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("v9.9")
    write_theirs(folder, drawn)
    seconds = [run["seconds"] for run in drawn if run["succeeds"]]
    failed = len(drawn) - len(seconds)
    expected = mean(seconds, slowest_failed=failed == 1 and len(seconds) >= 3)
    results = scored(folder)
    (row,) = results
    assert (row.runs_successful, row.runs_failed) == (len(seconds), failed)
    assert row.seconds == (expected and pytest.approx(expected))
    rates = {run["rate"] for run in drawn if run["succeeds"]}
    assert any("its runs differ in learning rate" in note for note in row.score_notes) == (
        len(rates) > 1
    )
    if not seconds:
        return
    whole = figures(results)
    assert figures(lines(report(read_runs(folder)).data)) == whole
    assert figures(lines(tables(results).data.to_frame().query("table == 1"))) == whole
    assert figures(lines(advise(results).data), "train_seconds") == whole
    with pytest.MonkeyPatch.context() as patch:
        # Replace the shipped files, whose 4,000 lines would be read for each example.
        patch.setattr(files, "SHIPPED", published(folder, drawn))
        (listed,) = lines(published_list({"round": "v9.9"}).data)
        side = logs_side([folder], "ours")
        compared = lines(compare(side, published_side("v9.9/Somebody/box"), ()).data)
    # A published set of runs is complete, whatever its number of runs.
    official = mean(seconds, slowest_failed=failed == 1)
    assert listed.minutes == pytest.approx(official / 60, abs=1e-6)
    (time,) = [row for row in compared if row.quantity == "time to target"]
    assert (time.kind, time.ours_value, time.theirs_value) == (
        "ratio",
        *map(pytest.approx, (expected, official)),
    )
    assert (time.runs_ours, time.runs_theirs) == (len(seconds), len(seconds))
    assert (time.failed_ours or 0, time.failed_theirs or 0) == (failed, failed)
    assert official != expected or "faster" not in time.verdict


def published(folder, drawn):
    start = "v9.9,Somebody,box,"
    lines = [
        f"{start}resnet50,{run['seconds']},{'success' if run['succeeds'] else 'truncated'}"
        for run in drawn
    ]
    write(
        folder / "files" / "runs_x.csv", ["round,submitter,system,benchmark,seconds,status", *lines]
    )
    names = "round,submitter,system,chips,framework,benchmark,minutes"
    write(folder / "files" / "results_x.csv", [names, f"{start}8,,resnet50,"])
    return folder / "files"
