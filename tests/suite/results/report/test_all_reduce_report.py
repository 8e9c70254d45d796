"""All-reduces in reports: a table and a figure of their own, and no place among results of training."""

import csv
import io
import json

import pytest

from suite.results.html.page import write_html
from suite.results.html.study_figures import all_reduce_charts
from suite.results.logs.collect import collect
from suite.results.report.all_reduce import all_reduce_table, row_names, split
from suite.results.report.report import report_csv, report_text
from suite.results.report.study_columns import row_value
from suite.results.score.groups import rows
from suite.results.score.measurement import measurements
from tests.suite.results.fake_logs import write_run

ALPHA, BANDWIDTH = 40e-6, 2e9
SIZES = [1024 * 4**power for power in range(6)]


def write_sums(root, job="sums", devices=2, alpha=ALPHA, bandwidth=BANDWIDTH, sizes=SIZES, **options):
    """A run of all-reduces whose times are those of a ring exactly."""
    timed = [
        {"bytes": size, "count": 20, "median_us": seconds * 1e6, "mean_us": seconds * 1.1e6}
        for size in sizes
        for seconds in [2 * (devices - 1) * (alpha + size / devices / bandwidth)]
    ]
    event = {"devices": devices, "warmups": 5, "how": "a clock", "sizes": timed}
    run = {"workload": "allreduce", "devices": devices, "profile": "synthetic", "labels": ["synthetic", "cpu"]}
    run |= {"stop": "epochs:1", "targets": {}, "qualities": (None,), "batch_size_global": SIZES[-1], **options}
    folder = write_run(root, job, keys={"suite_all_reduce": event}, **run)
    (folder / "topology.json").write_text(json.dumps({"cpu": {"sockets": 1}}))
    return folder


def test_table_and_fit_stand_in_a_section_of_their_own(tmp_path):
    write_sums(tmp_path)
    text = report_text([tmp_path])
    assert "## All-reduce" in text
    assert "bus bandwidth that × 2 (n − 1) / n" in text.replace("\n", " ")
    assert "α 40 ± " in text
    assert "synthetic" in text
    (row,) = rows(collect([tmp_path]))
    table = all_reduce_table([row])
    assert [cells[1] for cells in table.body] == ["1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"]
    last = dict(zip(table.header, table.body[-1], strict=True))
    seconds = 2 * (ALPHA + (1 << 20) / 2 / BANDWIDTH)
    assert float(last["µs"]) == pytest.approx(seconds * 1e6, rel=1e-3)
    assert (
        float(last["bus GB/s"]) == float(last["algorithm GB/s"]) == pytest.approx((1 << 20) / seconds / 1e9, rel=1e-2)
    )
    assert "link asked for: auto, topology.json shows one machine, 1 socket" in table.footer[0]


def test_large_figures_are_written_out_and_rows_of_one_name_told_apart(tmp_path):
    busy = {"busy": ["others took 48 % of its cores"]}
    write_sums(tmp_path, "small", alpha=6e-3)
    write_sums(tmp_path, "large", sizes=[*SIZES, 1 << 22], batch_size_global=1 << 22)
    write_sums(tmp_path, "other", sizes=[*SIZES, 1 << 22], batch_size_global=1 << 22, condition=busy)
    table = rows(collect([tmp_path]))
    text = " ".join(report_text([tmp_path]).split())
    assert "e+" not in text
    assert "| 12,001 |" in text
    assert "α 6,000 ± " in text
    names = row_names(table)
    assert len(set(names)) == len(names) == 2
    assert sorted(names) == [f"pytorch, 2 devices, fp32, laptop, up to {size} MiB" for size in (1, 4)]
    assert "Labels: cpu, synthetic." in text
    assert "1 socket; busy machine (1 of 2 runs): others took 48 % of its cores" in text
    again = row_names([*table, *table])
    assert len(set(again)) == len(again)


def test_no_other_table_and_no_measurement_has_it(tmp_path):
    write_sums(tmp_path)
    write_run(tmp_path, "trains")
    text = report_text([tmp_path])
    assert text.count("allreduce") == 0, "every other table and heading is of what trains"
    table = rows(collect([tmp_path]))
    assert [row.group.workload for row in split(table)[0]] == ["allreduce"]
    assert [item.workload for item in measurements(table)] == ["ncf"]
    assert [line["workload"] for line in csv.DictReader(io.StringIO(report_csv([tmp_path])))] == ["ncf"]


def test_columns_of_the_study(tmp_path):
    write_sums(tmp_path, devices=4)
    (row,) = rows(collect([tmp_path]))
    assert row_value(row, "α µs") == pytest.approx(40.0)
    assert row_value(row, "B GB/s") == pytest.approx(2.0)
    assert row_value(row, "latency µs") == pytest.approx(6 * (40 + 1024 / 4 / 2e3))
    assert row_value(row, "fit off by %") == pytest.approx(0.0, abs=1e-6)
    write_run(tmp_path, "trains")
    trains = next(row for row in rows(collect([tmp_path])) if not row.all_reduces)
    assert row_value(trains, "α µs") is row_value(trains, "bus GB/s") is None


def test_the_page_has_the_figure(tmp_path):
    write_sums(tmp_path / "logs")
    write_sums(tmp_path / "logs", "four", devices=4)
    page = tmp_path / "page.html"
    write_html([tmp_path / "logs"], page)
    text = page.read_text()
    assert "All-reduce: bus bandwidth over size" in text
    (chart,) = all_reduce_charts(rows(collect([tmp_path / "logs"])), {})
    assert [one.label for one in chart.series] == [
        "pytorch, 2 devices, fp32, laptop",
        "pytorch, 4 devices, fp32, laptop",
    ]
    assert all(len(path) == len(SIZES) for one in chart.series for path in one.paths)
