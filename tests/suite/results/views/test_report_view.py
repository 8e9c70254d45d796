"""Reports: one row for each experiment, ratios of the shown rows, and all differences."""

import shutil
from pathlib import Path

import pytest

from suite.catalog.deviations import Deviation, DeviationCode
from suite.cli import main
from suite.compliance.check_log import check_file
from suite.results.render.document import document, markdown
from suite.results.scores import results, results_of
from suite.results.table import read_runs
from suite.results.views import report_view as views
from suite.results.views import result_sentences
from suite.results.views.headlines import headlines
from suite.results.views.report_view import report
from testing.fake_logs import demo_log, foreign, write, write_run
from tests.suite.results.rows import lines, sweep

FAILED = {"status": "oom", "reason": "process 0: out of memory", "workload": "ncf", "devices": 1}
RATE = "opt_base_learning_rate"
DATA = Path(__file__).resolve().parents[3] / "data"


def sections(root):
    return {section.title: section for section in report(read_runs(root)).sections}


def only_table(root, **options):
    (members,) = views.together(results(root))
    return list(lines(views.results_section(members, **options).table))


def text_of(root):
    return document(report(read_runs(root)))


def test_the_page_agrees_with_the_stored_page(tmp_path):
    sweep(tmp_path)
    shutil.rmtree(tmp_path / "ncf-4")
    write_run(tmp_path, "ncf-1", 1, seconds_per_epoch=2.2, devices=1, samples=100)
    page, _, then = document(views.with_single_title(report(read_runs(tmp_path)))).partition(
        "## Next\n"
    )
    assert page == (DATA / "pages" / "report.md").read_text()
    assert f"suite report {tmp_path} --html report.html" in then
    first, second = only_table(tmp_path)
    assert (first.devices, first.runs, first.epochs) == (1, 2, 3.0)
    assert (first.seconds, first.seconds_minimum, first.seconds_maximum) == pytest.approx(
        (6.3, 6.0, 6.6)
    )
    assert (first.speedup, second.speedup) == (1.0, pytest.approx(2.1))


def test_the_data_has_every_result_with_its_ratio(tmp_path):
    sweep(tmp_path)
    data = report(read_runs(tmp_path)).data.to_frame()
    assert list(data["seconds"]) == [6.0, 3.0, 2.0]
    assert list(data["speedup"][1:]) == pytest.approx([2.0, 3.0])
    assert list(data["throughput"] * data["efficiency"])[1:] == pytest.approx([2.0, 3.0])
    assert list(data["baseline_devices"][1:]) == [1, 1]
    assert list(data["samples_per_second"]) == [100, 160, 240]


@pytest.mark.parametrize(
    "changed",
    [
        {"profile": "reference", "labels": []},
        {"framework": "mxnet"},
        {"workload": "ssd"},
        {"system": "server"},
        {"precision": "bf16"},
        {"clock": "v0.7"},
        {"data_fingerprint": "fedcba"},
        {"targets": {"hr_at_10": 0.6}},
        {"batch_rule": "per_device:4096"},
        {"stop": "epochs:3"},
        {"device_name": "Other CPU"},
        {"cores_per_device": 2},
        {"update": "async"},
        {"keys": {RATE: 0.1}},
        {"max_epochs": 7},
        {"framework_version": "2.12.0"},
        {"labels": ["demo", "cpu", "counts differ from the published data set"]},
    ],
)
def test_different_experiments_are_not_averaged_not_compared_and_distinguishable(tmp_path, changed):
    write_run(tmp_path, "a", 0, devices=1)
    write_run(tmp_path, "a", 1, devices=1, **changed)
    write_run(tmp_path, "b", 0, devices=2, **changed)
    view = report(read_runs(tmp_path))
    assert sorted(view.data.to_frame()["runs_successful"]) == [1, 1, 1]
    (two,) = (row for row in view.data if row["devices"] == 2)
    (base,) = (row for row in view.data if row["devices"] == 1 and "run_1" in row["path"])
    assert two["speedup"] == pytest.approx(
        base["samples_per_second"] / 4e5 if "stop" in changed else 1.0
    )
    titles = [section.title for section in view.sections if section.title]
    assert len(set(titles)) == len(titles)
    for section in (section for section in view.sections if section.table is not None):
        names = section.table.only((*section.table.columns[: section.keys], "notes"))
        assert len({str(row) for row in names.rows}) == len(names)


