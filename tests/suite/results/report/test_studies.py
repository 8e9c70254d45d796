"""Tables of studies from logs: cells in order, what could not run, ratios, fitted steps, prices."""

import json

import pytest

from suite.results.logs.collect import collect, skipped
from suite.results.report.report import report_text
from suite.results.report.studies import fits, number_text, study_table, study_texts
from suite.results.report.study_columns import COLUMNS, column_names
from suite.results.report.study_lines import study_results
from suite.results.score.price import parse_prices
from tests.suite.results.fake_logs import demo_log, line, write, write_run

FIXED = {"stop": "steps:10", "qualities": (None,), "samples": 1010}


def plan(root, cells, keys=("batch",), **more):
    described = {"study": "own", "sentence": "What it is.", "size": "full", "keys": list(keys), **more}
    (root / "study-own.json").write_text(json.dumps({**described, "cells": cells}))


def cell(job, reason="", shown="–", **values):
    values = {key.replace("__", "."): value for key, value in values.items()}
    return {"job": job, "values": values, **({"shown": shown, "reason": reason} if reason else {})}


def run(root, job, cell=(), **options):
    return write_run(root, job, **{**FIXED, "study": "own", "study_cell": list(cell), **options})


def batches(root, seconds):
    """One job for each batch; a step of batch b takes seconds[b]. The fake log's block ends at step 101."""
    for batch, each in seconds.items():
        run(root, f"b{batch}", [f"batch=per_device:{batch}"], batch_rule=f"per_device:{batch}", batch_size_global=batch,
            samples=101 * batch, train_seconds=101 * each)  # fmt: skip
    plan(root, [cell(f"b{batch}", batch=f"per_device:{batch}") for batch in seconds], table={"fit": True})


def only_result(root):
    (result,) = study_results(collect([root]))
    return result


def column(result, name):
    table = study_table(result)
    return [cells[table.header.index(name)] for cells in table.body]


def test_cells_stand_in_the_order_of_the_plan_and_say_why_they_have_no_figures(tmp_path):
    run(tmp_path, "two", samples=2000)
    run(tmp_path, "one", samples=1000)
    cells = [
        *(cell("one", gpus="1"), cell("two", gpus="2"), cell("big", "too large by far", "OOM", gpus="3")),
        *(cell("more", "gpus=9: this machine shows 2", gpus="9"), cell("later", gpus="4")),
    ]
    plan(tmp_path, cells, ["gpus"], table={"columns": ["samples/s", "ms/step", "no such column"]})
    table = study_table(only_result(tmp_path))
    assert table.header == ("gpus", "samples/s", "ms/step")
    assert [cells[:2] for cells in table.body] == [
        *(("1", "1,000"), ("2", "2,000"), ("3", "OOM (a)"), ("9", "– (b)"), ("4", "not run")),
    ]
    assert table.footer == ("(a) too large by far", "(b) gpus=9: this machine shows 2")


def test_a_run_that_died_of_memory_is_a_cell_too(tmp_path):
    run(tmp_path, "one")
    run(tmp_path, "two", log=False, status={"status": "oom", "reason": "process 0 was killed by the kernel"})
    plan(tmp_path, [cell("one", gpus="1"), cell("two", gpus="2")], ["gpus"])
    result = only_result(tmp_path)
    assert column(result, "samples/s") == ["1,010", "OOM (a)"]
    assert "- (a) process 0 was killed by the kernel" in report_text([tmp_path])


def test_logs_alone_are_enough(tmp_path):
    for count in (1, 2):
        run(tmp_path, f"d{count}", [f"gpus={count}"], devices=count, samples=1000 * count)
    result = only_result(tmp_path)
    assert (result.name, result.keys) == ("own", ("gpus",))
    assert column(result, "samples/s") == ["1,000", "2,000"]
    assert report_text([tmp_path]).index("## Study own: ncf on laptop (demo)") < report_text([tmp_path]).index(
        "## ncf on laptop"
    )


