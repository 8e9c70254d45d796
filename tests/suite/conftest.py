"""A driver of the tests' own."""

import sys

import pytest

from tests.suite import fake_nvml


@pytest.fixture
def nvml(monkeypatch):
    """`nvml(**changes)`: two pretended devices, both visible; `changes` as of `fake_nvml.make`."""

    def put(**changes):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make(**changes))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return put
