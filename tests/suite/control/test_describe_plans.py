"""`dry_run=true`: the plan is printed, and no process is started and no file written."""

import json
import os
import re

import pytest

from suite.common import registry
from suite.control import describe_plans
from tests.helpers import TOY_RUN, only, run_suite_here, suite_here, written
from tests.workloads.resnet50 import synthetic_images
from workloads.ncf import workload as ncf
from workloads.ncf.dataset_info import published_facts

UNKNOWN = "unknown until the problems are solved"
NCF = ("workload=ncf", "profile=demo", "device=cpu", "environment=current")


def facts(done):
    return dict(re.findall(r"^  (\w[\w ]*?)\s{2,}(.*)$", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("flag", ["dry_run=true", "--dry-run"])
def test_a_dry_run_prints_the_plan_and_starts_no_process(tmp_path, flag):
    done = run_suite_here(tmp_path, *NCF, flag, SUITE_DATA_DIR=str(tmp_path / "data"), exits=0)
    assert list(tmp_path.iterdir()) == []
    plan = facts(done)
    assert plan["devices"] == "1 CPU device(s) with 1 core(s) each on this machine"
    assert plan["environment"].startswith("current: ")
    assert plan["data"] == "ml-demo is generated when the command starts"
    assert (plan["batch"], plan["stop"]) == (
        "8192 samples in total, precision fp32",
        "target: hr_at_10 0.635",
    )
    assert "learning_rate 0.006 (presumed: " in done.stdout
    assert plan["division"].startswith("open: profile demo, not reference; ")
    assert plan["run"].startswith(str(tmp_path / "logs"))
    assert plan["run"].endswith("/ncf-pytorch-demo-1dev-cpu-environment=current/run_0")


def test_several_jobs_are_a_table_with_details_on_request_and_the_time_of_an_earlier_run(
    tmp_path,
):
    words = ("-m", *TOY_RUN, "gpus=1", "runs=2", "seed=1,2")
    assert run_suite_here(tmp_path, *TOY_RUN, "seed=9", toy=True).returncode == 0
    run = only((tmp_path / "logs").glob("*/*/run_0"))
    status = json.loads((run / "status.json").read_text())
    before = written(tmp_path)
    done = run_suite_here(
        tmp_path, *words, f"output={tmp_path / 'out'}", "--dry-run", toy=True, exits=0
    )
    # A warning about a busy machine may follow the first five lines.
    first, header, *rows, request = done.stdout.splitlines()[:5]
    assert "4 run(s) would be written to" in first
    assert header.startswith("job ")
    assert re.split(" {2,}", header)[1:] == [
        "runs",
        "devices",
        "batch",
        "stop",
        "division",
        "time per run",
        "problems",
    ]
    cells = ["2", "1 CPU", "64", "target", "open"]
    assert [re.split(" {2,}", row)[:6] for row in rows] == [
        [f"toy-plain-demo-1dev-seed={n}", *cells] for n in (1, 2)
    ]
    assert all(re.search(r"\d+ s$", row) for row in rows)
    assert request.endswith("set dry_run=full")
    done = run_suite_here(tmp_path, *words, f"output={tmp_path / 'out'}", "dry_run=full", toy=True)
    assert written(tmp_path) == before
    assert done.stdout.startswith("\n".join([first, header, *rows]))
    runs = [
        f"{tmp_path}/out/toy-plain-demo-1dev-seed={seed}/run_{index}"
        for seed in (1, 2)
        for index in (0, 1)
    ]
    assert re.findall(r"^  run +(\S+)$", done.stdout, re.MULTILINE) == runs
    assert status["status"] == "success"
    assert re.search(r"about \d+ s per run, the median of 1 earlier run\(s\)", facts(done)["time"])
    smaller_batch = run_suite_here(tmp_path, *TOY_RUN, "batch=global:32", "--dry-run", toy=True)
    assert facts(smaller_batch)["time"].startswith(
        "unknown: no finished run with these settings in "
    )


def test_a_problem_exits_with_2_and_the_other_lines_describe_the_requested_devices(
    tmp_path,
):
    done = run_suite_here(tmp_path, *NCF, "gpus=4096", "--dry-run", exits=2)
    assert done.stderr.startswith("run_suite.py: gpus=4096: ")
    cores = len(os.sched_getaffinity(0))
    machine = f"this machine, which has {cores}. The lines below apply to {cores} device(s)"
    devices = f"4096 CPU device(s) with 1 core(s) each on {machine}"
    assert (facts(done)["devices"], facts(done)["stop"]) == (devices, "target: hr_at_10 0.635")


def test_cells_of_a_study_that_would_not_run_are_listed(tmp_path):
    done = run_suite_here(
        tmp_path, "study=toy_endings", "--dry-run", toy=True, SUITE_DATA_DIR=str(tmp_path), exits=0
    )
    assert sum("  gpus=4096: 4096 CPU device(s)" in line for line in done.stdout.splitlines()) == 2


@pytest.mark.parametrize("words", [("--dry-run",), ()])
def test_slurm_is_not_queried_before_the_command_is_valid(tmp_path, words):
    """Check a command on a login node: its devices do not count, and no file is left behind."""
    slurm = (
        "workload=ncf",
        "device=cuda",
        "gpus=8",
        "nodes=2",
        "launch=slurm",
        "environment=current",
        *words,
    )
    done = run_suite_here(
        tmp_path, *slurm, SUITE_DATA_DIR=str(tmp_path / "data"), PATH="/nowhere", exits=2
    )
    assert done.stderr.splitlines()[-1].startswith("run_suite.py: no prepared data in ")
    assert list(tmp_path.iterdir()) == []
    if words:
        assert (
            facts(done)["devices"]
            == "8 GPU(s) on 2 machine(s), which SLURM allocates and the job checks"
        )


def test_no_folder_is_left_if_sbatch_is_missing(tmp_path):
    toy = (*TOY_RUN, "launch=slurm", f"output={tmp_path / 'deep' / 'out'}")
    data = tmp_path / "data"
    registry.refresh()
    done = run_suite_here(tmp_path, *toy, toy=True, PATH="/nowhere", exits=2)
    assert "sbatch is not installed here" in done.stderr
    assert not (tmp_path / "deep").exists()
    assert not data.exists()


def test_the_doctor_finds_what_planning_finds(tmp_path):
    planned = (
        run_suite_here(tmp_path, *NCF, "gpus=4096").stderr.strip().removeprefix("run_suite.py: ")
    )
    done = suite_here(
        tmp_path, "doctor", "--device", "cpu", "--gpus", "4096", "--environment", "current", exits=1
    )
    assert done.stdout.splitlines()[0] == f"impossible  devices: {planned}"


@pytest.mark.parametrize(
    ("words", "division"),
    [
        (("workload=resnet50", "seed=1"), "open: seed from user, not system"),
        (("workload=resnet50", "workload.warmup_epochs=42"), UNKNOWN),
        (("workload=ssd", "backbone.allow_other=true"), UNKNOWN),
        (("workload=resnet50",), UNKNOWN),
        (("workload=resnet50", "device=cpu", "gpus=4096", "batch=per_device:1", "seed=1"), UNKNOWN),
    ],
)
def test_a_division_is_closed_only_if_all_settings_are_final(tmp_path, words, division):
    done = run_suite_here(
        tmp_path, *words, "--dry-run", SUITE_DATA_DIR=str(tmp_path / "none"), exits=2
    )
    assert facts(done)["division"] == division


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twelve")
    registry.load_dataset("imagenet").prepare(
        synthetic_images.write(folder / "images", 12, 5), folder / "imagenet"
    )
    return folder


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_small_data_set_with_the_name_of_a_large_data_set_is_open(tmp_path, twelve, device):
    """Check also a machine without a GPU, for which no job can be planned."""
    words = (
        "workload=resnet50",
        "environment=current",
        "batch=global:4",
        f"device={device}",
        "--dry-run",
    )
    division = facts(run_suite_here(tmp_path, *words, SUITE_DATA_DIR=str(twelve)))["division"]
    assert division.startswith("open: ")
    assert "12" in division


def test_the_division_of_a_slurm_job_is_unknown_before_it_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(
        ncf.NCF, "load_dataset_info", classmethod(lambda cls, settings: published_facts())
    )
    slurm = (
        "workload=ncf",
        "device=cuda",
        "gpus=8",
        "nodes=2",
        "launch=slurm",
        "environment=current",
        "--dry-run",
    )
    done = run_suite_here(tmp_path, *slurm)
    assert (done.returncode, facts(done)["division"]) == (0, "unknown until the SLURM job starts")


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(1, "0.1 MiB"), (3 << 20, "3.0 MiB"), (5 << 29, "2.5 GiB")]
)
def test_no_size_is_zero(size_bytes, text):
    assert describe_plans._size(size_bytes) == text


SMALL = {"transformer": 512, "ncf": 4096, "allreduce": 1 << 20}
"""Batch sizes that fit any machine. The default is 2."""


@pytest.mark.parametrize("workload", registry.names(registry.WORKLOADS))
def test_every_workload_can_be_planned(tmp_path, workload):
    """Check every workload, also a workload whose runs have no samples."""
    words = [
        f"batch=global:{SMALL.get(workload, 2)}",
        *(["timing=steps"] if workload == "allreduce" else []),
        # The optimizer state of the full model does not fit into the memory of a test machine.
        *(["mode=forward"] if workload == "llama31_8b" else []),
    ]
    fixed = (
        "profile=synthetic",
        "device=cpu",
        "environment=current",
        "gpus=2",
        "oversubscribe=true",
        "dry_run=true",
    )
    done = run_suite_here(tmp_path, f"workload={workload}", *words, *fixed, exits=0)
    assert facts(done)["division"].startswith("open: ")
