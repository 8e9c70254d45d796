"""Labels of runs: their texts, their JSON, and the texts of older logs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.common.labels import Label, LabelKind, label_from_json, label_of_text, profile_label
from tests.helpers import examples

LABELS = {
    "demo": Label(LabelKind.DEMO),
    "synthetic": Label(LabelKind.SYNTHETIC),
    "cpu": Label(LabelKind.CPU),
    "oversubscribed": Label(LabelKind.OVERSUBSCRIBED),
    "null device": Label(LabelKind.NULL_DEVICE),
    "async": Label(LabelKind.ASYNC),
    "straggler 50 ms": Label(LabelKind.STRAGGLER, "50 ms"),
    "continued": Label(LabelKind.RESUMED),
    "own file": Label(LabelKind.USER_FILE),
    "article": Label(LabelKind.ARTICLE),
    "extrapolated": Label(LabelKind.EXTRAPOLATED),
    "busy machine": Label(LabelKind.BUSY),
    "busy machine: others took 48 % of its cores": Label(
        LabelKind.BUSY, "others took 48 % of its cores"
    ),
    "busy machine (2 of 3 runs): the hypervisor took 9 %": Label(
        LabelKind.BUSY, "the hypervisor took 9 %", "2 of 3 runs"
    ),
    "counts differ from the published ml-20m: 3": Label(
        LabelKind.DATA, "counts differ from the published ml-20m: 3"
    ),
}


@pytest.mark.parametrize(("text", "label"), LABELS.items())
def test_a_label_is_restored_from_its_text_and_its_json(text, label):
    assert (label.text, label_of_text(text)) == (text, label)
    assert label_from_json(json.loads(json.dumps(label.to_json()))) == label


@examples(200)
@given(st.text())
def test_any_label_keeps_its_text(text):
    assert label_of_text(text).text == text
    assert label_of_text(f"busy machine{text}").text == f"busy machine{text}"


@pytest.mark.parametrize("value", [None, "cpu", [], {}, {"kind": 3}, {"kind": "cpu", "detail": 3}])
def test_damaged_json_gives_no_label(value):
    assert label_from_json(value) is None


def test_kinds_of_other_versions_and_profiles_of_plugins_keep_their_text():
    assert label_from_json({"kind": "throttled", "detail": "by heat"}).text == "throttled by heat"
    assert profile_label("demo").kind is LabelKind.DEMO
    assert profile_label("mine") == Label(LabelKind.OTHER, "mine")
