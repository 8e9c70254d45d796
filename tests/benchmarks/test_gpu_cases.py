"""`python -m benchmarks.gpu`: order of the cases, completed cases, and partial results."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.__main__ import PER_DEVICE, as_expected, cases, is_done
from testing.fake_logs import write_run


def test_every_workload_is_measured_in_bf16_before_any_is_in_another_precision():
    names = [name for name, *_ in cases("fast", gpu.DEMOS, gpus=1)]
    assert names[:6] == [f"{workload} bf16" for workload in PER_DEVICE]
    assert len(names) == len(set(names)) == 23
    assert "ncf fp16" not in names


@pytest.mark.parametrize(
    ("case", "done", "expected"),
    [
        (None, False, False),
        ({"status": "success"}, True, True),
        *(
            ({"status": status}, False, False)
            for status in ("oom", "failed", "target_missed", "interrupted")
        ),
        ({"error": "no answer within 300 s", "as it is": {"step_ms": 3.0}}, False, False),
        (
            {
                "fp32": {"as_expected": True},
                "bf16": {"error": "CUDA out of memory", "as_expected": False},
            },
            False,
            False,
        ),
        ({"fp32": {"as_expected": True}, "bf16": {"as_expected": False}}, True, False),
        ({"fp32": {"as_expected": True}, "bf16": {"as_expected": True}}, True, True),
        ({"plain": True, "usable": "no gcc", "as_expected": False}, True, False),
    ],
)
def test_only_successful_cases_are_done(case, done, expected):
    assert is_done(case) is done
    assert case is None or as_expected(case) is expected


def test_output_before_a_timeout_is_kept(monkeypatch):
    def never_ends(command, timeout, **rest):
        raise subprocess.TimeoutExpired(
            command, timeout, output=b'{}\n{"as it is": {"step_ms": 3.0}}\nof a library\n'
        )

    monkeypatch.setattr(subprocess, "run", never_ends)
    found = gpu._json(["why"])
    assert found == {"as it is": {"step_ms": 3.0}, "error": "no answer within 300 s"}


def test_a_run_is_described_by_its_log(tmp_path, monkeypatch):
    def runs(command, **_):
        (output,) = (word.partition("=")[2] for word in command if word.startswith("output="))
        write_run(Path(output), "ncf-1", devices=1, seconds_per_epoch=2.0, train_seconds=1.5)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", runs)
    found = gpu.trained(
        tmp_path, SimpleNamespace(name="torch"), "workload=ncf", "profile=demo", "gpus=1"
    )
    assert (found["status"], found["reason"]) == ("success", "")
    assert found["samples_per_second"] > 0
    assert Path(found["run"]).is_dir()
