"""`dry_run=true`: all that can be known before the first process, and nothing started or written."""

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
def test_what_would_run_is_said_and_nothing_done(tmp_path, flag):
    done = run_suite_here(tmp_path, *NCF, flag, SUITE_DATA_DIR=str(tmp_path / "data"), exits=0)
    assert list(tmp_path.iterdir()) == []
    said = facts(done)
    assert said["devices"] == "1 CPU device(s) with 1 core(s) each on this machine"
    assert said["environment"].startswith("current: ")
    assert said["data"] == "ml-demo is generated when the command starts"
    assert (said["batch"], said["stop"]) == (
        "8192 samples in total, precision fp32",
        "target: hr_at_10 0.635",
    )
    assert "learning_rate 0.006 (presumed: " in done.stdout
    assert said["division"].startswith("open: profile demo, not reference; ")
    assert said["run"].startswith(str(tmp_path / "logs"))
    assert said["run"].endswith("/ncf-pytorch-demo-1dev-cpu-environment=current/run_0")


def test_several_jobs_are_a_table_and_all_of_each_on_request_with_the_time_of_an_earlier_run(
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
    first, header, *rows, request = done.stdout.splitlines()[
        :5
    ]  # a busy machine is warned of after that
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
    told = ["2", "1 CPU", "64", "target", "open"]
    assert [re.split(" {2,}", row)[:6] for row in rows] == [
        [f"toy-plain-demo-1dev-seed={n}", *told] for n in (1, 2)
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
    other = run_suite_here(tmp_path, *TOY_RUN, "batch=global:32", "--dry-run", toy=True)
    assert facts(other)["time"].startswith("unknown: no finished run with these settings in ")


def test_what_is_in_the_way_ends_it_with_2_and_the_rest_is_of_the_devices_that_are_asked_for(
    tmp_path,
):
    done = run_suite_here(tmp_path, *NCF, "gpus=4096", "--dry-run", exits=2)
    assert done.stderr.startswith("run_suite.py: gpus=4096: ")
    cores = len(os.sched_getaffinity(0))
    machine = f"this machine, which has {cores}. The lines below apply to {cores} device(s)"
    said = f"4096 CPU device(s) with 1 core(s) each on {machine}"
    assert (facts(done)["devices"], facts(done)["stop"]) == (said, "target: hr_at_10 0.635")


def test_cells_of_a_study_that_would_not_run(tmp_path):
    done = run_suite_here(
        tmp_path, "study=toy_endings", "--dry-run", toy=True, SUITE_DATA_DIR=str(tmp_path), exits=0
    )
    assert sum("  gpus=4096: 4096 CPU device(s)" in line for line in done.stdout.splitlines()) == 2


@pytest.mark.parametrize("words", [("--dry-run",), ()])
def test_slurm_is_asked_nothing_before_the_command_is_right(tmp_path, words):
    """On the login node, whose own devices do not count; nothing is left behind."""
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


def test_no_folder_is_left_where_sbatch_refuses(tmp_path):
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
def test_nothing_is_closed_of_which_not_all_is_known(tmp_path, words, division):
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
def test_a_small_data_set_under_a_large_ones_name_is_open(tmp_path, twelve, device):
    """Also where a GPU is missing, so that there is no job."""
    words = (
        "workload=resnet50",
        "environment=current",
        "batch=global:4",
        f"device={device}",
        "--dry-run",
    )
    said = facts(run_suite_here(tmp_path, *words, SUITE_DATA_DIR=str(twelve)))["division"]
    assert said.startswith("open: ")
    assert "12" in said


def test_what_a_job_of_slurm_will_find_is_not_known_before_it_starts(tmp_path, monkeypatch):
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
"""Batches that fit any machine; 2 in others."""


@pytest.mark.parametrize("workload", registry.names(registry.WORKLOADS))
def test_every_workload_can_be_planned(tmp_path, workload):
    """Also one whose runs have no samples."""
    words = [
        f"batch=global:{SMALL.get(workload, 2)}",
        *(["timing=steps"] if workload == "allreduce" else []),
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
