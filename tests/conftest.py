"""What all tests share: profiles of hypothesis, markers by what a test needs, generated data made
once in a session.
"""

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
from testing.machines.fixtures import (
    machines,
    machines_of_module,
)  # noqa: F401, fixtures of all tests
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
"""Files whose tests run in the frameworks' environments; single ones in other files are marked
there.
"""
SHORT_IN_JAX = (
    "golden/test_*.py",
    "workloads/allreduce/test_*.py",
    "workloads/frameworks/test_updates.py",
    "workloads/ncf/test_*.py",
)
"""Files whose cases in JAX take seconds.

In other files JAX compiles whole networks, for up to minutes: `full`.
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
"""Files whose tests start whole sweeps or a command each, make environments, pages or packages of
hundreds of runs, or generate whole data sets.
"""
WAITING_PATHS = (
    "stress/test_kill.py",
    "suite/agent/test_agent.py",
    "suite/control/hosts/test_several*.py",
    "suite/control/test_interrupts.py",
    "suite/environments/test_docker.py",
)
"""Files whose tests mostly wait: a worker begins with them, while the others compute."""
IMAGE_PATHS = (
    "frameworks/test_image_tensorflow.py",
    "workloads/maskrcnn/test_*.py",
    "workloads/ssd/test_*.py",
    "workloads/test_image_trainers.py",
)
"""Files that ask the frameworks' processes of images: as long as all others together."""
MARKED_PATHS = {"framework": FRAMEWORK_PATHS, "slow": SLOW_PATHS}
OWN_MARKS = re.compile(rb"mark\.(framework|slow|full)\b|\bfull_but\(")
"""In files that mark single tests."""
TESTS = Path(__file__).parent
DURATIONS = TESTS / "durations.json"
"""Seconds that each unit of work of `--dist loadgroup` took, in the run that wrote it
(`--write-durations`).
"""

for name, values in PROFILES.items():
    settings.register_profile(name, **values, deadline=None)
settings.load_profile("fixed")


def matches(path, patterns):
    """Whether a path below tests is one of those that patterns name."""
    return any(path.match(pattern) for pattern in patterns)


def pytest_addoption(parser):
    parser.addoption(
        "--write-durations",
        action="store_true",
        help=f"note what took how long in {DURATIONS.name}",
    )


def pytest_configure(config):
    if config.option.write_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_ignore_collect(collection_path, config):
    """A file whose tests would all be left out (`-m "not framework and not slow …"`,
    `-m "(framework or …)"`) stays shut.
    """
    if not collection_path.name.startswith("test_"):
        return None
    wanted = config.option.markexpr
    marked = [
        marker for marker, patterns in MARKED_PATHS.items() if matches(collection_path, patterns)
    ]
    if wanted.lstrip("(").startswith("framework or "):
        return None if marked or OWN_MARKS.search(collection_path.read_bytes()) else True
    return any(f"not {marker}" in wanted.split(" and ") for marker in marked) or None


def pytest_collection_modifyitems(items):
    """Mark what needs the frameworks' environments, and what takes long without them."""
    for path, group in itertools.groupby(items, lambda item: item.path):
        below = path.relative_to(TESTS)
        markers = [marker for marker, patterns in MARKED_PATHS.items() if matches(below, patterns)]
        own = OWN_MARKS.search(path.read_bytes())
        for item in group:
            inherited = [
                name for name in ("framework", "slow", "full") if item.get_closest_marker(name)
            ]
            assert own or not inherited, f"{item.nodeid}: write the marks {inherited} into its file"
            for marker in markers:
                item.add_marker(marker)
            in_jax = item.get_closest_marker("framework") and JAX_CASE.search(item.nodeid)
            if in_jax and not matches(below, SHORT_IN_JAX):
                item.add_marker(pytest.mark.full)


def pytest_collection_finish():
    """What is imported by now stays: looking for garbage among it, as often as Python does, took a
    tenth of all time.
    """
    gc.freeze()
    gc.set_threshold(10_000)


def unit_of(nodeid):
    """What a worker of `--dist loadgroup` takes as a whole: a file, or all files that ask the
    frameworks' processes alike.

    Each framework is then started once, and what it has computed for one file serves the others.
    """
    file = Path(nodeid.partition("::")[0])
    if b"frameworks_probe" not in (TESTS.parent / file).read_bytes():
        return str(file)
    return "frameworks of images" if matches(file, IMAGE_PATHS) else "frameworks"


class Durations:
    """Writes how many seconds each unit took."""

    def __init__(self):
        self.seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        self.seconds[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self):
        rounded = {unit: round(seconds, 1) for unit, seconds in sorted(self.seconds.items())}
        DURATIONS.write_text(json.dumps(rounded, indent=1) + "\n")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """`--dist loadgroup`: whole units, the longest first; one worker begins with those that wait."""
    from xdist.scheduler import LoadScopeScheduling

    seconds = json.loads(DURATIONS.read_text())

    class Units(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return unit_of(nodeid)

        def _reschedule(self, node):
            """A worker takes its next unit when one test is left, which xdist holds back until it
            has another; not two.
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
def one_fingerprint_is_verified():
    """Verify one fingerprint, for the closed logs that tests write.

    Data that tests prepare have other fingerprints.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in PUBLISHED_DATASETS:
            patch.setitem(FINGERPRINTS, name, {"verified": "written by tests"})
        yield


@pytest.fixture(autouse=True)
def own_safe_path():
    """Commands that tests call in their own process set it for good: what later tests start could
    not import `tests`.
    """
    os.environ.pop("PYTHONSAFEPATH", None)
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture(scope="session", autouse=True)
def session_data(tmp_path_factory):
    """Where all runs of a session find generated data, and make it if it is not there.

    Not shared by the workers of xdist: a run sees whether its files have left the page cache, and
    readers hold them there.
    """
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUITE_DATA_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def demo_data(session_data, tmp_path_factory):
    """A function from a generated data set's name to its folder, which is not to be changed.

    The first of xdist's workers to ask makes it, for seconds; the others copy it.
    """
    base = tmp_path_factory.getbasetemp()
    first = base.parent / "demo_data" if "PYTEST_XDIST_WORKER" in os.environ else session_data

    @functools.cache
    def made(name):
        first.mkdir(exist_ok=True)
        with (first / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            registry.load_dataset(name).make_demo(first / name)
        if not (session_data / name).exists():
            shutil.copytree(first / name, session_data / name)
        return session_data / name

    return made
