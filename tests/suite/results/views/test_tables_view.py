"""Tables 1-7 of the article, and the same tables of runs with hand-computed values."""

import json

import pandas as pd
import pytest

from suite.results.render.document import document
from suite.results.scores import measured
from suite.results.views.tables_view import tables
from testing.fake_logs import write_run
from tests.helpers import PROJECT, suite_here
from tests.suite.results.rows import sweep


def suite(*arguments):
    return suite_here(PROJECT, "tables", *arguments)


def halves(view):
    return view.data.to_frame()[view.data.to_frame()["table"] != 7], view.data.to_frame()[
        view.data.to_frame()["table"] == 7
    ]


def test_results_and_speedups_agree_with_hand_computed_values(tmp_path):
    view = tables(measured([sweep(tmp_path, counts=(1, 2))]))
    found, pairs = halves(view)
    name = "ncf in pytorch on laptop (demo, cpu)"
    titles = [
        f"Table 6. {name}",
        "Table 7. Speedup over the fewest devices",
        f"Every pair of device counts: {name}",
    ]
    assert [section.title for section in view.sections] == titles
    names = [
        "devices",
        "global_batch_size",
        "batch_size_per_device",
        "seconds_per_epoch",
        "epochs",
        "seconds",
    ]
    assert found[names].values.tolist() == [
        [1, 4096, 4096, 2.0, 3.0, 6.0],
        [2, 4096, 2048, 1.5, 2.0, 3.0],
    ]
    factors = pairs[["speedup", "throughput", "efficiency", "scaling_efficiency"]].values.tolist()
    assert factors == [pytest.approx([2.0, 2 / 1.5, 3 / 2, 2 / 3])]
    assert pairs["scaling"].tolist() == ["strong"]


def test_the_tables_of_the_article_are_reproduced():
    view = tables([], with_article=True)
    assert [section.title.split(". ")[0] for section in view.sections[:7]] == [
        f"Table {number}" for number in range(1, 8)
    ]
    assert all("(article)" in section.title for section in view.sections[:6])
    found, pairs = halves(view)
    resnet50 = found[(found["workload"] == "resnet50") & (found["devices"] == 4)].iloc[0]
    assert (
        resnet50["global_batch_size"],
        resnet50["batch_size_per_device"],
        resnet50["epochs"],
    ) == (1664, 416, 63)
    assert (resnet50["seconds_per_epoch"] / 60, resnet50["seconds"] / 60) == pytest.approx(
        (4.56, 287.28), abs=0.005
    )
    flagged = pairs[["the article prints" in "".join(flags) for flags in pairs["flags"]]]
    assert flagged[["workload", "devices_from", "devices_to"]].values.tolist() == [
        ["resnet50", 1, 4]
    ]
    assert "the article prints 4.76, and its tables give 4.68" in document(view)


def test_a_series_keeps_its_batch_even_if_a_different_batch_is_faster(tmp_path):
    for devices, seconds in ((1, (4.0, 2.0)), (2, (1.0, 1.5)), (4, (0.6, 0.5))):
        for batch, once in zip((256, 2048), seconds, strict=True):
            write_run(
                tmp_path,
                f"{batch}-{devices}",
                devices=devices,
                global_batch_size=batch,
                seconds_per_epoch=once,
            )
    write_run(tmp_path, "8192-8", devices=8, global_batch_size=8192)  # It joins the second series.
    _, pairs = halves(tables(measured([tmp_path])))
    both = (
        pairs[["batch_size_global_from", "batch_size_global_to"]].drop_duplicates().values.tolist()
    )
    assert sorted(both) == [[256, 256], [2048, 2048], [2048, 8192]]


def test_families_that_differ_in_a_setting_share_a_table(tmp_path):
    for target in (0.5, 0.6):
        sweep(tmp_path / str(target), counts=(1, 2), targets={"hr_at_10": target})
    for rate in (0.002, 0.006):
        options = {"targets": {"hr_at_10": 0.6}, "keys": {"opt_base_learning_rate": rate}}
        run = {"typed": ["workload=ncf", "gpus=4", f"workload.learning_rate={rate}"]}
        (write_run(tmp_path, f"{rate}", devices=4, **options) / "run.json").write_text(
            json.dumps(run)
        )
    view = tables(measured([tmp_path]))
    assert len([section for section in view.sections if section.title.startswith("Table 6")]) == 1
    found, pairs = halves(view)
    easy, hard = (f"target hit rate at 10 ≥ {target}" for target in (0.5, 0.6))
    rates = [f"{hard}, learning rate {rate}" for rate in (0.003, 0.003, 0.002, 0.006)]
    assert found["differs_in"].to_list() == [easy, easy, *rates]
    assert set(pairs["differs_in"]) < set(found["differs_in"])  # Both tables use the same labels.
    assert dict(view.sections[0].facts) == {
        "Target": "hit rate at 10 ≥ 0.5 or hit rate at 10 ≥ 0.6",
        "Data set": "ml-demo",
    }
    single = view.sections[-1]
    for below, command, rate in zip(single.below, single.commands, (0.002, 0.006), strict=True):
        assert below.startswith("ncf in pytorch on laptop (demo, cpu), ")
        assert f"learning rate {rate}" in below
        assert below.endswith(": 4 devices only")
        assert command == f"python run_suite.py workload=ncf workload.learning_rate={rate} gpus=8"
    page = document(view)
    bullets = [line for line in page.splitlines() if line.startswith("- ")]
    assert len(bullets) == len(set(bullets)) > 2
    assert not any(text in page for text in ("{", "': ", "(2)"))


def test_weak_and_strong_scaling_are_separate_series(tmp_path):
    sweep(tmp_path / "a")
    for devices in (1, 2):
        write_run(
            tmp_path,
            f"w{devices}",
            devices=devices,
            batch_rule="per_device:64",
            global_batch_size=64 * devices,
        )
    _, found = halves(tables(measured([tmp_path])))
    kinds = {(row.scaling, "per_device:64" in row.differs_in) for row in found.itertuples()}
    assert kinds == {("strong", False), ("weak", True)}
    assert len(found) == 4


def test_profiles_have_separate_tables_and_runs_of_fixed_length_are_left_out(tmp_path):
    write_run(tmp_path, "a", devices=1)
    write_run(tmp_path, "b", devices=2, profile="reference", labels=["cpu"])
    write_run(tmp_path, "c", stop="epochs:3")
    view = tables(measured([tmp_path]))
    assert (
        "The results have several profiles. Each profile has its own tables and speedups."
        in view.above
    )
    assert (
        "Left out: 1 result without a time to target (suite report shows all results)."
        in view.above
    )
    assert view.data.to_frame()["table"].to_list() == [6, 6]
    assert view.data.to_frame()["notes"].to_list() == [
        (),
        ("fewer runs than the rules require (1 of 100)",),
    ]


def test_files_contain_results_and_speedups(tmp_path):
    done = suite(sweep(tmp_path / "logs"), "--format", "csv", "--output", tmp_path / "tables.csv")
    assert (done.returncode, done.stdout) == (0, "")
    assert pd.read_csv(tmp_path / "tables.csv")["table"].to_list() == [6, 6, 6, 7, 7, 7]


def test_figure_6_is_drawn_from_the_tables_alone(tmp_path):
    for code in (0, 2):  # The second call must not overwrite the figures.
        assert suite("--article", "--figures", tmp_path / "figures").returncode == code
    drawn = "".join(path.read_text() for path in (tmp_path / "figures").glob("*.svg"))
    assert all(name in drawn for name in ("ResNet-50", "Mask R-CNN", "SSD", "GNMT", "NCF"))