def test_hostile_cells_and_units_of_a_log_stay_text(tmp_path):
    evil = ["gpus=1\x1b[2J", "<script>|`x\nINJECTED=v\n# Heading"]
    folder = run(tmp_path, "one", evil)
    log = folder / "result_0.txt"
    log.write_text(log.read_text().replace('"throughput":', '"rates": {"<b>tok|`": 5}, "throughput":'))
    text = report_text([tmp_path])
    assert "In &lt;b>tok\\|\\`/s: 5" in text
    assert not any(raw in text for raw in ("\x1b", "<script>", "<b>", "\nINJECTED", "\n# Heading"))
    header = next(line for line in text.splitlines() if line.startswith("| gpus"))
    assert header.startswith("| gpus   | &lt;script>\\|\\`x INJECTED |")


def test_the_plan_is_no_file_that_a_report_skips(tmp_path):
    run(tmp_path, "one", ["gpus=1"])
    plan(tmp_path, [cell("one", gpus="1")])
    assert skipped([tmp_path]) == 0
    (tmp_path / "other.json").write_text("{}")
    assert skipped([tmp_path]) == 1


def test_runs_of_no_study_have_none(tmp_path):
    write_run(tmp_path, "job", **FIXED)
    assert study_results(collect([tmp_path])) == []
    (tmp_path / "study-own.json").write_text("[1, 2")
    assert study_results(collect([tmp_path])) == []


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"study": 3, "cells": [{"job": 1}]}', '{"study": "own", "cells": "x"}']
)
def test_a_damaged_plan_does_no_harm(tmp_path, content):
    run(tmp_path, "one", ["gpus=1"])
    (tmp_path / "study-own.json").write_text(content)
    assert column(only_result(tmp_path), "samples/s") == ["1,010"]


def test_a_line_says_in_what_it_differs_beside_the_axis(tmp_path):
    for count in (1, 2, 4):
        version = "2.10.0" if count == 2 else "2.11.0"
        run(
            tmp_path,
            f"d{count}",
            [f"gpus={count}"],
            devices=count,
            framework_version=version,
            batch_size_global=64 * count,
        )
    table = study_table(only_result(tmp_path))
    assert [cells[1] for cells in table.body] == ["1,010", "1,010 (a)", "1,010"]
    assert table.footer == ("(a) framework version 2.10.0, most others 2.11.0",)


def test_runs_of_a_cell_on_two_machines_keep_their_own_lines(tmp_path):
    run(tmp_path, "one", ["gpus=1"])
    run(tmp_path, "one", ["gpus=1"], index=1, device_name="Another CPU")
    result = only_result(tmp_path)
    assert len(result.lines) == 2
    assert study_table(result).footer == ("(a) device name Some CPU, most others Another CPU",)


def test_steps_are_fitted_where_the_study_asks_for_it(tmp_path):
    batches(tmp_path, {16: 0.005 + 16e-5, 64: 0.005 + 64e-5, 256: 0.005 + 256e-5})
    result = only_result(tmp_path)
    ((name, fit),) = fits(result)
    assert (name, fit.t0, fit.c) == ("", pytest.approx(5e-3), pytest.approx(1e-5))
    assert study_table(result).footer[0].startswith("step = 5 ± ")


def test_a_doubled_batch_that_takes_more_than_twice_as_long(tmp_path):
    """The article on four GPUs prints 420.28 ms for 64 samples and 899.86 for 128 (VGG, GTX 1080)."""
    batches(tmp_path, {32: 0.25, 64: 0.42028, 128: 0.89986})
    plan(tmp_path, [cell(f"b{batch}", batch=f"per_device:{batch}") for batch in (32, 64, 128)],
         table={"columns": ["t(2b)/2t(b)", "ms/step"]})  # fmt: skip
    assert column(only_result(tmp_path), "t(2b)/2t(b)") == ["–", "0.841", "1.07"]


def test_speedups_refer_to_the_fewest_devices_of_the_same_other_keys(tmp_path):
    for framework, rate in (("pytorch", 1000), ("mxnet", 500)):
        for count in (2, 8):
            run(tmp_path, f"{framework}{count}", [f"gpus={count}", f"framework={framework}"], framework=framework,
                devices=count, samples=rate * (1 if count == 2 else 3))  # fmt: skip
    cells = [
        cell(f"{name}{count}", gpus=str(count), framework=name) for name in ("pytorch", "mxnet") for count in (2, 8)
    ]
    plan(tmp_path, cells, table={"columns": ["speedup", "per device", "over first"]})
    result = only_result(tmp_path)
    assert column(result, "speedup") == ["1", "3", "1", "3"]
    assert column(result, "per device") == ["1", "0.75", "1", "0.75"]
    assert column(result, "over first") == ["1", "3", "0.5", "1.5"]


