"""Hashed randomness, images, detection and text are the same in every framework's environment."""

import importlib
import json
from pathlib import Path

import pytest

from tests.frameworks_probe import probe

ENVIRONMENTS = [
    None,
    *(
        pytest.param(name, marks=pytest.mark.framework)
        for name in ("pytorch", "tensorflow", "jax", "mxnet")
    ),
]
"""The controller's environment (None) and the frameworks' environments."""


def computed(framework, function):
    if framework is None:
        module, _, name = function.rpartition(".")
        return getattr(importlib.import_module(f"tests.golden.{module}"), name)()
    return probe(framework, f"golden.{function}")


@pytest.mark.parametrize("golden", ["randomness", "images", "detection", "text"])
@pytest.mark.parametrize("framework", ENVIRONMENTS)
def test_digests_equal_the_golden_values(framework, golden):
    found = {name: str(digest) for name, digest in computed(framework, f"{golden}.digests").items()}
    assert found == json.loads(Path(__file__).with_name(f"{golden}.json").read_text())


@pytest.mark.parametrize("framework", ENVIRONMENTS)
def test_images_are_decoded_in_parts(framework):
    assert computed(framework, "images.library")["crops"]
