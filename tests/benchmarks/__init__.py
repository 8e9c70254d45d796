"""Benchmarks as tests import them."""

import importlib

import pytest

from tests.helpers import PROJECT


def module(name):
    """A benchmark, as its script imports the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROJECT / "benchmarks"))
        return importlib.import_module(name)
