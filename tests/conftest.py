"""Configuration of all tests: Hypothesis profiles, markers, scheduling, and generated data."""

import collections
import fcntl
import functools
import gc
import itertools
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from suite.common import registry
from testing.machines.fixtures import (  # noqa: F401, fixtures of all tests
    machines,
    machines_of_module,
)
from tests.helpers import PROFILES
from workloads.api.fingerprints import FINGERPRINTS, PUBLISHED_DATASETS

FRAMEWORK_PATHS = (
    "frameworks/test_*.py",
    "gpu/test_*.py",
    "gpu_paths/test_*.py",
    "workloads/test_*_trainers.py",
    "workloads/frameworks/*/test_*.py",
    "workloads/*/test_*_frameworks.py",
    "workloads/*/test_*_runs.py",
)
"""Files whose tests run in the frameworks' environments.

Single framework tests in the remaining files have the mark `framework`.
"""
SHORT_IN_JAX = (
    "golden/test_*.py",
    "workloads/allreduce/test_*.py",
    "workloads/frameworks/test_updates.py",
    "workloads/ncf/test_*.py",
)
"""Files whose cases in JAX take seconds.

In the remaining files JAX compiles whole networks for up to minutes, so their cases are `full`.
"""
JAX_CASE = re.compile(r"[\[-]jax[\]-]")
SLOW_PATHS = (
    "benchmarks/test_*.py",
    "docs/test_commands.py",
    "gpu_paths/test_*.py",
    "machines/test_*.py",
    "stress/test_*.py",
    "suite/agent/test_agent.py",
    "suite/commands/test_special_files.py",
    "suite/common/test_path_names.py",
    "suite/common/test_wheel.py",
    "suite/control/hosts/test_commands.py",
    "suite/control/hosts/test_several*.py",
    "suite/control/test_describe_plans.py",
    "suite/control/test_interrupts.py",
    "suite/control/test_runs.py",
    "suite/environments/test_docker.py",
    "suite/environments/test_plugins.py",
    "suite/environments/test_venvs.py",
    "suite/packaging/test_package.py",
    "suite/preflight/test_combine_errors.py",
    "suite/results/render/test_page.py",
    "suite/results/views/test_views_agree.py",
    "suite/test_cli.py",
    "suite/test_unknown_framework.py",
    "workloads/common/coco/test_coco_demo.py",
    "workloads/common/text/test_translation_*.py",
    "workloads/ncf/test_ncf_demo.py",
    "workloads/ncf/test_ncf_workload.py",
    "workloads/resnet50/test_imagenet_demo.py",
)
"""Files with slow tests.

These tests start sweeps or processes, create environments, pages or packages of hundreds of runs,
or generate whole data sets.
"""
WAITING_PATHS = (
    "stress/test_kill.py",
    "suite/agent/test_agent.py",
    "suite/control/hosts/test_several*.py",
    "suite/control/test_interrupts.py",
    "suite/environments/test_docker.py",
)
"""Files whose tests mostly wait: one worker starts with them while the rest compute."""
IMAGE_PATHS = (
    "frameworks/test_image_tensorflow.py",
    "workloads/maskrcnn/test_*.py",
    "workloads/ssd/test_*.py",
    "workloads/test_image_trainers.py",
)
"""Files of image tests in the frameworks' processes, which take half of these processes' time."""
MARKED_PATHS = {"framework": FRAMEWORK_PATHS, "slow": SLOW_PATHS}
MARKS_IN_FILE = re.compile(rb"mark\.(framework|slow|full)\b|\bfull_but\(")
"""Pattern of files that mark single tests."""
TESTS = Path(__file__).parent
DURATIONS = TESTS / "durations.json"
"""Seconds of each unit of work of `--dist loadgroup`, written by `--write-durations`."""

for name, values in PROFILES.items():
    settings.register_profile(name, **values, deadline=None)
settings.load_profile("fixed")


def matches(path, patterns):
    """Return whether a path below tests matches one of the patterns."""
    return any(path.match(pattern) for pattern in patterns)


def pytest_addoption(parser):
    parser.addoption(
        "--write-durations",
        action="store_true",
        help=f"write the seconds of each unit of work to {DURATIONS.name}",
    )


