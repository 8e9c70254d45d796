"""A framework that no line of the runner names, brought by an entry point, in every command."""

import json
import os
import sys

import pytest

from suite.environments import containers
from suite.launch.known import known, title_of
from suite.results.names import framework_name
from suite.results.render.html.charts import framework_slots
from tests.helpers import PROJECT, TOY, run_suite_here, suite_here
from workloads.zoo import stock

MODULE = """
import dataclasses
import toy

QUARTZ = dataclasses.replace(
    toy.PLAIN, name="quartz", title="Quartz Framework", colour=5, tuning_variables=("QUARTZ_",),
    precisions={"toy": ("fp32", "bf16")}, from_float64={"sgd": 1.25e-7},
    build_query="print('[\\"7.5\\", null, false, []]')",
)
"""
POINTS = "[suite.frameworks]\nquartz = quartz:QUARTZ\n\n[suite.trainers]\ntoy.quartz = toy:ToyTrainer\n"
RUN = ("workload=toy", "framework=quartz", "profile=demo", "device=cpu")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Variables of a command that sees the framework; for the length of the module this process sees it too."""
    folder = tmp_path_factory.mktemp("quartz")
    info = folder / "quartz-1.0.dist-info"
    info.mkdir()
    (folder / "quartz.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quartz\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    paths = [str(folder), str(TOY)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*paths, *sys.path])
        yield {"PYTHONPATH": os.pathsep.join([*paths, str(PROJECT)])}
    sys.modules.pop("quartz", None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, installed):
    """The folder of a command's two runs."""
    folder = tmp_path_factory.mktemp("runs")
    variables = {**installed, "SUITE_DATA_DIR": str(folder / "data")}
    run_suite_here(folder, "-m", *RUN, "precision=fp32,bf16", "oversubscribe=true", **variables, exits=0)
    return folder / "logs"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("report", "LOGS"), "Quartz Framework"),
        (("report", "LOGS", "--html", "OUT.html"), ""),
        (("compare", "LOGS", "--to-logs", "LOGS"), "quartz"),
        (("check", "LOGS"), "10 steps" if False else ""),
        (("advise", "LOGS"), ""),
        (("scaling", "LOGS", "--devices", "4"), ""),
        (("tables", "LOGS"), ""),
        (("published", "--framework", "quartz"), ""),
        (("doctor", "--framework", "quartz", "--device", "cpu"), ""),
        (("env", "list"), ""),
        (("data", "list"), "toy-demo"),
        (("package", "LOGS", "OUT"), ""),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_every_command_takes_it(tmp_path, installed, runs, words, shown):
    places = {"LOGS": str(runs), "OUT": str(tmp_path / "out"), "OUT.html": str(tmp_path / "out.html")}
    done = suite_here(tmp_path, *(places.get(word, word) for word in words), **installed)
    said = done.stdout + done.stderr
    print(words, done.returncode, said)
    assert "Traceback" not in said