def test_a_changed_learning_rate_is_shown_in_rows_or_above_tables(tmp_path):
    write_run(tmp_path, "a", keys={RATE: 0.003})
    write_run(tmp_path, "b", keys={RATE: 0.01})
    assert {vars(row)[f"hyperparameters.{RATE}"] for row in only_table(tmp_path)} == {
        "0.003",
        "0.01",
    }
    write_run(tmp_path / "two", "c", keys={RATE: 0.003})
    write_run(tmp_path / "two", "d", keys={RATE: 0.01}, system="server")
    found = sections(tmp_path / "two")
    first, second = (
        found[title]
        for title in found
        if title.startswith("NCF demo") and title.endswith(("laptop", "server"))
    )
    rates = {dict(section.facts)["Settings"].rpartition("; ")[2] for section in (first, second)}
    assert rates == {"learning rate 0.003", "learning rate 0.01"}


def test_failures_are_counted_and_listed_once(tmp_path):
    for index in range(3):
        write_run(tmp_path, "ncf-1", index)
    write_run(
        tmp_path,
        "ncf-1",
        3,
        qualities=(0.3,),
        status={"status": "target_missed", "reason": "after 101 steps"},
    )
    write_run(tmp_path, "ncf-1", 4, log=False, status=FAILED)
    write_run(
        tmp_path,
        "ncf-2",
        0,
        log=False,
        status={**FAILED, "status": "hung", "reason": "no progress"},
    )
    write_run(tmp_path, "ncf-3", 0, log=False, status={"status": "running", "reason": ""})
    early = write_run(tmp_path, "ncf-1", 5) / "result_5.txt"
    # The log is cut off after run_start.
    early.write_text("\n".join(early.read_text().splitlines()[:8]))
    (row,) = only_table(tmp_path)
    assert (row.runs, row.failed) == (3, 3)
    failed = sections(tmp_path)["Failed runs"].table.to_frame()
    missed, oom, *further = failed.values.tolist()
    assert missed == ["ncf-1/run_3", "target_missed", "after 101 steps"]
    assert (oom, len(further)) == (["ncf-1/run_4", "oom", "process 0: out of memory"], 2)
    assert sections(tmp_path)["Runs that have not ended"].table.to_frame()["run"].tolist() == [
        "ncf-3/run_0"
    ]


def test_a_result_over_several_versions_of_the_suite_names_them(tmp_path):
    for index in range(3):
        write_run(
            tmp_path,
            "a",
            index,
            start=1000 * index,
            git_commit=f"{min(index, 1)}",
            suite_version="0.1.0",
        )
    (row,) = lines(report(read_runs(tmp_path)).data)
    assert (row.runs_successful, row.suite_version, row.git_commit) == (3, "0.1.0", "mixed")
    assert "runs of 2 versions of the suite: 0.1.0 (0), 0.1.0 (1)" in text_of(tmp_path)


def test_copies_count_once_and_are_listed(tmp_path):
    folder = write_run(tmp_path, "a")
    for name in ("b", "c"):
        shutil.copytree(folder.parent, tmp_path / name)
    (row,) = only_table(tmp_path)
    assert (row.runs, row.failed if hasattr(row, "failed") else None) == (1, None)
    copies = sections(tmp_path)["Copies"]
    assert "2 logs" in copies.above[0]
    assert len(copies.below) == 2


@pytest.mark.parametrize("lines", [-1, -2, 22])
@pytest.mark.parametrize(
    "logs", [lambda folder: folder, lambda folder: sorted(folder.iterdir(), reverse=True)]
)
def test_an_incomplete_copy_of_a_log_does_not_count_as_a_run(tmp_path, lines, logs):
    """Copy a log while it is being written, and check that only the longer log counts.

    The copy must not count as a further run or as a failed run, in any order of the folders. Logs
    with a different seed or different settings are separate runs.
    """
    whole, options = (
        write_run(tmp_path, "m") / "result_0.txt",
        {"start": 1000, "qualities": (0.2, 0.5, 0.65)},
    )
    for name in ("a", "z"):
        write(tmp_path / name / "run_0" / "result_0.txt", whole.read_text().splitlines()[:lines])
    write_run(tmp_path, "b", keys={"seed": 7}, **options)
    write_run(tmp_path, "c", keys={"seed": 8}, **options)
    found = read_runs(logs(tmp_path))
    (row,) = results_of(found)
    assert (row.runs_successful, row.runs_failed) == (3, 0)
    copies = [run for run in found if run.copy_of == str(whole)]
    assert sorted(Path(run.path).parts[-3] for run in copies) == ["a", "z"]
    (listed,) = (section for section in report(found).sections if section.title == "Copies")
    assert all("an earlier state of" in line for line in listed.below)


