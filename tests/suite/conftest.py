"""Fixture for tests with a simulated NVIDIA driver."""

import sys

import pytest

from tests.suite import fake_nvml


@pytest.fixture
def nvml(monkeypatch):
    """Return a function that installs a fake pynvml with two visible devices.

    The function passes its arguments to `fake_nvml.make`.
    """

    def put(**changes):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make(**changes))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return put
