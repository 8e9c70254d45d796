"""Studies from logs: order of cells, cells that could not run, ratios, fits of steps, prices."""

import json

import pytest

from suite.results.predict.fits import fit_steps
from suite.results.price import parse_prices
from suite.results.render.document import section_markdown
from suite.results.table import read_runs
from suite.results.views.study_view import SMALL, fits, sections, studies, study_section
from testing.fake_logs import demo_log, line, write, write_run
from tests.suite.results.rows import lines

FIXED = {"stop": "steps:10", "qualities": (None,), "samples": 1010}


def plan(root, cells, **more):
    described = {"study": "own", "sentence": "What it is.", "size": "full", **more}
    (root / "study-own.json").write_text(json.dumps({**described, "cells": cells}))


def cell(job, shown="–", reason="", **values):
    return {"job": job, "values": values, **({"shown": shown, "reason": reason} if reason else {})}


def run(root, job, cell=(), **options):
    return write_run(root, job, **{**FIXED, "study": "own", "study_cell": list(cell), **options})


def only(root, prices=None):
    (result,) = studies(read_runs(root))
    return study_section(result, prices)


def shown(root, *names, prices=None):
    """Return the named columns of the only study, row by row.

    A study without a plan file gets a plan with these columns.
    """
    if not list(root.glob("study-*")):
        plan(root, [], table={"columns": list(names), "fit": True})
    return [tuple(getattr(row, name) for name in names) for row in lines(only(root, prices).table)]


def test_cells_are_in_the_order_of_the_plan_with_reasons_for_missing_figures(tmp_path):
    # Two logs with the same start, seed, and settings would be copies of the same run.
    run(tmp_path, "two", samples=2000, start=9)
    run(tmp_path, "one", samples=1000)
    run(
        tmp_path,
        "dead",
        log=False,
        status={"status": "oom", "reason": "process 0 was killed by the kernel"},
    )
    run(tmp_path, "ill", log=False, status={"status": "failed", "reason": "no such data"})
    cells = [
        *(
            cell("one", gpus="1"),
            cell("two", gpus="2"),
            cell("big", "OOM", "too large by far", gpus="3"),
        ),
        *(cell("more", "–", "this machine shows 2", gpus="9"), cell("later", gpus="4")),
        *(cell("dead", gpus="5"), cell("ill", gpus="6")),
    ]
    plan(
        tmp_path,
        cells,
        table={"columns": ["samples/s", "ms/step", "no such column", {"hostile": 1}]},
    )
    assert list(only(tmp_path).table.columns) == ["gpus", "status", "samples/s", "ms/step", "notes"]
    assert [row[:3] for row in shown(tmp_path, "gpus", "status", "samples/s")] == [
        *(
            ("1", "measured", 1000),
            ("2", "measured", 2000),
            ("3", "OOM", None),
            ("9", "not possible", None),
        ),
        *(("4", "not run", None), ("5", "OOM", None), ("6", "failed", None)),
    ]
    text = section_markdown(only(tmp_path))
    assert all(
        reason in text
        for reason in ("too large by far", "killed by the kernel", "no such data", "shows 2")
    )


def test_a_study_without_a_plan_keeps_the_order_of_the_keys_in_the_logs(tmp_path):
    for count in (1, 2):
        run(
            tmp_path,
            f"d{count}",
            [f"workload=ncf{count}", f"gpus={count}"],
            devices=count,
            samples=1000 * count,
        )
    assert only(tmp_path).title == "Study own: ncf on laptop (demo)"
    assert list(only(tmp_path).table.columns)[:2] == ["workload", "gpus"]
    assert shown(tmp_path, "gpus", "samples/s") == [("1", 1000), ("2", 2000)]


def test_studies_of_the_same_title_are_distinguished_by_their_folders(tmp_path):
    for name in ("monday", "tuesday"):
        run(tmp_path / name, "one", ["gpus=1"], start=len(name))
    assert [section.title.rpartition(", in ")[2] for section in sections(read_runs(tmp_path))] == [
        "monday",
        "tuesday",
    ]


