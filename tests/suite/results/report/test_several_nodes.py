import csv
import io

import pytest

from suite.results.html.sections import speedups
from suite.results.logs.collect import collect
from suite.results.report.overview import overview
from suite.results.report.report import report_csv, report_text
from suite.results.report.tables import results_table
from suite.results.score.groups import rows
from suite.results.text import devices_text, placed_text
from tests.suite.results.fake_logs import write_run


def pair(root):
    """The same two devices on one node, in 3 s, and on two, in 4 s."""
    write_run(root, "together", qualities=(0.5, 0.65), seconds_per_epoch=1.5, devices=2, nodes=1)
    write_run(root, "apart", qualities=(0.5, 0.65), seconds_per_epoch=2.0, devices=2, nodes=2)


def test_nodes_times_devices_per_node():
    assert [placed_text(8, nodes) for nodes in (None, 1, 2, 8, 3)] == ["8", "8", "2 × 4", "8 × 1", "8"]
    assert placed_text(8, 1, several=True) == "1 × 8"
    assert (devices_text(1), devices_text(4), devices_text(2, 2)) == ("1 device", "4 devices", "2 × 1 devices")
    assert devices_text(0) == "an unknown number of devices"


def test_rows_of_other_nodes_are_other_rows_and_the_fewest_nodes_are_the_baseline(tmp_path):
    pair(tmp_path)
    one, two = rows(collect([tmp_path]))
    assert (one.place, two.place) == ((2, 1), (2, 2))
    assert one.compared is None
    assert (two.speedup.baseline_devices, two.speedup.baseline_nodes) == (2, 1)
    assert two.compared.total == pytest.approx(3 / 4)


def test_the_text_says_so_and_labels_the_speedup(tmp_path):
    pair(tmp_path)
    text = report_text([tmp_path])
    table = results_table(rows(collect([tmp_path])))
    place = table.header.index("devices")
    assert [cells[place] for cells in table.body] == ["1 × 2", "2 × 1"]
    assert "nodes" not in table.header
    assert "devices: nodes × devices per node." in text
    assert "counts the network between them" in text
    assert "pytorch, 1 × 2 → 2 × 1 devices (across nodes, cpu, demo): " in text


def test_tables_of_one_node_are_as_ever(tmp_path):
    write_run(tmp_path, "a", devices=1)
    write_run(tmp_path, "b", devices=2)
    text = report_text([tmp_path])
    assert " × " not in "".join(cells[1] for cells in results_table(rows(collect([tmp_path]))).body)
    assert "across nodes" not in text
    assert "network" not in text


def test_the_overview_has_a_column_for_each_and_marks_speedups_across_nodes(tmp_path):
    pair(tmp_path)
    (matrix,) = overview(rows(collect([tmp_path])))
    assert matrix.columns == ("2 devices", "2 × 1 devices")
    ((_, (together, apart)),) = matrix.rows
    assert (together.speedup, together.labels) == ("", ())
    assert (apart.speedup, apart.labels) == ("×0.75", ("across nodes",))


def test_the_page_flags_pairs_across_nodes(tmp_path):
    pair(tmp_path)
    write_run(tmp_path, "one", qualities=(0.5, 0.65), seconds_per_epoch=3.0, devices=1, nodes=1)
    table = speedups(rows(collect([tmp_path])))
    places = [cells[table.header.index("devices")] for cells in table.body]
    assert places == ["1 → 2", "1 × 1 → 2 × 1"]
    (flag,) = [line for line in table.footer if "across nodes" in line]
    assert [flag[:3] in cells[0] for cells in table.body] == [False, True]
    assert "nodes=2" in table.body[1][0]


def test_the_csv_names_the_nodes_of_a_row_and_of_its_baseline(tmp_path):
    pair(tmp_path)
    found = list(csv.DictReader(io.StringIO(report_csv([tmp_path]))))
    assert [(row["devices"], row["nodes"], row["baseline_devices"], row["baseline_nodes"]) for row in found] == [
        ("2", "1", "2", "1"),
        ("2", "2", "2", "1"),
    ]
