"""All-reduces in reports: they have a separate table and are not among results of training."""

import json

import pytest

from suite.results.scores import results
from suite.results.table import read_runs
from suite.results.views.all_reduce_view import all_reduce_sections, row_names
from suite.results.views.report_view import report
from testing.fake_logs import write_run

ALPHA, BANDWIDTH = 40e-6, 2e9
SIZES = [1024 * 4**power for power in range(6)]


def write_sums(
    root, job="sums", devices=2, alpha=ALPHA, bandwidth=BANDWIDTH, sizes=SIZES, **options
):
    timed = [
        {"bytes": size, "count": 20, "median_us": seconds * 1e6, "mean_us": seconds * 1.1e6}
        for size in sizes
        for seconds in [2 * (devices - 1) * (alpha + size / devices / bandwidth)]
    ]
    event = {"devices": devices, "warmups": 5, "how": "a clock", "sizes": timed}
    run = {
        "workload": "allreduce",
        "devices": devices,
        "profile": "synthetic",
        "labels": ["synthetic", "cpu"],
    }
    run |= {
        "stop": "epochs:1",
        "targets": {},
        "qualities": (None,),
        "global_batch_size": SIZES[-1],
        **options,
    }
    folder = write_run(root, job, keys={"suite_all_reduce": event}, **run)
    (folder / "topology.json").write_text(json.dumps({"cpu": {"sockets": 1}}))
    return folder


def test_the_section_has_a_table_of_sizes_and_a_fit(tmp_path):
    write_sums(tmp_path)
    (section,) = all_reduce_sections(results(tmp_path))
    assert "bus bandwidth is the algorithm bandwidth × 2 (n − 1) / n" in section.above[0]
    assert section.above[0].endswith("Labels: cpu, synthetic.")
    assert section.table.to_frame()["size_bytes"].tolist() == SIZES
    seconds = 2 * (ALPHA + (1 << 20) / 2 / BANDWIDTH)
    last = section.table.to_frame().iloc[-1]
    assert last["microseconds"] == pytest.approx(seconds * 1e6)
    assert last["bus GB/s"] == last["algorithm GB/s"] == pytest.approx((1 << 20) / seconds / 1e9)
    assert section.below[0].startswith("pytorch, 2 devices, fp32, laptop: α 40 ± ")
    assert "Transport: auto. Links in topology.json: one machine, 1 socket" in section.below[0]


def test_results_of_the_same_name_are_distinguished_and_labeled(tmp_path):
    write_sums(tmp_path, "small")
    for start, condition in enumerate((None, {"busy": ["others took 48 % of its cores"]})):
        large = {"sizes": [*SIZES, 1 << 22], "global_batch_size": 1 << 22, "start": start}
        write_sums(tmp_path, f"large {start}", condition=condition, **large)
    found = results(tmp_path)
    name = "pytorch, 2 devices, fp32, laptop, global batch"
    assert sorted(row_names(found)) == [f"{name} 1,048,576", f"{name} 4,194,304"]
    notes = all_reduce_sections(found)[0].table.to_frame()["notes"]
    assert (
        "busy machine (1 of 2 runs): others took 48 % of its cores"
        in notes.explode().dropna().tolist()[0]
    )


def test_all_reduces_appear_only_in_their_table(tmp_path):
    write_sums(tmp_path)
    write_run(tmp_path, "trains")
    view = report(read_runs(tmp_path), next_steps=False)
    assert [section.title for section in view.sections] == [
        "All-reduce",
        "NCF demo, PyTorch 2.11.0, Some CPU, laptop",
    ]
    assert view.data.to_frame()["workload"].tolist() == ["ncf"]
