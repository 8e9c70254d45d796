"""A framework of a plugin, which the suite does not mention, works in every command."""

import os
import sys
from importlib.util import find_spec

import pytest

from suite.cli import COMMANDS
from suite.common import registry
from suite.environments import containers
from suite.launch.registered_frameworks import registered_frameworks, title_of
from suite.results.names import framework_name
from suite.results.render.html.charts import framework_slots
from tests.helpers import PROJECT, TOY, run_suite_here, suite_here
from workloads.zoo import stock

MODULE = """
import dataclasses
import toy
from workloads.api import TrainerInfo

QUARTZ = dataclasses.replace(
    toy.PLAIN, name="quartz", title="Quartz Framework", colour=5, tuning_variables=("QUARTZ_",),
    max_error_vs_float64={"sgd": 1.25e-7},
)
TRAINERS = {"toy": TrainerInfo("toy:ToyTrainer", precisions=("fp32", "bf16"))}
"""
POINTS = (
    "[suite.frameworks]\nquartz = quartz:QUARTZ\n\n[suite.trainers]\nquartz = quartz:TRAINERS\n"
)
RUN = ("workload=toy", "framework=quartz", "profile=demo", "device=cpu")
EXPORTS = (0, "toy-quartz") if find_spec("tensorboard") else (2, "tensorboard is not installed")
"""Exit code and output of the export; TensorBoard is an optional dependency."""
STEPS = [
    (("report", "LOGS"), 0, "Quartz Framework"),
    (("report", "LOGS", "--html", "OUT"), 0, "with Quartz Framework"),
    (("compare", "LOGS", "--to-logs", "LOGS"), 2, "both sides are the same results"),
    (("check", "LOGS"), 1, "benchmark of the ruleset"),  # toy is not an MLPerf benchmark
    (("export", "tensorboard", "LOGS", "--output", "OUT"), *EXPORTS),
    (("advise", "LOGS"), 0, "workload=toy framework=quartz"),
    (("scaling", "LOGS", "--devices", "4"), 2, "toy in quartz on local"),
    (("tables", "LOGS"), 0, "toy in quartz on local"),
    (("published", "list", "--framework", "quartz"), 2, ""),
    (("doctor", "--framework", "quartz", "--device", "cpu"), 0, "memory"),
    (("env", "list"), 0, "torch"),
    (("data", "list"), 0, "toy-demo"),
    (("package", "LOGS", "OUT"), 2, "is of profile demo"),
    (("run", *RUN, "dry_run=true"), 0, "quartz"),
    (("run", "workload=toy", "--help"), 0, "quartz (fp32, bf16)"),
    (("run", "workload=ncf", "framework=quartz"), 2, "quartz"),
]
"""Arguments of a command, its exit code, and text that it prints."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the environment variables of commands that find the framework.

    This process finds the framework too until the end of the module.
    """
    folder = tmp_path_factory.mktemp("quartz")
    info = folder / "quartz-1.0.dist-info"
    info.mkdir()
    (folder / "quartz.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quartz\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    paths = [str(folder), str(TOY)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*paths, *sys.path])
        registry.refresh()
        yield {
            "PYTHONPATH": os.pathsep.join([*paths, str(PROJECT)]),
            "SUITE_DATA_DIR": str(folder / "data"),
        }
    sys.modules.pop("quartz", None)
    registry.refresh()


@pytest.fixture(scope="module")
def logs(tmp_path_factory, installed):
    """Return the folder with a run in each precision of the framework."""
    folder = tmp_path_factory.mktemp("runs")
    run_suite_here(folder, "-m", *RUN, "precision=fp32,bf16", **installed, exits=0)
    return folder / "logs"


@pytest.mark.parametrize(
    ("arguments", "exits", "text"),
    STEPS,
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_every_command_supports_the_framework(tmp_path, installed, logs, arguments, exits, text):
    paths = {"LOGS": logs, "OUT": tmp_path / "out"}
    done = suite_here(
        tmp_path, *(paths.get(word, word) for word in arguments), **installed, exits=exits
    )
    page = paths["OUT"].read_text() if paths["OUT"].is_file() else ""
    assert text in done.stdout + done.stderr + page
    assert "Traceback" not in done.stderr


def test_every_command_is_tested():
    assert {arguments[0] for arguments, *_ in STEPS} == set(COMMANDS)


def test_the_properties_of_the_framework_are_used(installed, monkeypatch):
    assert registered_frameworks()["quartz"].max_error_vs_float64 == {"sgd": 1.25e-7}
    assert (title_of("quartz"), title_of("unknown")) == ("Quartz Framework", "unknown")
    assert framework_name("NVIDIA Quartz 21.3") == "quartz"
    slots = framework_slots(["quartz", "aaa"])
    assert slots["quartz"] == 5
    assert len(set(slots.values())) == len(slots)
    monkeypatch.setenv("QUARTZ_FLAGS", "fast")
    assert containers.passed_variables()["QUARTZ_FLAGS"] == "fast"


def test_a_framework_without_stock_networks_is_refused_in_one_line():
    with pytest.raises(
        ValueError, match=r"stock: not supported with framework=quartz\. Set .*=suite"
    ):
        stock.check("quartz", "vgg16", 224, 224, "fp32")
