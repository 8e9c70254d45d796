"""Options of a plugin whose annotations are classes, not strings, are checked."""

from dataclasses import make_dataclass
from types import SimpleNamespace

import pytest

from suite.config import overrides
from suite.config.key_suggestions import choices
from workloads.api import option_keys


@pytest.fixture
def options(monkeypatch):
    kind = make_dataclass(
        "Options", [("count", int, 1), ("share", float, 0.5), ("slow", bool, False)]
    )
    monkeypatch.setattr(
        "suite.common.registry.load_workload", lambda name: SimpleNamespace(Options=kind)
    )
    return option_keys(kind)


@pytest.mark.parametrize(
    ("key", "wrong", "right"), [("count", "many", 3), ("share", "half", 0.25), ("slow", 7, True)]
)
def test_a_value_of_another_type_is_refused_before_anything_starts(options, key, wrong, right):
    with pytest.raises(ValueError, match=rf"^workload\.{key}={wrong}: "):
        overrides.check_key(f"workload.{key}", wrong, ["theirs"])
    overrides.check_key(f"workload.{key}", right, ["theirs"])


def test_true_and_false_are_completed(options):
    assert choices("workload.slow", options["workload.slow"]) == ["true", "false"]