MEASURED = (
    "throughput",
    "train_loss",
    "train_samples",
    "trained_samples",
    "loss",
    "data_file",
    "checkpoint",
)


def test_a_folder_of_a_submission_is_one_row_with_a_note_on_differing_hyperparameters(tmp_path):
    """Two published folders have such runs.

    They are v3.1/GigaComputing/G593-ZD2_pytorch/maskrcnn and
    v2.1/Dell/32xXE8545x4A100-SXM-40GB/maskrcnn.
    """
    for index in range(5):
        logged = {name: f"{index}" if name in MEASURED[-2:] else 100.5 + index for name in MEASURED}
        rate = {
            "opt_base_learning_rate": 0.16 if index else 0.24,
            "global_batch_size": 256 if index else 128,
        }
        foreign(tmp_path / "one" / "resnet" / f"result_{index}.txt", seconds=60 + index, **logged)
        foreign(
            tmp_path / "two" / "resnet" / f"result_{index}.txt",
            seconds=60 + index,
            **logged,
            **rate,
        )
    first, second = only_table(tmp_path)
    assert [(row.runs, row.seconds) for row in (first, second)] == [(5, pytest.approx(62.0))] * 2
    message = "its runs differ in global batch 128 and 256, learning rate 0.24 and 0.16"
    assert [note for note in second.notes if "differ" in note] == [message]
    assert not any("differ" in note for note in first.notes)
    assert [row.global_batch_size for row in lines(report(read_runs(tmp_path)).data)] == [256, None]


def test_systems_that_log_the_same_name_are_separate_rows(tmp_path):
    for system, seconds in (("first", 60), ("second", 90)):
        for index in range(5):
            foreign(tmp_path / system / "resnet" / f"result_{index}.txt", seconds=seconds + index)
    found = only_table(tmp_path)
    assert [row.runs for row in found] == [5, 5]
    assert all(
        name in vars(row)["folder"] for row, name in zip(found, ("first", "second"), strict=True)
    )


@pytest.mark.parametrize(
    "odd",
    [
        [line for line in demo_log() if '"run_start"' not in line],
        [line for line in demo_log() if '"run_stop"' not in line],
        [],
        ["no log at all"],
        b"\0\1\2" * 100,
        b":::MLLOG {\n",
        [*demo_log()[:4], *[line.replace('"time_ms"', '"time"') for line in demo_log()[4:]]],
        [
            line.replace('"ncf"', '["ncf"]').replace('"devices": 1', '"devices": "many"')
            for line in demo_log()
        ],
    ],
)
def test_a_damaged_log_does_not_change_the_results_of_other_logs(tmp_path, odd):
    sweep(tmp_path)
    good = report(read_runs(tmp_path)).data.to_frame()
    write(tmp_path / "odd" / "run_0" / "result_0.txt", odd)
    found = report(read_runs(tmp_path)).data.to_frame()
    assert list(found["seconds"][:3]) == list(good["seconds"])
    assert list(found["runs_successful"][:3]) == [1, 1, 1]
    assert document(report(read_runs(tmp_path)))


def test_profiles_stop_conditions_and_update_rules_have_separate_tables(tmp_path):
    write_run(tmp_path, "a")
    write_run(tmp_path, "b", profile="reference", labels=[])
    write_run(
        tmp_path, "c", profile="synthetic", labels=["synthetic"], stop="steps:10", qualities=(None,)
    )
    write_run(tmp_path, "d", update="async")
    kinds = ("reference", "demo", "synthetic, throughput (train)", "demo, asynchronous updates")
    found = {title for title in sections(tmp_path) if title != "Next"}
    assert found == {f"NCF {kind}, PyTorch 2.11.0, Some CPU, laptop" for kind in kinds}


def test_fixed_length_runs_have_a_throughput_only(tmp_path):
    sweep(tmp_path, stop="epochs:2")
    _, two, _ = only_table(tmp_path)
    assert two.speedup == pytest.approx(1.6)
    assert not {"seconds", "efficiency", "throughput"} & set(vars(two))
    assert "1.60× the samples per second" in " ".join(text_of(tmp_path).split())


