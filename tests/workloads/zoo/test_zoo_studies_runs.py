"""Studies in their small size as complete runs. All except one have the marker `full`."""

import json
import re

import pytest

from suite.common.study_file import load_study, study_names
from tests.helpers import only, run_suite, suite_here

FIRST = ("batch_size", "fixed_samples", "passes")
REMAINING = tuple(
    name for name in study_names() if name not in (*FIRST, "toy_endings") and load_study(name).table
)


def study_of(tmp_path, name, *overrides):
    """Run a small study.

    Returns:
        The study's folder, its plan, and its section of the report.
    """
    output = tmp_path / name
    done = run_suite(
        tmp_path, f"study={name}", "study.size=ci", f"output={output}", *overrides, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = suite_here(tmp_path, "report", output).stdout
    section = text[text.index("## Study") :].split("\n## ")[0]
    return output, json.loads(only(output.glob("study-*.json")).read_text()), section


def cells_of(section):
    """Return the rows of the section's table without marks of notes, which a busy machine adds."""
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [
        [re.sub(r" \([a-z]\)$", "", cell.strip()) for cell in line.split("|")[1:-1]]
        for line in table
    ]


@pytest.mark.full
def test_batch_size_fits_a_step(tmp_path):
    output, plan, section = study_of(tmp_path, "batch_size")
    assert [cell[0] for cell in cells_of(section)] == ["per_device:8", "per_device:16"]
    assert "- step = " in section
    assert "Two points give no standard error." in section
    assert "small version of the study" in section
    assert all((output / cell["job"] / "run_0" / "status.json").exists() for cell in plan["cells"])
    figures = tmp_path / "figures"
    assert (
        suite_here(
            tmp_path, "report", output, "--html", tmp_path / "a.html", "--figures", figures
        ).returncode
        == 0
    )
    assert [*figures.glob("*-batch-size-samples-s.svg")]


def test_passes_time_each_step(tmp_path):
    _, _, section = study_of(tmp_path, "passes", "workload.model=littlecnn")
    (_, forward, *_), (_, both, *_) = ([cell[0], *cell[1:]] for cell in cells_of(section))
    assert (forward, both) == ("forward", "forward_backward")
    # On a busy machine, a footnote follows the number.
    mean = [float(cell[2].split()[0].replace(",", "")) for cell in cells_of(section)]
    assert mean[1] > mean[0]
    assert "Each step was timed separately with a wait after each step." in section


@pytest.mark.full
def test_fixed_samples_on_one_core_and_on_all(tmp_path):
    _, plan, section = study_of(tmp_path, "fixed_samples")
    assert [cell["values"]["cpu.cores_per_device"] for cell in plan["cells"]] == ["1", "all"]
    assert cells_of(section)[0][-1] == "1"  # The ratio to the first row.


@pytest.mark.full
@pytest.mark.parametrize("name", REMAINING)
def test_every_remaining_study_runs_in_its_small_size(tmp_path, name):
    _, plan, section = study_of(tmp_path, name)
    rows = cells_of(section)
    assert len(rows) == len(plan["cells"])
    measured = [row for row, cell in zip(rows, plan["cells"], strict=True) if "reason" not in cell]
    assert measured
    assert all("OOM" not in row and "failed" not in row for row in measured)
