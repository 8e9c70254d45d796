"""What all tests share: profiles of hypothesis, markers by what a test needs, generated data made once in a session."""

import fcntl
import functools
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import settings

from suite.common import registry
from tests.helpers import PROFILES

FRAMEWORK_PATHS = (
    "frameworks/test_*.py",
    "workloads/test_*_trainers.py",
    "workloads/frameworks/*/test_*.py",
    "workloads/*/test_*_frameworks.py",
    "workloads/*/test_*_runs.py",
)
"""Files whose tests run in the frameworks' environments; single ones in other files are marked there."""
SLOW_PATHS = (
    "stress/test_*.py",
    "suite/control/test_runs.py",
    "suite/environments/test_plugins.py",
    "suite/environments/test_venvs.py",
    "workloads/common/coco/test_coco_demo.py",
    "workloads/resnet50/test_imagenet_demo.py",
)
"""Files whose tests start whole sweeps, make environments, or generate whole data sets of images."""
ALONE_PATHS = ("workloads/*/test_*_runs.py",)
"""Files in FRAMEWORK_PATHS whose tests start runs and ask no process of tests/frameworks_probe.py."""

for name, values in PROFILES.items():
    settings.register_profile(name, **values, deadline=None)
settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Mark what needs the frameworks' environments, what takes long without them, and what one worker of xdist is to run.

    The workers of `--dist loadgroup` take whole files, and all tests that ask the frameworks' processes as one: each framework
    is started once, and has computed one reference for all.
    """
    for path, group in itertools.groupby(items, lambda item: item.path):
        tests, below = list(group), path.relative_to(Path(__file__).parent)
        markers = [
            marker
            for marker, patterns in (("framework", FRAMEWORK_PATHS), ("slow", SLOW_PATHS))
            if any(below.match(pattern) for pattern in patterns)
        ]
        alone = any(below.match(pattern) for pattern in ALONE_PATHS)
        for item in tests:
            for marker in markers:
                item.add_marker(marker)
            asks = item.get_closest_marker("framework") and not alone
            item.add_marker(pytest.mark.xdist_group("frameworks" if asks else str(below)))


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory):
    """A folder that the workers of xdist share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def session_data(session_folder):
    """Where all runs of a session find generated data, and make it if it is not there."""
    folder = session_folder / "data"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUITE_DATA_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def demo_data(session_data):
    """A function from a generated data set's name to its folder, which is not to be changed."""

    @functools.cache
    def made(name):
        with (session_data / f".{name}.lock").open("w") as lock:  # several could make it at once; one makes it sooner
            fcntl.flock(lock, fcntl.LOCK_EX)
            registry.load_dataset(name).make_demo(session_data / name)
        return session_data / name

    return made