def test_labels_deviations_and_missing_runs_share_one_footnote_mark(tmp_path):
    write_run(
        tmp_path,
        "a",
        profile="reference",
        labels=["oversubscribed"],
        deviations=["learning rate 1"],
    )
    write_run(tmp_path, "b", profile="reference", labels=[], devices=2)
    first, second = only_table(tmp_path)
    assert first.notes == ("oversubscribed", "open division because: learning rate 1")
    assert (second.notes, second.of) == ((), 100)
    text = text_of(tmp_path)
    assert "1 (a) |" in text
    assert ") (" not in "".join(line for line in text.splitlines() if line.startswith("|"))
    assert "- fewer runs than the rules require (1 of 100)" in text
    assert text.count("Not verified by MLCommons Association.") == 1


def test_negligible_shares_are_omitted_and_ratios_below_one_are_called_slower(tmp_path):
    for devices, seconds in ((1, 1.0), (2, 1.28)):
        lines = demo_log(devices=devices, seconds_per_epoch=seconds)
        lines = [
            line.replace('"data_wait_seconds": 0.5', '"data_wait_seconds": 9e-05') for line in lines
        ]
        write(tmp_path / str(devices) / "run_0" / "result_0.txt", lines)
    text = " ".join(text_of(tmp_path).split())
    assert "1 → 2 devices: 1.28× slower to target with the same number of epochs." in text
    assert "epochs 1.28× slower" in text
    assert "| data wait |" not in text, "a negligible part has no column"
    assert "÷" not in text
    assert "×0" not in text


def test_hyperparameters_that_follow_from_the_devices_do_not_separate_series(tmp_path):
    write_run(tmp_path, "a", devices=1, keys={"model_bn_span": 32})
    write_run(tmp_path, "b", devices=2, seconds_per_epoch=1.0, keys={"model_bn_span": 16})
    assert [row.speedup for row in only_table(tmp_path)] == [1.0, pytest.approx(2.0)]


def test_results_over_several_nodes_are_separate_labeled_rows(tmp_path):
    write_run(
        tmp_path, "together", qualities=(0.5, 0.65), seconds_per_epoch=1.5, devices=2, nodes=1
    )
    write_run(tmp_path, "apart", qualities=(0.5, 0.65), seconds_per_epoch=2.0, devices=2, nodes=2)
    one_node, two_nodes = only_table(tmp_path)
    assert (one_node.nodes, two_nodes.nodes, two_nodes.speedup) == (None, 2, pytest.approx(3 / 4))
    text = " ".join(text_of(tmp_path).split())
    assert "1 × 2 → 2 × 1 devices: 1.33× slower" in text
    assert "cross nodes" in text


@pytest.mark.parametrize("share", [0.0, 0.04, 0.3, 0.95])
def test_an_incomplete_log_of_a_running_job_has_no_problems(tmp_path, share):
    folder = write_run(tmp_path, "a", status={"status": "running"})
    text = (folder / "result_0.txt").read_text()
    (folder / "result_0.txt").write_text(text[: int(share * len(text))])
    assert list(sections(tmp_path)) == ["Runs that have not ended"]


def test_a_run_whose_controller_was_killed_is_a_failed_run(tmp_path, monkeypatch):
    log = write_run(tmp_path, "a", status={"status": "running"}) / "result_0.txt"
    log.write_text("\n".join(log.read_text().splitlines()[:-1]))
    assert not check_file(log).judged
    monkeypatch.setattr("suite.results.logs.collect.holder_was_killed", lambda output: True)
    (ended,) = sections(tmp_path)["Failed runs"].table.to_frame().values.tolist()
    assert ended == ["a/run_0", "interrupted", "its controller was killed"]
    verdict = check_file(log)
    assert (verdict.judged, verdict.passed) == (True, False)


def test_problems_are_listed_with_their_lines(tmp_path):
    write_run(tmp_path, "a")
    write(tmp_path / "d" / "run_0" / "result_0.txt", b":::MLLOG {\n")
    (text,) = sections(tmp_path)["Problems in logs"].below
    assert (
        "d/run_0/result_0.txt: no record of the log can be read; line 1: :::MLLOG record cannot be"
        " read" in text
    )