def pytest_configure(config):
    if config.option.write_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_ignore_collect(collection_path, config):
    """Ignore a file if the markers in `-m` deselect all of its tests."""
    if not collection_path.name.startswith("test_"):
        return None
    wanted = config.option.markexpr
    marked = [
        marker for marker, patterns in MARKED_PATHS.items() if matches(collection_path, patterns)
    ]
    if wanted.lstrip("(").startswith("framework or "):
        return None if marked or MARKS_IN_FILE.search(collection_path.read_bytes()) else True
    return any(f"not {marker}" in wanted.split(" and ") for marker in marked) or None


def pytest_collection_modifyitems(items):
    """Mark tests that need the frameworks' environments, and slow tests."""
    for path, group in itertools.groupby(items, lambda item: item.path):
        below = path.relative_to(TESTS)
        markers = [marker for marker, patterns in MARKED_PATHS.items() if matches(below, patterns)]
        has_marks = MARKS_IN_FILE.search(path.read_bytes())
        for item in group:
            inherited = [
                name for name in ("framework", "slow", "full") if item.get_closest_marker(name)
            ]
            assert has_marks or not inherited, (
                f"{item.nodeid}: write the marks {inherited} into its file"
            )
            for marker in markers:
                item.add_marker(marker)
            in_jax = item.get_closest_marker("framework") and JAX_CASE.search(item.nodeid)
            if in_jax and not matches(below, SHORT_IN_JAX):
                item.add_marker(pytest.mark.full)


def pytest_collection_finish():
    """Exclude imported objects from garbage collection, which took 10 % of the time."""
    gc.freeze()
    gc.set_threshold(10_000)


def unit_of(nodeid):
    """Return the unit of work of a test: its file, or all files that use the frameworks' processes.

    Each framework then starts once, and cached results are shared by the files.
    """
    file = Path(nodeid.partition("::")[0])
    if b"frameworks_probe" not in (TESTS.parent / file).read_bytes():
        return str(file)
    return "frameworks of images" if matches(file, IMAGE_PATHS) else "frameworks"


class Durations:
    """Plugin that writes the seconds of each unit of work."""

    def __init__(self):
        self.seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        self.seconds[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self):
        rounded = {unit: round(seconds, 1) for unit, seconds in sorted(self.seconds.items())}
        DURATIONS.write_text(json.dumps(rounded, indent=1) + "\n")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Schedule whole units with `--dist loadgroup`, the longest first.

    One worker starts with the units that mostly wait.
    """
    from xdist.scheduler import LoadScopeScheduling

    seconds = json.loads(DURATIONS.read_text())

    class Units(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return unit_of(nodeid)

        def _reschedule(self, node):
            """Give a worker its next unit when one test is left, instead of two.

            xdist does not start the last test of a worker before the worker has a next test.
            """
            if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
                super()._reschedule(node)

        def _assign_work_unit(self, node):
            waits = node is self.nodes[-1]
            self.workqueue.move_to_end(
                max(self.workqueue, key=lambda unit: self._rank(unit, waits)), last=False
            )
            super()._assign_work_unit(node)

        def _rank(self, unit, waits):
            return matches(Path(unit), WAITING_PATHS) == waits, seconds.get(unit, 0.0)

    return Units(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(autouse=True, scope="session")
def verified_fingerprint():
    """Verify a fingerprint for the closed logs that tests write.

    Data sets that tests prepare have different fingerprints.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in PUBLISHED_DATASETS:
            patch.setitem(FINGERPRINTS, name, {"verified": "written by tests"})
        yield


@pytest.fixture(autouse=True)
def restored_safe_path():
    """Unset PYTHONSAFEPATH, which commands set if a test calls them in this process.

    Otherwise processes that later tests start could not import `tests`.
    """
    os.environ.pop("PYTHONSAFEPATH", None)
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture(scope="session", autouse=True)
def session_data(tmp_path_factory):
    """Set the folder in which all runs of the session look for generated data, and create it.

    Workers of xdist do not share the folder: a run checks whether its files have left the page
    cache, and a concurrent reader would keep them there.
    """
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUITE_DATA_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def demo_data(session_data, tmp_path_factory):
    """Return a function that returns the read-only folder of a generated data set.

    The first worker of xdist that needs the data generates them within seconds, and the remaining
    workers copy them.
    """
    base = tmp_path_factory.getbasetemp()
    first = base.parent / "demo_data" if "PYTEST_XDIST_WORKER" in os.environ else session_data

    @functools.cache
    def dataset_folder(name):
        first.mkdir(exist_ok=True)
        with (first / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            registry.load_dataset(name).make_demo(first / name)
        if not (session_data / name).exists():
            shutil.copytree(first / name, session_data / name)
        return session_data / name

    return dataset_folder