def test_times_of_single_steps(tmp_path):
    figures = {"count": 7, "mean_ms": 5.0, "sd_ms": 0.5, "median_ms": 4.9, "p90_ms": 6.0, "p99_ms": 7.0}
    lines = demo_log(**FIXED, study="own", study_cell=["mode=forward"], mode="forward", timing_each="steps")
    lines.insert(-1, line(1900, "suite_step_times", {**figures, "how": "a wait after each step"}))
    write(tmp_path / "one" / "run_0" / "result_0.txt", lines)
    plan(
        tmp_path,
        [cell("one", mode="forward")],
        table={"columns": ["ms mean", "sd", "median", "p90", "p99", "steps", "ms/step"]},
    )
    table = study_table(only_result(tmp_path))
    assert table.body == (("forward", "5", "0.5", "4.9", "6", "7", "7", "5"),)
    assert table.footer == ("Each step was timed by itself, by a wait after each step.",)


def test_what_telemetry_and_metrics_recorded(tmp_path):
    folder = run(tmp_path, "one", ["gpus=1"], samples=100)
    rows = [
        {"seconds": at, "gpu_percent": [80, 90], "gpu_power_watts": [100, 100], "run_memory_bytes": at * 10**9}
        for at in (0, 1, 2)
    ]
    (folder / "telemetry.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "metrics.jsonl").write_text('{"memory_peak_bytes": 3000000000}\n{"memory_peak_bytes": 2000000000}\n')
    plan(tmp_path, [cell("one", gpus="1")], table={"columns": ["GPU %", "memory GB", "host GB", "W", "J/sample"]})
    assert study_table(only_result(tmp_path)).body == (("1", "85", "3", "2", "200", "4"),)


def test_cost_only_where_there_is_a_price(tmp_path):
    run(tmp_path, "one", ["gpus=1"], samples=1000, devices=2, seconds_per_epoch=3600)
    assert "cost" not in study_table(only_result(tmp_path)).header
    table = study_table(only_result(tmp_path), parse_prices("3"))
    assert table.header[-2:] == ("cost", "cost/million")
    assert table.body[0][-2:] == ("6", "1.67")  # 2 devices for an hour; a million samples take 1,000 s
    run(tmp_path, "two", ["gpus=2"], samples=1000, devices=2, seconds_per_epoch=3600, price_per_device_hour="3")
    assert column(only_result(tmp_path), "cost") == ["–", "6"]


def test_the_article_s_minutes_stand_beside_reference_runs(tmp_path):
    for count in (1, 8):
        run(tmp_path, f"d{count}", [f"gpus={count}"], devices=count, profile="reference", labels=[], stop="target",
            qualities=(0.3, 0.65), keys={})  # fmt: skip
    plan(
        tmp_path,
        [cell(f"d{count}", gpus=str(count)) for count in (1, 8)],
        table={"columns": ["minutes", "article minutes"]},
    )
    assert column(only_result(tmp_path), "article minutes") == ["1.76", "0.63"]


def test_small_studies_and_labels_are_said(tmp_path):
    run(tmp_path, "one", ["gpus=1"])
    plan(tmp_path, [cell("one", gpus="1")], size="ci")
    text = report_text([tmp_path])
    assert "What it is." in text
    assert "Small version of the study" in text
    assert "Labels: cpu, demo." in text


def test_labels_of_single_lines_mark_these_lines(tmp_path):
    run(tmp_path, "one", ["update.kind=sync"], condition={"busy": ["others took 48 % of its cores"]})
    run(tmp_path, "two", ["update.kind=async"], labels=["async", "cpu", "demo"])
    result = only_result(tmp_path)
    assert "Labels: cpu, demo." in study_texts(result)
    assert column(result, "samples/s") == ["1,010 (a)", "1,010 (b)"]
    assert study_table(result).footer == ("(a) busy machine: others took 48 % of its cores", "(b) async")


def test_names_of_columns():
    assert column_names(None)[:2] == ["samples/s", "ms/step"]
    assert column_names(["W", "<b>", 3, "W"]) == ["W", "cost", "cost/million"]
    assert all(callable(value) for value in COLUMNS.values())
    assert [number_text(value) for value in (None, 0.01234, 12.34, 1234.5)] == ["–", "0.0123", "12.3", "1,234"]
