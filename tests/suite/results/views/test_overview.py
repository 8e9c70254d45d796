"""Overview: distinguishable rows, ratios of shown cells, and the hardest target."""

import pytest

from suite.results.names import accelerator_name, short_title
from suite.results.price import parse_prices
from suite.results.scores import published_results, results
from suite.results.text import range_text, time_text
from suite.results.views.overview import overview
from suite.results.views.published_overview import published_overview
from suite.results.views.section import target_and_data_text
from testing.fake_logs import foreign, write_run
from tests.suite.results.rows import make_result


def matrices(root, prices=None):
    return overview(results(root), prices)


def cells(section):
    named = section.table.to_frame().drop(columns="notes").values.tolist()
    return {" ".join(map(str, row[: section.keys])): row[section.keys :] for row in named}


@pytest.mark.parametrize(
    ("changed", "row_name"),
    [
        ({"targets": {"hr_at_10": 0.5}}, "hit rate at 10 ≥ 0.5"),
        ({"batch_rule": "global:512", "global_batch_size": 512}, "512"),
        ({"keys": {"opt_base_learning_rate": 0.01}}, "learning rate 0.01"),
    ],
)
def test_runs_with_a_different_setting_are_separate_rows_with_ratios_within_their_rows(
    tmp_path, changed, row_name
):
    for name, settings, speed in (("default", {}, 3.0), ("other", changed, 2.0)):
        for index in range(2):
            write_run(tmp_path, f"{name}-1", index, devices=1, seconds_per_epoch=speed, **settings)
        write_run(tmp_path, f"{name}-2", devices=2, seconds_per_epoch=speed / 1.6, **settings)
    times, speedups = matrices(tmp_path)
    assert times.title == "Overview: time to target, demo, NCF"
    (mine,) = (name for name in cells(times) if row_name in name)
    assert len(cells(times)) == 2
    assert cells(times)[mine] == pytest.approx([6.0, 3.75])
    assert [value for row in cells(speedups).values() for value in row] == pytest.approx([1.6, 1.6])


@pytest.mark.parametrize(("above", "ratios"), [("v4.1", 1), ("logs", 0)])
def test_logs_of_unknown_rounds_have_no_ratios(tmp_path, above, ratios):
    for system, seconds in (("one", 60), ("two", 90)):
        foreign(tmp_path / above / system / "resnet" / "result_0.txt", system, seconds)
        foreign(tmp_path / above / system / "ssd" / "result_0.txt", system, seconds, "ssd")
        (tmp_path / above / system / "system.json").write_text(
            '{"number_of_nodes": 1, "accelerators_per_node": 8}'
        )
    assert len(matrices(tmp_path)) == 1 + ratios


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"dataset": "ml-demo"}, "target hit rate at 10 ≥ 0.635, data set ml-demo"),
        ({"dataset": ""}, "target hit rate at 10 ≥ 0.635, data set unknown"),
        (
            {"profile": "", "division": "closed"},
            "target hit rate at 10 ≥ 0.635, data set of the rules",
        ),
        ({"profile": "", "division": "open"}, "target hit rate at 10 ≥ 0.635, data set unknown"),
        ({"targets": {}, "dataset": "a"}, "target unknown, data set a"),
        ({"stop": "steps:1", "to_target": False, "dataset": "a"}, "data set a"),
    ],
)
def test_target_and_data_set_of_the_times_are_stated(changed, text):
    assert target_and_data_text([make_result(**changed)]) == text


def test_a_spread_has_the_same_unit_as_its_time():
    assert (time_text(97.5), range_text(70.8, 124.2, 97.5)) == ("97.5 s", "70.8–124.2 s")
    assert (time_text(130.0), range_text(90.0, 150.0, 130.0)) == ("2.17 min", "1.50–2.50 min")


def test_a_single_result_has_no_overview(tmp_path):
    write_run(tmp_path, "a")
    assert matrices(tmp_path) == []


def test_an_overview_of_several_workloads_shows_the_hardest_target_of_each(tmp_path):
    for index in range(2):
        write_run(tmp_path, "ssd", index, workload="ssd", targets={"map": 0.2})
        write_run(tmp_path, "easy", index, targets={"hr_at_10": 0.5}, qualities=(0.65,))
    write_run(tmp_path, "ncf-1", seconds_per_epoch=3.0)
    write_run(tmp_path, "ncf-2", seconds_per_epoch=2.0, devices=2)
    times, speedups = matrices(tmp_path)
    assert list(times.table.to_frame().columns) == [
        "devices",
        "NCF, seconds",
        "SSD, seconds",
        "notes",
    ]
    assert times.table.to_frame()["NCF, seconds"].tolist() == [9.0, 6.0]
    assert "1 further result" in times.below[0]
    assert speedups.table.to_frame()["NCF, speedup"].tolist() == [1.5]


