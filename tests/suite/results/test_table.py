"""Table of runs: types, missing values, files, import cost, and addition of a column."""

import json
import math
import shutil
import subprocess
import sys
import textwrap
from dataclasses import fields

import pandas as pd
import pytest

from suite.results import table
from suite.results.columns import COLUMNS, SCORE_COLUMNS, Run, kind_of
from suite.results.experiment_key import FIELDS
from suite.results.table import read_runs, shareable
from testing.fake_logs import write_run
from tests.helpers import PROJECT

PAGE = PROJECT / "docs" / "reference/report_columns.md"
NOTEBOOK = PROJECT / "docs" / "how-to/analyze_in_a_notebook.md"
TYPES = {
    "text": "object",
    "number": "float64",
    "count": "Int64",
    "flag": "bool",
    "object": "object",
}
KINDS = {item.name: kind_of(item) for item in fields(Run)}


@pytest.fixture
def logs(tmp_path):
    """Write a successful run, a run of fixed length, and a run without a log."""
    write_run(tmp_path, "good")
    write_run(tmp_path, "short", stop="steps:10", qualities=(None,))
    write_run(tmp_path, "dead", log=False, status={"status": "oom", "reason": "too large"})
    return tmp_path


def of_result(name):
    """Return a short description of how a result combines the values of a column."""
    combine = COLUMNS[name].combine
    if combine is not None:
        return {"combined": "ratio of sums", "_mean_rates": "mean", "common_value": "shared"}.get(
            combine.__name__, combine.__name__
        )
    if name in SCORE_COLUMNS:
        return "see below"
    return "shared" if name in FIELDS or name == "hyperparameters" else ""


def columns_text():
    """Return the tables of columns that docs/reference/report_columns.md must contain.

    Settings of one type share a row.
    """
    settings, found = {}, ["| column | of a run | of a result |", "|---|---|---|"]
    for name, column in COLUMNS.items():
        if column.shown and column.text.startswith("Setting "):
            settings.setdefault((KINDS[name], of_result(name)), []).append(f"`{name}`")
        elif column.shown:
            kind = "" if KINDS[name] == "number" else f" ({KINDS[name]})"
            found.append(f"| `{name}`{kind} | {column.text} | {of_result(name)} |")
    found += ["", "| settings of a run ([log format](log_format.md)) | of a result |", "|---|---|"]
    found += [
        f"| {', '.join(names)} ({kind}) | {result} |" for (kind, result), names in settings.items()
    ]
    found += ["", "| column | of a result |", "|---|---|"]
    return "\n".join([*found, *(f"| `{name}` | {text} |" for name, text in SCORE_COLUMNS.items())])


def test_each_column_has_its_type_also_in_tables_of_failed_runs_and_in_empty_tables(logs):
    expected = {name: TYPES[KINDS[name]] for name, column in COLUMNS.items() if column.shown}
    for found in (table(logs), table(logs / "dead"), table()):
        assert {
            name: str(dtype).replace("str", "object") for name, dtype in found.dtypes.items()
        } == expected
    assert (len(table(logs)), len(table())) == (3, 0)


def test_unknown_values_are_nan_in_the_table_and_none_in_a_row(logs):
    found = table(logs).set_index("status")
    assert math.isnan(found.loc["oom", "seconds"])
    dead, good, short = sorted(read_runs(logs), key=lambda row: row.status != "oom")
    assert (dead.seconds, dead.evaluations, dead.devices, dead.reason) == (
        None,
        None,
        None,
        "too large",
    )
    assert (good.seconds, good.epochs, good.devices, good.evaluations) == (6.0, 3.0, 1, 3)
    assert (short.seconds, short.epochs, short.succeeded) == (2.0, None, True)
    values = [value for row in (dead, good, short) for value in vars(row).values()]
    assert not any(
        value is pd.NA or (isinstance(value, float) and math.isnan(value)) for value in values
    )


