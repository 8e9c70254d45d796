"""The matrices that stand first: for our runs, logs of other programs, and published rounds."""

from dataclasses import replace

import pytest

from suite.results.logs.collect import collect
from suite.results.names import accelerator_name
from suite.results.published.csv_files import load_published_results
from suite.results.report.overview import Cell, overview, published_glance, published_overview
from suite.results.report.overview_text import matrix_markdown
from suite.results.report.report import report_text
from suite.results.score.groups import rows
from suite.results.score.price import parse_prices
from tests.suite.results.fake_logs import write_run


def matrices(root, prices=None):
    return overview(rows(collect([root])), prices)


def place(matrix, *names):
    """Column to cell of the row with these names."""
    return dict(zip(matrix.columns, dict(matrix.rows)[names], strict=True))


def test_one_workload_has_frameworks_over_devices_with_time_speedup_and_label(tmp_path):
    for framework in ("pytorch", "mxnet"):
        for devices, seconds in ((1, 2.0), (2, 1.0)):
            labels = ["demo", "cpu"] + (["oversubscribed"] if devices == 2 else [])
            settings = {"framework": framework, "devices": devices, "labels": labels}
            write_run(tmp_path, f"{framework}{devices}", seconds_per_epoch=seconds, **settings)
    (found,) = matrices(tmp_path)
    assert found.title == "Overview: time to target, demo, ncf"
    assert (found.names, found.columns, found.labels) == (("framework",), ("1 device", "2 devices"), ("cpu", "demo"))
    assert place(found, "pytorch")["1 device"] == Cell("6.0 s", "", "", ())
    assert place(found, "mxnet")["2 devices"] == Cell("3.0 s", "×2.00", "", ("oversubscribed",))
    text = report_text([tmp_path])
    assert text.index("## Overview") < text.index("## ncf on laptop")
    assert "| pytorch   |    6.0 s | 3.0 s ×2.00 (a) |" in text
    assert "(a) oversubscribed" in text
    assert "holds chance where a result has fewer than 3 runs" in text


def test_speedups_of_enough_runs_and_of_fixed_length_hold_no_chance(tmp_path):
    for devices in (1, 2):
        for index in range(3):
            write_run(tmp_path / "timed", f"{devices}", index, devices=devices)
        write_run(tmp_path / "fixed", f"{devices}", devices=devices, stop="steps:9")
    for folder in ("timed", "fixed"):
        (found,) = matrices(tmp_path / folder)
        assert found.footer == ("× = speedup over the fewest devices of the same framework.",), folder


def test_several_workloads_are_columns_and_profiles_modes_and_kinds_do_not_mix(tmp_path):
    write_run(tmp_path, "a")
    write_run(tmp_path, "b", workload="ssd")
    write_run(tmp_path, "c", profile="reference", labels=[])
    write_run(tmp_path, "d", profile="reference", labels=[], framework="mxnet")
    for mode in ("train", "inference"):
        for framework in ("pytorch", "mxnet"):
            write_run(tmp_path, f"{mode}{framework}", stop="steps:9", mode=mode, framework=framework)
    reference, demo, inference, train = matrices(tmp_path)
    assert [one.title for one in (reference, demo, inference, train)] == [
        "Overview: time to target, reference, ncf",
        "Overview: time to target, demo",
        "Overview: throughput (inference), demo, ncf",
        "Overview: throughput (train), demo, ncf",
    ]
    assert demo.columns == ("ncf", "ssd")
    assert place(reference, "pytorch")["1 device"].labels == ("runs: 1 of 100",)[len(reference.labels) :]
    assert "runs: 1 of 100" in reference.labels
    assert place(train, "mxnet")["1 device"].value == "400,000 user-item pairs/s"


def test_a_cell_shows_the_fastest_setting_and_says_so(tmp_path):
    for rate, seconds in ((0.1, 3.0), (0.2, 1.0)):
        write_run(tmp_path, f"{rate}", seconds_per_epoch=seconds, keys={"opt_base_learning_rate": rate})
    write_run(tmp_path, "m", framework="mxnet")
    (found,) = matrices(tmp_path)
    assert place(found, "pytorch")["1 device"].value == "3.0 s"
    assert "A cell shows the fastest of several settings or systems." in found.footer