def test_profiles_modes_and_update_rules_have_separate_overviews(tmp_path):
    for devices in (1, 2):
        write_run(tmp_path, f"a{devices}", devices=devices)
        write_run(tmp_path, f"b{devices}", devices=devices, profile="reference", labels=[])
        write_run(tmp_path, f"c{devices}", devices=devices, update="async")
        write_run(tmp_path, f"d{devices}", devices=devices, stop="epochs:2")
        for name, settings in {
            "a": {},
            "b": {"profile": "reference"},
            "c": {"update": "async"},
            "d": {"stop": "epochs:2"},
        }.items():
            write_run(
                tmp_path, f"{name}{devices} mxnet", devices=devices, framework="mxnet", **settings
            )
    titles = [
        section.title.removeprefix("Overview: ") for section in matrices(tmp_path) if section.title
    ]
    reached = [
        f"time to target, {kind}, NCF"
        for kind in ("reference", "asynchronous updates, demo", "demo")
    ]
    assert titles == [*reached, "throughput (train), demo, NCF"]


def test_common_labels_are_above_the_table_and_labels_of_single_results_in_notes(tmp_path):
    write_run(tmp_path, "a", condition={"busy": ["others took 48 % of its cores"]})
    write_run(tmp_path, "b", devices=2)
    write_run(tmp_path, "c", framework="mxnet")
    times, _ = matrices(tmp_path)
    assert dict(times.facts)["All results"] == "cpu, demo"
    notes = dict(
        zip(times.table.to_frame()["framework"], times.table.to_frame()["notes"], strict=True)
    )
    assert notes == {
        "MXNet": (),
        "PyTorch": ("1 device: busy machine: others took 48 % of its cores",),
    }


def test_costs_have_a_separate_table(tmp_path):
    for devices in (1, 2):
        write_run(tmp_path, str(devices), devices=devices, seconds_per_epoch=6.0 / devices)
        write_run(tmp_path, f"mxnet {devices}", devices=devices, framework="mxnet")
    *_, costs = matrices(tmp_path, parse_prices("2"))
    costs_of = {framework: [on_one, on_two] for framework, on_one, on_two, _ in costs.table.rows}
    assert costs_of["PyTorch"] == pytest.approx([18 / 3600 * 2, 2 * 9 / 3600 * 2])
    assert costs_of["MXNet"] == pytest.approx([6 / 3600 * 2, 2 * 6 / 3600 * 2])


def test_the_published_overview_has_a_row_for_each_kind_of_accelerator():
    published = published_results()
    times, ratios = published_overview(
        [row for row in published if row.round == "v0.7" and row.devices == 8]
    )
    found = dict(
        zip(
            times.table.to_frame()["accelerator"],
            times.table.to_frame()["ResNet-50, seconds"],
            strict=True,
        )
    )
    assert found["A100"] == pytest.approx(33.37 * 60, rel=1e-3)
    assert found["V100"] == pytest.approx(68.82 * 60, rel=1e-3)
    ratio = dict(
        zip(
            ratios.table.to_frame()["accelerator"],
            ratios.table.to_frame()["ResNet-50, speedup"],
            strict=True,
        )
    )
    assert ratio["A100"] == pytest.approx(
        found["V100 SXM"] / found["A100"]
    )  # V100 SXM is the slowest accelerator of this round.
    closed = [row for row in published if row.devices == 8 and row.division == "closed"]
    rounds = [row for row in published if row.round in {row.round for row in closed}]
    fastest = {}
    for row in closed:
        name = (row.round, accelerator_name(row.device_name), row.workload)
        fastest[name] = min(fastest.get(name, row.seconds), row.seconds)
    table_of_all = (
        published_overview(rounds)[0].table.to_frame().set_index(["round", "accelerator"])
    )
    for (name, accelerator, workload), seconds in fastest.items():
        assert table_of_all.loc[
            (name, accelerator), f"{short_title(workload)}, seconds"
        ] == pytest.approx(seconds)


def test_machines_without_accelerators_are_not_compared():
    """Systems without accelerators have no device count, so they may be of any size."""
    cpus = [row for row in published_results() if not row.devices and row.round != "dgx1-article"]
    assert published_overview(cpus) == []
