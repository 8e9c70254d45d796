"""Options of a plugin whose module does not postpone annotations: its types are classes, and are checked all the same."""

import sys
from dataclasses import field, make_dataclass

import pytest

from suite.config import overrides
from suite.config.keys import choices
from tests.helpers import TOY
from workloads.api import option_keys

sys.path.insert(0, str(TOY))
import toy


@pytest.fixture
def options(monkeypatch):
    """The toy's."""
    kind = make_dataclass("Options", [("count", int, field(default=1)), ("share", float, 0.5), ("slow", bool, False)])
    monkeypatch.setattr(toy.Toy, "Options", kind)
    monkeypatch.setattr("suite.common.registry.load_workload", lambda name: toy.Toy)
    return option_keys(kind)


@pytest.mark.parametrize(("key", "wrong", "right"), [("count", "many", 3), ("share", "half", 0.25), ("slow", 7, True)])
def test_a_value_of_another_type_is_refused_before_anything_starts(options, key, wrong, right):
    with pytest.raises(ValueError, match=rf"^workload\.{key}={wrong}: "):
        overrides.check_key(f"workload.{key}", wrong, ["toy"])
    overrides.check_key(f"workload.{key}", right, ["toy"])


def test_true_and_false_are_completed(options):
    assert choices("workload.slow", options["workload.slow"]) == ["true", "false"]