def test_rows_of_different_frameworks_show_differing_precision_batch_and_clock(tmp_path):
    write_run(tmp_path, "a")
    write_run(
        tmp_path, "b", framework="mxnet", precision="fp16", global_batch_size=2048, clock="v0.7"
    )
    found = {
        (row.framework, row.precision, row.global_batch_size, row.clock)
        for row in only_table(tmp_path)
    }
    assert found == {("MXNet", "fp16", 2048, "v0.7"), ("PyTorch", "fp32", 4096, "v0.5")}


def test_a_headline_names_the_fastest_result_and_its_deviating_settings(tmp_path):
    for devices, seconds in ((1, 7.0), (2, 6.0)):
        for index in range(2):
            name = f"usual-{devices}"
            write_run(
                tmp_path,
                name,
                index,
                start=1000 * index,
                devices=devices,
                seconds_per_epoch=seconds,
            )
    write_run(
        tmp_path,
        "other-4",
        devices=4,
        seconds_per_epoch=3.0,
        keys={"opt_base_learning_rate": 0.006},
    )
    ((found, of),) = headlines(results(tmp_path))
    machine = "on 4 devices (Some CPU) with PyTorch"
    assert (
        found
        == f"NCF (demo, cpu): 9.0 s to hit rate at 10 ≥ 0.635 {machine}, learning rate 0.006. One"
        " run."
    )
    assert len(of) == 3


PLAIN = {"qualities": (0.65,), "framework": "mxnet"}


@pytest.mark.parametrize(
    ("runs", "ending"),
    [
        ([{**PLAIN, "seconds_per_epoch": 4.0}],
         "with PyTorch. Other frameworks: MXNet 4.0 s. One run."),
        ([{**PLAIN, "seconds_per_epoch": 4.0, "labels": ["demo", "cpu", "oversubscribed"]}],
         "with PyTorch. Other frameworks: MXNet 4.0 s (oversubscribed). One run."),
        ([{**PLAIN, "precision": "fp16"}], "with MXNet, precision fp16. One run."),
        ([{**PLAIN, "global_batch_size": 2048, "seconds_per_epoch": 4.0}],
         "with PyTorch, global batch 4,096. One run."),
        ([{**PLAIN, "clock": "v0.7", "seconds_per_epoch": 4.0}],
         "with PyTorch, clock rule v0.5. One run."),
        ([{**PLAIN, "precision": "tf32", "seconds_per_epoch": 4.0}],
         "with PyTorch, precision fp32. One run."),
        ([{"devices": 2, "qualities": (0.65,), "seconds_per_epoch": 4.11}],
         "with PyTorch. On 2 devices it is 1.37× slower. One run each."),
    ],
)  # fmt: skip
def test_a_headline_compares_only_results_that_differ_in_the_framework_alone(
    tmp_path, runs, ending
):
    write_run(tmp_path, "usual", qualities=(0.65,), seconds_per_epoch=3.0)
    for index, run in enumerate(runs):
        write_run(tmp_path, f"other-{index}", **run)
    ((found, _),) = headlines(results(tmp_path))
    assert found.endswith(ending)


def test_labels_of_single_results_in_a_headline_follow_their_numbers(tmp_path):
    once = {"qualities": (0.65,)}
    write_run(
        tmp_path, "a", **once, seconds_per_epoch=3.0, labels=["demo", "cpu", "oversubscribed"]
    )
    write_run(tmp_path, "b", **once, seconds_per_epoch=4.0, framework="mxnet")
    ((found, _),) = headlines(results(tmp_path))
    start = (
        "NCF (demo, cpu): 3.0 s to hit rate at 10 ≥ 0.635 on 1 device (Some CPU) with PyTorch"
        " (oversubscribed)."
    )
    assert found == f"{start} Other frameworks: MXNet 4.0 s. One run."
    foreign(tmp_path / "others" / "result_0.txt")
    *_, (text, _) = headlines(results(tmp_path / "others"))
    assert text.endswith("on an unknown number of devices. One run.")


THREE = ["data set ml-demo, not ml-20m", "target 0.5, not 0.635", "batch 4096"]