def test_hostile_cells_stay_text_and_hide_no_column(tmp_path):
    run(
        tmp_path,
        "one",
        ["gpus=1\x1b[2J", "<script>|`x\nINJECTED=v\n# Heading", "samples/s=7", "notes=abc"],
    )
    text = section_markdown(only(tmp_path))
    assert shown(tmp_path, "samples/s") == [(1010,)]
    assert not any(raw in text for raw in ("\x1b", "<script>", "\nINJECTED", "\n# Heading"))


ODD = (
    "[1, 2",
    "[]",
    "{}",
    '{"study": 3, "cells": [{"job": 1}]}',
    '{"study": "own", "cells": "x", "sentence": [1]}',
)


@pytest.mark.parametrize("content", ODD)
def test_a_damaged_plan_is_ignored(tmp_path, content):
    run(tmp_path, "one", ["gpus=1"])
    (tmp_path / "study-own.json").write_text(content)
    assert shown(tmp_path, "samples/s") == [(1010,)]
    write_run(tmp_path / "other", "job", **FIXED)
    (tmp_path / "other" / "study-own.json").write_text(content)
    assert studies(read_runs(tmp_path / "other")) == []


def test_a_row_notes_the_settings_that_differ_in_addition_to_the_axis(tmp_path):
    for count in (1, 2):
        version = "2.10.0" if count == 2 else "2.11.0"
        run(
            tmp_path,
            f"d{count}",
            [f"gpus={count}"],
            devices=count,
            framework_version=version,
            global_batch_size=64 * count,
            keys={"opt_base_learning_rate": 0.1 * count},
        )
    run(
        tmp_path,
        "d2",
        ["gpus=2"],
        index=1,
        devices=2,
        device_name="Another CPU",
        global_batch_size=128,
    )
    notes = [row_notes for (row_notes,) in shown(tmp_path, "notes")]
    assert notes == [("",), ("version 2.10.0",), ("hardware Another CPU",)]


def test_common_labels_are_above_the_table_and_the_rest_in_the_notes_of_their_rows(tmp_path):
    run(
        tmp_path, "one", ["update.kind=sync"], condition={"busy": ["others took 48 % of its cores"]}
    )
    run(tmp_path, "two", ["update.kind=async"], labels=["async", "cpu", "demo"], update="async")
    plan(tmp_path, [], size="ci")
    assert only(tmp_path).above == ("What it is.", SMALL)
    assert only(tmp_path).facts == (("Labels", "cpu, demo"), ("Devices", "Some CPU"))
    assert [row_notes[0] for (row_notes,) in shown(tmp_path, "notes")] == [
        "busy machine: others took 48 % of its cores",
        "async",
    ]


def test_steps_are_fitted_and_a_doubled_batch_may_take_more_than_twice_as_long(tmp_path):
    """Reproduce the times of an article on four GPUs (VGG, GTX 1080).

    It prints 420.28 ms for 64 samples and 899.86 ms for 128. A block of the logs ends at step 101.
    """
    for batch, each in {32: 0.25, 64: 0.42028, 128: 0.89986}.items():
        run(
            tmp_path,
            f"b{batch:03}",
            [f"batch=per_device:{batch}"],
            batch_rule=f"per_device:{batch}",
            global_batch_size=batch,
            samples=101 * batch,
            train_seconds=101 * each,
        )
    assert shown(tmp_path, "t(2b)/2t(b)", "ms/sample") == [
        (None, 250 / 32),
        (pytest.approx(0.8406, abs=1e-4), pytest.approx(420.28 / 64)),
        (pytest.approx(1.0705, abs=1e-4), pytest.approx(899.86 / 128)),
    ]
    ((name, fit),) = fits(studies(read_runs(tmp_path))[0])
    assert (name, fit) == ("", fit_steps([(32, 0.25), (64, 0.42028), (128, 0.89986)]))
    assert only(tmp_path).below[0].startswith("step = ")


