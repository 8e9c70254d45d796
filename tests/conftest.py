"""What all tests share: profiles of hypothesis, markers by what a test needs, generated data made once in a session."""

import functools
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

for name, values in PROFILES.items():
    settings.register_profile(name, **values, deadline=None)
settings.load_profile("fixed")


def pytest_collection_modifyitems(items):
    """Mark what needs the frameworks' environments, and what takes long without them."""
    tests = Path(__file__).parent
    for item in items:
        for marker, patterns in (("framework", FRAMEWORK_PATHS), ("slow", SLOW_PATHS)):
            if any(item.path.relative_to(tests).match(pattern) for pattern in patterns):
                item.add_marker(marker)


@pytest.fixture(scope="session", autouse=True)
def session_data(tmp_path_factory):
    """Where all runs of a session find generated data, and make it if it is not there."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUITE_DATA_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def demo_data(session_data):
    """A function from a generated data set's name to its folder, which is not to be changed."""

    @functools.cache
    def made(name):
        registry.load_dataset(name).make_demo(session_data / name)
        return session_data / name

    return made
