"""The devices that CUDA_VISIBLE_DEVICES selects."""

import pytest

from suite.machine.visible import VARIABLE, chosen, no_answer

UUIDS = {0: "GPU-aa11-x", 1: "GPU-aa22-x", 2: "GPU-bb33-x"}


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        (None, [0, 1, 2]), ("", []), ("2, 0", [2, 0]), ("0,7,1", [0]), ("0,-1,1", [0]),
        ("GPU-bb33-x,GPU-aa22-x", [2, 1]), ("GPU-b", [2]), ("GPU-aa1,GPU-c,GPU-b", [0]),
        ("bb33", []), ("GPU-aa,GPU-b", []),  # two devices have this prefix
    ],
)  # fmt: skip
def test_devices_are_selected_by_number_uuid_or_prefix(monkeypatch, value, numbers):
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    assert chosen(UUIDS) == numbers


def test_parts_of_devices_are_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "MIG-1234")
    with pytest.raises(
        ValueError,
        match=r"^CUDA_VISIBLE_DEVICES=MIG-1234: parts of GPUs \(MIG\) are not supported; ",
    ):
        chosen(UUIDS)


def test_how_to_leave_a_device_out():
    problem, remedy = "GPU 1 does not answer (lost)", "set device=cpu to run without GPUs"
    leave_out = "export CUDA_VISIBLE_DEVICES=2,0 to leave it out, or"
    assert str(no_answer(1, [2, 1, 0], "lost")) == f"{problem}; {leave_out} {remedy}"
    assert str(no_answer(1, [1], "lost")) == f"{problem}; {remedy}"