@pytest.mark.parametrize(
    "changes",
    [
        [{"deviations": [*THREE, "learning rate 1"]}],
        [{"labels": ["demo", "cpu", "oversubscribed"]}],
        [
            {"deviations": [*THREE, "learning rate 1"]},
            {"labels": ["demo", "cpu", "oversubscribed"]},
        ],
    ],
)
def test_deviations_that_all_rows_share_are_not_printed_as_none_in_a_row(tmp_path, changes):
    """Deviations that all rows share are shown once, above the table.

    A row without further deviations must not show `deviations none`.
    """
    write_run(tmp_path, "a", seconds_per_epoch=2.0, deviations=THREE)
    for index, changed in enumerate(changes):
        write_run(
            tmp_path, f"b-{index}", **{"seconds_per_epoch": 3.0, "deviations": THREE, **changed}
        )
    runs = read_runs(tmp_path)
    ((found, _),) = headlines(results_of(runs))
    page = markdown(report(runs))
    for text in ("deviations none", "labels none"):
        assert text not in found
        assert text not in page
    for text in ("ml-demo instead of ml-20m", "target 0.5, not 0.635", "batch 4096"):
        assert text in " ".join(page.split())


def test_a_row_without_any_deviation_differs_from_one_with_some(tmp_path):
    write_run(tmp_path, "a", seconds_per_epoch=2.0)
    write_run(tmp_path, "b", seconds_per_epoch=3.0, deviations=THREE)
    ((found, _),) = headlines(results(tmp_path))
    assert "deviations" not in found
    closed, open_ = only_table(tmp_path)
    assert closed.notes == ()
    assert len(open_.notes) == len(THREE)


def test_a_headline_names_accelerators(tmp_path):
    write_run(
        tmp_path, "a", devices=8, device="cuda", device_name="Tesla V100-SXM2-16GB", labels=["demo"]
    )
    ((found, _),) = headlines(results(tmp_path))
    assert "on 8 × V100 SXM with PyTorch" in found


def test_headlines_of_throughput_and_of_failed_runs(tmp_path):
    sweep(tmp_path, stop="epochs:2")
    write_run(tmp_path, "failed", workload="ssd", qualities=(0.1,))
    (fast, _), (none, _) = headlines(results(tmp_path))
    assert fast.startswith("NCF (demo, cpu): 240 user-item pairs/s on ")
    assert none == "SSD (demo, cpu): the run did not reach the target."


@pytest.mark.parametrize("dataset", ["translation-demo", "parallel-text"])
def test_a_report_states_whether_the_data_is_generated(tmp_path, capsys, dataset):
    write_run(tmp_path, "a", dataset=dataset)
    assert main(["report", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    found = {"translation-demo": "generated data"}.get(dataset, f"the data set {dataset}")
    assert f"DEMO: {found} and a small model. Not an MLPerf result." in shown
    assert ("generated" in shown) == (dataset == "translation-demo")


def test_a_table_with_one_framework_and_logs_without_a_framework_has_a_framework_column(tmp_path):
    for system, framework in (("rack", "PyTorch 2.8"), ("shelf", "")):
        folder = tmp_path / "v5.1" / "Acme" / "results" / system / "resnet"
        for index in range(5):
            foreign(folder / f"result_{index}.txt", system, 60 + index, "resnet", seed=index)
        (folder / "scaling.json").write_text('{"scaling_factor": 1.00337}')
        description = (
            f'{{"framework": "{framework}", "number_of_nodes": 1, "accelerators_per_node": 8}}'
        )
        write(tmp_path / "v5.1" / "Acme" / "systems" / f"{system}.json", [description])
    text = text_of(tmp_path)
    assert "framework" in text
    assert "1.0034 |" in text


def test_reasons_for_the_open_division_are_shortened_unless_verbose():
    parts = tuple(f"part_{number}" for number in range(20))
    model = Deviation(DeviationCode.SETTING, "model", allowed="the reference's", parts=parts)
    demo = Deviation(DeviationCode.SETTING, "profile", value="demo", allowed="reference")
    rest = [
        Deviation(DeviationCode.SETTING, f"setting_{n}", value=n, allowed="1") for n in range(2, 7)
    ]
    short = result_sentences.open_division_sentence([model, *rest, demo])
    assert short.startswith(
        "Open division because: profile is demo instead of reference; model differs"
    )
    assert "part_3 and 16 more settings" in short
    assert "3 more reasons (--verbose)" in short
    whole = result_sentences.open_division_sentence([model, *rest, demo], verbose=True)
    assert all(
        name in whole
        for name in (*parts, *(f"setting_{n} is {n} instead of 1" for n in range(2, 7)))
    )