def test_one_result_needs_no_overview(tmp_path):
    write_run(tmp_path, "a")
    assert matrices(tmp_path) == []


def test_cost_stands_in_the_cell(tmp_path):
    for devices in (1, 2):
        write_run(tmp_path, f"{devices}", devices=devices, seconds_per_epoch=1200.0)
    (found,) = matrices(tmp_path, parse_prices("3"))
    assert [place(found, "pytorch")[column].cost for column in found.columns] == ["3.00", "6.00"]
    assert "| pytorch   |     3.00 |      6.00 |" in matrix_markdown(found)


def test_hostile_names_stay_in_their_cells(tmp_path):
    evil = "a|b\x1b[31m\n<script>x</script>"
    for devices in (1, 2):
        write_run(tmp_path, f"{devices}", devices=devices, framework=evil, system=evil, labels=[evil], workload=evil)
    (found,) = matrices(tmp_path)
    text = matrix_markdown(found)
    assert "<script>" not in text
    assert "\x1b" not in text
    lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {4}


@pytest.fixture(scope="module")
def published():
    return [item.measurement for item in load_published_results() if item.round != "dgx1-article"]


def test_v100_and_a100_stand_beside_each_other(published):
    (glance,) = published_glance(published)
    assert "8 of them" in glance.title
    old, new = place(glance, "v0.7", "V100")["ssd"], place(glance, "v0.7", "A100")["ssd"]
    assert (old.value, old.speedup, old.detail) == ("20.40 min", "", "Fujitsu gx_V100x8_ngc20.06_pytorch")
    assert (new.value, new.speedup) == ("10.21 min", "×2.00")
    assert place(glance, "v0.5", "V100")["ncf"].labels == ("14 of 100 runs failed",)
    assert glance.labels == ("published",)


def test_a_result_of_the_open_division_hides_none_of_the_closed_one(published):
    """v0.7: on eight V100 the fastest ResNet-50 is one of the open division."""
    (glance,) = published_glance(published)
    cell = place(glance, "v0.7", "V100")["resnet50"]
    assert (cell.value, cell.labels) == ("68.82 min", ())
    opened = [item for item in published if item.in_open_division or "A100" in item.hardware]
    (alone,) = published_glance(opened)
    cell = place(alone, "v0.7", "V100")["resnet50"]
    assert (cell.value, cell.labels) == ("61.60 min", ("open division",))
    assert not cell.speedup, "it has nothing of its division beside it"
    other = place(alone, "v0.7", "A100")["resnet50"]
    assert other.speedup == ""


def test_every_published_result_has_a_place(published):
    _, *rounds = published_overview(published)
    assert len(rounds) == 6
    held = sum(cell is not None for one in rounds for _, cells in one.rows for cell in cells)
    assert held >= 440  # two submissions of one system share a cell
    assert all(len(line) <= 120 for one in rounds for line in matrix_markdown(one).splitlines())


def test_machines_without_accelerators_may_be_of_any_size_and_are_not_compared(published):
    cpus = [item for item in published if item.origin == "v0.5" and item.devices == 0]
    assert len({item.score.seconds for item in cpus if item.workload == "resnet50"}) > 1
    (found,) = published_overview(cpus)
    assert {cell.speedup for _, cells in found.rows for cell in cells if cell} == {""}


def test_open_division_is_a_label(published):
    opened = replace(published[0], division="open")
    found = published_overview([opened, published[1]])[-1]
    assert "open division" in [label for _, cells in found.rows for cell in cells if cell for label in cell.labels]


@pytest.mark.parametrize(
    ("hardware", "name"),
    [
        ("Tesla V100-SXM3-32GB-H", "V100"),
        ("Nvidia Tesla V100S-PCIe-32GB", "V100"),
        ("NVIDIA A100-SXM4-40GB (400W)", "A100"),
        ("tpu-v3 chip (2 cores)", "TPU v3"),
        ("tpuv2-8", "TPU v2"),
        ("Habana Gaudi2", "Gaudi2"),
        ("NVIDIA RTX A5000", "RTX A5000"),
        ("none (CPU)", "CPU"),
        ("Something New", "Something New"),
    ],
)
def test_kinds_of_accelerators(hardware, name):
    assert accelerator_name(hardware) == name