def test_a_file_holds_the_table(logs, tmp_path):
    shown = shareable(table(logs))
    path = tmp_path / "runs.parquet"
    shown.to_parquet(path)
    back = pd.read_parquet(path)
    assert list(back) == list(shown) == [name for name, column in COLUMNS.items() if column.shown]
    for name, column in COLUMNS.items():
        if column.shown and KINDS[name] in ("number", "count", "flag"):
            pd.testing.assert_series_equal(back[name], shown[name])
    assert back["hyperparameters"].str.contains('"opt_name": "adam"').sum() == 2
    assert list(back["status"]) == list(shown["status"])


def test_columns_of_mixed_values_become_text_that_a_file_holds(tmp_path):
    values = {"batch": ["64 vs 16", 64, None], "seed": [1 << 70, 3, None], "one": [1, 2, None]}
    mixed = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in values.items()})
    shareable(mixed).to_parquet(tmp_path / "mixed.parquet")
    back = {
        name: column.dropna().tolist()
        for name, column in pd.read_parquet(tmp_path / "mixed.parquet").items()
    }
    assert back == {"batch": ["64 vs 16", "64"], "seed": [str(1 << 70), "3"], "one": [1, 2]}


def test_only_a_table_needs_pandas():
    imported = "suite.results, suite.packaging.write, suite.compliance.check_log"
    code = f"import sys, {imported}; assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=True)


def test_a_column_is_added_in_one_place(logs, tmp_path):
    """Add the field of docs/dev/add_a_column.md to a copy of the suite.

    The column must appear in runs, results, files, and the tables of reports and studies.
    """
    shutil.copytree(
        PROJECT / "suite", tmp_path / "suite", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(PROJECT / "conf", tmp_path / "conf")
    page = (PROJECT / "docs" / "dev" / "add_a_column.md").read_text()
    columns = tmp_path / "suite" / "results" / "columns.py"
    before, eval_loss, after = columns.read_text().partition("    eval_loss: float | None =")
    field = textwrap.indent(page.split("```")[1].removeprefix("python"), "    ")
    columns.write_text(f"{before}{field}{eval_loss}{after}")
    write_run(logs / "good", "study", start=9, study="own", study_cell=["gpus=1"])
    plan = {"study": "own", "cells": [], "table": {"columns": ["twice", "× 2"]}}
    (logs / "good" / "study-own.json").write_text(json.dumps(plan))
    code = f"""
import csv, io
from suite.results import table
from suite.results.render.document import document
from suite.results.scores import results_table
from suite.results.table import read_runs
from suite.results.views.report_view import report

place = {str(logs / "good")!r}
runs = read_runs(place)
print(table(place)["twice"].max(), results_table(place)["twice"].max())
print([row["twice"] for row in csv.DictReader(io.StringIO(document(report(runs), "csv")))])
print(document(report(runs)))
"""
    environment = {"PYTHONPATH": f"{tmp_path}:{PROJECT}"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, env=environment, capture_output=True
    )
    values, listed, *text = done.stdout.decode().split("\n")
    assert (values, listed) == ("12.0 12.0", "['12.0']")
    study, reported = (line.strip("| ").split("|") for line in text if "× 2" in line)
    assert [name.strip() for name in study[-2:]] == ["× 2", "× 2"]
    assert "× 2" in [name.strip() for name in reported]


def test_the_page_for_notebooks_lists_every_column():
    """Print the expected tables with `python -m tests.suite.results.test_table`."""
    assert columns_text() in PAGE.read_text()


def test_the_plot_example_of_the_notebook_page_writes_a_png(logs, tmp_path):
    parts = [part.partition("```")[0] for part in NOTEBOOK.read_text().split("```python\n")[1:]]
    code = next(part for part in parts if "vegalite_to_png" in part)
    assert len(code.splitlines()) <= 12
    write_run(tmp_path / "logs", "good")
    environment = {"PYTHONPATH": str(PROJECT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env=environment)
    assert (tmp_path / "time_to_target.png").read_bytes().startswith(b"\x89PNG")


if __name__ == "__main__":
    print(columns_text())