def test_speedups_refer_to_the_fewest_devices_with_the_same_remaining_keys(tmp_path):
    for framework, rate in (("pytorch", 1000), ("mxnet", 500)):
        for count in (2, 8):
            run(
                tmp_path,
                f"{framework}{count}",
                [f"gpus={count}", f"framework={framework}"],
                framework=framework,
                devices=count,
                samples=rate * (1 if count == 2 else 3),
            )
    of_mxnet, of_pytorch = [(1, 1, 1), (3, 0.75, 3)], [(1, 1, 2), (3, 0.75, 6)]
    assert shown(tmp_path, "speedup", "per device", "over first") == [*of_mxnet, *of_pytorch]


def test_times_of_single_steps_and_a_tiny_share_of_waiting_are_shown(tmp_path):
    figures = {
        "count": 7,
        "mean_ms": 5.0,
        "sd_ms": 0.5,
        "median_ms": 4.9,
        "p90_ms": 6.0,
        "p99_ms": 7.0,
    }
    lines = demo_log(
        **FIXED, study="own", study_cell=["mode=forward"], mode="forward", timing_each="steps"
    )
    lines.insert(-1, line(1900, "suite_step_times", {**figures, "how": "a wait after each step"}))
    lines = [
        text.replace('"data_wait_seconds": 0.5', '"data_wait_seconds": 9e-05') for text in lines
    ]
    write(tmp_path / "one" / "run_0" / "result_0.txt", lines)
    names = ("ms mean", "sd", "median", "p90", "p99", "steps", "ms/step", "data wait")
    assert shown(tmp_path, *names) == [(5, 0.5, 4.9, 6, 7, 7, 5, pytest.approx(9e-5))]
    assert only(tmp_path).below == ("Each step was timed separately with a wait after each step.",)
    assert "| below 0.1 % |" in section_markdown(only(tmp_path))


def test_telemetry_and_memory_metrics_are_shown(tmp_path):
    folder = run(tmp_path, "one", ["gpus=1"], samples=100)
    gpus = {"gpu_percent": [80, 90], "gpu_power_watts": [100, 100]}
    samples = [{"seconds": at, **gpus, "run_memory_bytes": at * 10**9} for at in (0, 1, 2)]
    (folder / "telemetry.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    (folder / "metrics.jsonl").write_text(
        '{"memory_peak_bytes": 3000000000}\n{"memory_peak_bytes": 2000000000}\n'
    )
    assert shown(tmp_path, "GPU %", "memory GB", "host GB", "W", "J/sample") == [
        pytest.approx((85, 3, 2, 200, 4))
    ]


def test_costs_are_shown_only_with_a_price(tmp_path):
    run(tmp_path, "one", ["gpus=1"], samples=1000, devices=2, seconds_per_epoch=3600)
    assert "cost" not in only(tmp_path).table
    # The run takes two devices for an hour. A million samples take 1,000 s.
    assert shown(tmp_path, "cost", "cost/million", prices=parse_prices("3")) == [
        pytest.approx((6, 5 / 3))
    ]
    run(
        tmp_path,
        "two",
        ["gpus=2"],
        samples=1000,
        devices=2,
        seconds_per_epoch=3600,
        price_per_device_hour="3",
    )
    assert [cost for (cost,) in shown(tmp_path, "cost")] == [None, 6]


def test_the_minutes_of_the_article_are_shown_next_to_reference_runs(tmp_path):
    for count in (1, 8):
        run(
            tmp_path,
            f"d{count}",
            [f"gpus={count}"],
            devices=count,
            profile="reference",
            labels=[],
            stop="target",
            qualities=(0.3, 0.65),
            keys={},
        )
    assert [minutes for (minutes,) in shown(tmp_path, "article minutes")] == pytest.approx(
        [1.76, 0.63], abs=0.005
    )
