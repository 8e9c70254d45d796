"""`suite package`: the written tree passes MLCommons' checkers, and invalid logs are refused."""

import json
import os
import runpy
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.catalog.rounds import find_round
from suite.common import registry
from suite.common.git_state import git_state
from suite.common.paths import PROJECT
from suite.common.run_folder import safe_name
from suite.common.runspec import RunSpec
from suite.common.source_code import digest_below
from suite.packaging.choose_runs import _command_for_missing_runs, choose_runs
from suite.packaging.description import FIELDS
from suite.packaging.layout import is_valid_name, sanitized_name, validated_name
from suite.packaging.recorded_machine import description_fields
from suite.packaging.recorded_overrides import recorded_machine
from suite.packaging.scripts import write_scripts
from suite.packaging.write import PackageOptions, package
from suite.plan.settings import resolve_settings
from suite.results.logs.collect import collect
from suite.results.logs.reader import read
from suite.worker.log_header import write_log_header
from suite.worker.runlog import RunLog
from tests.helpers import called_here, composed, examples, json_values, suite_here
from tests.suite.packaging.package_logs import (
    COUNTS,
    DATA,
    JITTER_MS,
    MACHINE,
    derived,
    log_set,
    missed_run,
    our_run,
)
from tests.workloads import rules_page
from workloads.api import DatasetInfo
from workloads.api.epochs import EpochSamples

PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "published" / "logs"
OPTIONS = PackageOptions(submitter="EXAMPLE_ORG", system="box")
needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason=f"no published logs at {PUBLISHED}"
)


def tool(arguments):
    """Run a checker of mlperf-logging with the arguments `NAME ARGUMENT…`."""
    name, *arguments = arguments
    sys.argv = [name, *arguments, "--log_output", "tool.log"]
    runpy.run_module(f"mlperf_logging.{name}", run_name="__main__", alter_sys=True)


def assert_passes_the_tools(out, tmp_path):
    """Check the printed verdicts of the checkers, because their exit codes are always 0."""
    systems = sorted((out / "systems").glob("*.json"))
    commands = [("package_checker", str(out), "training", "0.7.0")]
    commands += [("system_desc_checker", str(path), "training", "1.0.0") for path in systems]
    commands += [("repo_checker", str(out), "training", "2.0.0")]
    printed = ""
    for command in commands:
        done = called_here(tool, command[0], command, tmp_path, os.environ)
        assert done.returncode == 0, done.stderr
        printed += done.stdout + done.stderr
    assert printed.count("PACKAGE CHECKER FOUND NO ERRORS, SUCCESS") == 1
    assert printed.count("System description checker passed") == len(systems) > 0
    assert printed.count("ALL CHECKS PASSED") == 1


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def refused(logs, out, text, options=OPTIONS):
    """Check that packaging fails with a one-line message that matches `text` and writes no file."""
    before = sorted(os.listdir(out.parent))
    with pytest.raises(ValueError, match=text) as error:
        package(logs, out, options)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000
    assert sorted(os.listdir(out.parent)) == before
    return str(error.value)


def resnet_runs(folder, **changes):
    for index in range(5):
        our_run(folder / "job", index, "resnet50", suite_run=changes)


def test_the_command_writes_a_tree(tmp_path):
    logs = {name: log_set(tmp_path / "logs" / name, name) for name in ("ssd", "gnmt")}
    out = tmp_path / "out"
    arguments = ("package", tmp_path / "logs", out, "--system", "box", "--submitter", "EXAMPLE_ORG")
    assert (
        "Not verified by MLCommons Association" in suite_here(tmp_path, *arguments, exits=0).stdout
    )
    for name, benchmark_logs in logs.items():
        place = out / "results" / "box" / name
        assert sorted(os.listdir(place)) == [f"result_{index}.txt" for index in range(COUNTS[name])]
        for index, log in enumerate(benchmark_logs):
            assert (place / f"result_{index}.txt").read_bytes() == log.read_bytes()
    suite_here(tmp_path, "check", out, "--werror", exits=0)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Return the package of closed runs of all six workloads with default sets, on one machine."""
    tmp_path = tmp_path_factory.mktemp("ours")
    for kind in rules_page.WORKLOADS:
        for index in range(kind.runs_required):
            our_run(
                tmp_path / "logs" / kind.name,
                index,
                kind.name,
                dirty=(kind.name, index) == ("ssd", 3),
            )
    return package([tmp_path / "logs"], tmp_path / "out", PackageOptions())


def test_our_runs_of_all_six_pass_every_tool(ours, tmp_path):
    assert {name: count for _, name, count in ours.sets} == {**COUNTS, "ncf": 100}
    assert {system for system, _, _ in ours.sets} == {"our_box_2x_pytorch_2.11.0"}
    assert_passes_the_tools(ours.folder, tmp_path)
    done = suite_here(tmp_path, "check", ours.folder, "--werror", exits=0)
    assert done.stdout.count("rules: suite rules ncf_reference") == 100


def test_packages_list_the_implementations_of_the_suite(ours):
    readme = (ours.folder / "benchmarks/ncf/implementations/pytorch/README.md").read_text(
        encoding="utf-8"
    )
    for text in (
        "SplitMix64",
        "optimizer adam is implemented by the suite in pytorch",
        "within 1.7e-07 of float64",
    ):
        assert text in readme
        assert any(text in note for note in ours.notes)
    assert any("max pool" in note for note in ours.notes)
    if git_state()["commit"]:
        assert [note[:25] for note in ours.notes if "files differed" in note] == [
            "ssd: files differed from "
        ]


@needs_published
def test_real_dgx1_logs_pass_every_tool(tmp_path):
    for name, count in COUNTS.items():
        if name != "resnet":
            log = PUBLISHED / "v0.7" / "dgx1_ngc20.06_pytorch" / name / "result_0.txt"
            log_set(tmp_path / "logs" / name, name, count, log)
    package([tmp_path / "logs"], tmp_path / "out", PackageOptions(system="dgx1_ngc20.06_pytorch"))
    assert_passes_the_tools(tmp_path / "out", tmp_path)
    description = json.loads(
        (tmp_path / "out" / "systems" / "dgx1_ngc20.06_pytorch.json").read_text()
    )
    assert (description["submitter"], description["division"], description["status"]) == (
        "NVIDIA",
        "closed",
        "onprem",
    )


@needs_published
def test_only_one_real_run_may_miss_the_target(tmp_path):
    good = PUBLISHED / "v0.7" / "dgx1_ngc20.06_mxnet" / "resnet" / "result_1.txt"
    missed = PUBLISHED / "odd" / "v07_nvidia_dgx1_resnet_aborted_below_target.txt"
    logs = log_set(tmp_path / "logs", "resnet", 5, good)
    options = PackageOptions(system="dgx1_ngc20.06_mxnet")
    derived(missed, logs[3], 24 * 300, 900)
    package([tmp_path / "logs"], tmp_path / "out", options)
    assert_passes_the_tools(tmp_path / "out", tmp_path)
    derived(missed, logs[1], 24 * 301, 901, JITTER_MS)
    refused(
        [tmp_path / "logs"],
        tmp_path / "two",
        "2 of the first 5 runs missed the target, but only 1 may",
        options,
    )


def test_half_of_the_ncf_runs_may_miss(tmp_path):
    for index in range(100):
        write = missed_run if index < 50 else our_run
        write(tmp_path / "logs" / "job", index)
    (chosen,) = choose_runs(collect([tmp_path / "logs"]))
    assert len(chosen.records) == 100
    missed_run(tmp_path / "logs" / "job", 50)
    with pytest.raises(
        ValueError, match="51 of the first 100 runs missed the target, but only 50 may"
    ):
        choose_runs(collect([tmp_path / "logs"]))


def test_the_earliest_runs_are_packaged_if_there_are_too_many(tmp_path):
    source = DATA / "0.7.0" / "ssd.txt"
    # result_2 and result_5 start last and are dropped.
    hours = [50, 10, 70, 30, 20, 60, 40]
    for index, hour in enumerate(hours):
        derived(source, tmp_path / "logs" / f"result_{index}.txt", hour, 100 + index, JITTER_MS)
    packaged = package([tmp_path / "logs"], tmp_path / "out", OPTIONS)
    place = tmp_path / "out" / "results" / "box" / "ssd"
    taken = [read(place / f"result_{index}.txt").seed for index in range(5)]
    assert taken == [101, 104, 103, 106, 100]
    assert any(
        "5 of 7 runs were taken, in order of start and not by speed" in note
        for note in packaged.notes
    )
    assert any("result_5.txt" in note and "result_2.txt" in note for note in packaged.notes)


def ours_of(**changes):
    return lambda logs: our_run(logs / "job", 0, suite_run=changes)


def two_runs(**changes):
    return lambda logs: (our_run(logs / "job", 0), our_run(logs / "job", 1, suite_run=changes))


def running(logs):
    log = our_run(logs / "job", 0)
    log.write_text("\n".join(log.read_text().splitlines()[:20]))
    (log.parent / "status.json").write_text('{"status": "running"}')


def running_without_a_log(logs):
    our_run(logs / "job", 0)
    (logs / "job" / "run_1").mkdir()
    (logs / "job" / "run_1" / "status.json").write_text('{"status": "running"}')


def of_ssd(**values):
    return lambda logs: log_set(logs, "ssd", **values)


def damaged_ssd(index, damage):
    return lambda logs: damage(log_set(logs, "ssd")[index])


def as_file(content):
    return lambda logs: (logs.mkdir(), (logs / "result_0.txt").write_bytes(content))


def large(logs):
    logs.mkdir()
    with open(logs / "result_0.txt", "wb") as stream:
        for _ in range(100):
            stream.write(b"x" * ((1 << 20) - 1) + b"\n")


def linked(log):
    outside = log.parent.parent / "outside.txt"
    log.rename(outside)
    log.symlink_to(outside)


HOSTILE_BENCHMARKS = ("../../escape", "/tmp/escape", "ssd\n", "s" * 5000, "bert")
REFUSED = {
    "too few": (lambda logs: log_set(logs, "gnmt", 7), "gnmt: 7 of 10 runs, 3 are missing"),
    "a demo": (ours_of(profile="demo"), "profile demo, .*Set profile=reference"),
    "another profile": (ours_of(profile="other"), "profile other, .*Set profile=reference"),
    "a demo without its settings": (of_ssd(submission_org="DEMO - not an MLPerf result"),
     "Such runs cannot be submitted"),
    "two systems": (two_runs(system="other"),
     "system: our box in .*, other in .*Package them separately"),
    "two precisions": (two_runs(precision="tf32"),
     "precision: fp32 in .*, tf32 in .*Package them separately"),
    "closed with deviations": (lambda logs: resnet_runs(logs, deviations=["a user-defined rate"]),
     "fails the rules .*submission_division: a user-defined rate, needed"),
    "round v0.5": (lambda logs: resnet_runs(logs, rules="v0.5"),
     "resnet: runs of rules=v0.5 cannot be packaged"),
    "a user-defined round": (lambda logs: resnet_runs(logs, rules="v4", ruleset="0.7.0"),
     "resnet: runs of rules=v4 cannot be packaged"),
    "another rate": (
        lambda logs: derived(log_set(logs, "resnet")[3], logs / "result_3.txt", 1, 5,
                             sgd_opt_base_learning_rate=9.9),
        "sgd_opt_base_learning_rate: 6 in .*, 9.9 in .*result_3.txt",
    ),
    "another value of another key": (
     damaged_ssd(3, lambda log: derived(log, log, 1, 5, max_samples=7)),
     "max_samples: 1 in .*, 7 in .*result_3.txt"),
    "another batch": (
        lambda logs: derived(log_set(logs, "resnet")[2], logs / "result_2.txt", 1, 999,
                             global_batch_size=1632),
        "global_batch_size: 3,264 in .*, 1,632 in .*result_2.txt",
    ),
    "a copy": (
     damaged_ssd(4, lambda log: log.write_bytes(log.with_name("result_1.txt").read_bytes())),
     "result_1.txt and .*result_4.txt have the same run_start, so they are copies of the same run"),
    "equal seeds": (
     damaged_ssd(4, lambda log: derived(DATA / "0.7.0" / "ssd.txt", log, 4000, 101, JITTER_MS)),
     "seed_checker 1.0.0: seed: seed 101 in result_1.txt and result_4.txt"),
    "a rule broken": (of_ssd(max_samples=7),
     "result_0.txt fails the rules .*max_samples: 7, needed: one of 1, 50"),
    "a broken line": (
     damaged_ssd(2, lambda log: log.write_text(log.read_text() + ':::MLLOG {"key": \n')),
     "broken JSON.*must not be edited"),
    "a log cut off": (damaged_ssd(2, lambda log: log.write_bytes(log.read_bytes()[:4000])),
     "result_2.txt was cut off"),
    "a running run": (running, "is still being written. Wait until the run has ended"),
    "a running run without a log": (running_without_a_log, "still being written"),
    "an empty file": (as_file(b""), "is not a log"),
    "binary data": (as_file(b"\0" * 5000), "is not a log"),
    "text": (as_file(b"no record\n" * 10), "is not a log"),
    "100 MB without a record": (large, "no line holds :::MLLOG"),
    "an empty folder": (lambda logs: logs.mkdir(), "holds no log"),
    "no folder": (lambda logs: None, "does not exist"),
    "round v0.6": (as_file((DATA / "0.6.0" / "ssd.txt").read_bytes()),
     "contains :::MLL lines. A package needs :::MLLOG logs"),
    "a link out of the logs": (damaged_ssd(3, linked), "is a link to a file in a different folder"),
    **{
        f"benchmark {name[:10]!r}": (
            of_ssd(submission_benchmark=name),
            "a package can contain gnmt, llama31_8b, maskrcnn, ncf, resnet, ssd, transformer",
        )
        for name in HOSTILE_BENCHMARKS
    },
}  # fmt: skip
"""Functions that write a folder of logs, and the message that refuses to package it."""


@pytest.mark.parametrize("case", REFUSED)
def test_logs_that_cannot_be_packaged_are_refused(tmp_path, case):
    write, text = REFUSED[case]
    write(tmp_path / "logs")
    refused([tmp_path / "logs"], tmp_path / "out", text)


def test_a_log_that_grows_during_packaging_is_refused(tmp_path, monkeypatch):
    logs = log_set(tmp_path / "logs", "ssd")

    def grow(*arguments):
        chosen = choose_runs(*arguments)
        with open(logs[3], "a") as stream:
            stream.write("one more line\n")
        return chosen

    monkeypatch.setattr("suite.packaging.write.choose_runs", grow)
    refused([tmp_path / "logs"], tmp_path / "out", "a log was written to while it was read")


def test_notes_list_runs_without_a_log_and_a_different_submitter(tmp_path):
    log_set(tmp_path / "logs", "ssd")
    folder = tmp_path / "logs" / "job" / "run_0"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text('{"status": "oom", "reason": "out of memory"}')
    options = PackageOptions(system="box", submitter="US", status="cloud")
    notes = package([tmp_path / "logs"], tmp_path / "out", options).notes
    assert "left out: job/run_0 has no log in which the clock started (oom)" in notes
    assert (
        "systems/box.json has submitter US, but the logs have EXAMPLE_ORG. Logs are not edited"
        in notes
    )
    assert (
        "systems/box.json has status cloud, but the logs have onprem. Logs are not edited" in notes
    )


@pytest.mark.parametrize(
    "name", ["../up", "/abs", "a b", ".hidden", "", "x\n", "é", "n" * 101, "-x", "a/b", "\x1b[2J"]
)
def test_hostile_names_in_options_are_refused(name):
    assert not is_valid_name(name)
    with pytest.raises(ValueError, match="letters, digits"):
        validated_name("--system", name)


@given(st.text(max_size=200))
def test_names_derived_from_logs_are_always_valid(text):
    assert is_valid_name(sanitized_name(text))


def test_foreign_logs_need_a_system_name_and_their_logged_division(tmp_path):
    logs = log_set(tmp_path / "logs", "ssd", submission_division="open")
    refused([tmp_path / "logs"], tmp_path / "out", "Set --system NAME", PackageOptions())
    refused(
        [tmp_path / "logs"],
        tmp_path / "out",
        "--system ",
        PackageOptions(submitter="O", system="../up"),
    )
    closed = PackageOptions(system="box", division="closed")
    refused(logs, tmp_path / "out", "--division closed: the logs have open", closed)
    package(logs, tmp_path / "out", PackageOptions(system="box", division="open"))
    assert json.loads((tmp_path / "out" / "systems" / "box.json").read_text())["division"] == "open"


@pytest.mark.parametrize("create", [Path.touch, lambda out: out.symlink_to("nowhere"), Path.mkdir])
def test_an_existing_output_is_not_overwritten(tmp_path, create):
    (tmp_path / "logs").mkdir()
    create(tmp_path / "out")
    refused([tmp_path / "logs"], tmp_path / "out", "exists already and is not overwritten")
    refused([tmp_path / "logs"], tmp_path / "logs" / "out", "lies inside")
    with pytest.raises(ValueError, match=r"does not exist. Create it"):
        package([tmp_path / "logs"], tmp_path / "none" / "out", OPTIONS)
    assert not (tmp_path / "none").exists()


def test_foreign_code_is_copied_without_links(tmp_path):
    log_set(tmp_path / "logs", "ssd")
    code = tmp_path / "code"
    (code / "model").mkdir(parents=True)
    (code / ".git").mkdir()
    (code / ".git" / "config").write_text("secret")
    (code / "model" / "train.py").write_text("print()\n")
    (tmp_path / "secret").write_text("secret")
    (code / "link").symlink_to(tmp_path / "secret")
    (code / "folder").symlink_to(tmp_path)
    package([tmp_path / "logs"], tmp_path / "out", PackageOptions(system="box", code=code))
    assert files(tmp_path / "out" / "benchmarks") == ["ssd/implementations/box/model/train.py"]
    (code / "a b").touch()
    refused(
        [tmp_path / "logs"],
        tmp_path / "two",
        "no spaces in names",
        PackageOptions(system="box", code=code),
    )


def test_the_description_is_of_the_machine_that_ran(ours):
    path = ours.folder / "systems" / "our_box_2x_pytorch_2.11.0.json"
    description = json.loads(path.read_text())
    assert tuple(description) == FIELDS
    assert len(FIELDS) == 33
    expected = {
        "submitter": "EXAMPLE_ORG",
        "division": "closed",
        "number_of_nodes": "1",
        "host_processors_per_node": "2",
        "host_processor_model_name": "Test CPU 9000",
        "host_processor_core_count": "20",
        "host_processor_vcpu_count": "40",
        "host_processor_frequency": "3500 MHz",
        "host_processor_caches": "L1 data 32 KiB x 40, L3 unified 50 MiB x 2",
        "host_memory_capacity": "512 GiB",
        "accelerators_per_node": "2",
        "accelerator_model_name": "NVIDIA Test 80GB",
        "accelerator_memory_capacity": "80 GiB",
        "accelerator_interconnect": "NVLink, 18 links active per device",
        "accelerator_interconnect_topology": "NVLink between each two",
        "framework": "PyTorch 2.11.0",
        "operating_system": "Linux-6.8-glibc2.39",
        "hw_notes": "2 NUMA node(s), power limit 700 W per device",
        "cooling": "",
    }
    assert {name: description[name] for name in expected} == expected
    assert description["other_software_stack"]["cuda_driver_version"] == "13.0"
    ((listed, unknown),) = ours.unknown
    assert listed == str(path)
    assert set(unknown) == {
        "host_processor_interconnect", "host_storage_type", "host_storage_capacity",
        "host_networking", "host_networking_topology", "host_memory_configuration",
        "accelerator_host_interconnect", "accelerator_on-chip_memories",
        "accelerator_memory_configuration", "cooling",
    }  # fmt: skip


def test_the_code_that_ran_is_in_the_package(ours):
    place = ours.folder / "benchmarks" / "ncf" / "implementations" / "pytorch"
    assert {"README.md", "settings.json", "setup.sh", "run_and_time.sh"} <= set(files(place))
    sources = (
        "workloads/ncf/workload.py",
        "suite/worker/loop.py",
        "conf/hyperparameters/ncf/reference.yaml",
    )
    for path in (*sources, "environments/torch.txt"):
        committed = subprocess.run(
            ["git", "show", f"{git_state()['commit']}:{path}"], capture_output=True, cwd=PROJECT
        )
        if committed.returncode == 0:
            assert (place / "source" / path).read_bytes() == committed.stdout
        assert (place / "source" / path).stat().st_size > 0
    script = (place / "run_and_time.sh").read_text()
    for word in (
        "workload=ncf",
        "gpus=2",
        "batch=global:1048576",
        "workload.learning_rate=0.0045",
        "runs=official",
    ):
        assert f"  {word} \\\n" in script
    for name in ("setup.sh", "run_and_time.sh"):
        assert os.access(place / name, os.X_OK)
        assert subprocess.run(["bash", "-n", place / name]).returncode == 0
    assert "env create torch" in (place / "setup.sh").read_text()
    assert "secret" not in "".join(path.read_text() for path in place.glob("*.*"))
    assert len(json.loads((place / "settings.json").read_text())["seeds"]) == 100


def test_hostile_text_in_logs_neither_runs_commands_nor_names_paths(tmp_path):
    """Package runs of an unknown commit whose logs contain shell commands and relative paths.

    The runs used CPU cores, one attempt was replaced, and `--code` is not needed.
    """
    hostile = "$(touch ran); `touch ran` \n../../x \x1b[2J<script>"
    resnet_runs(
        tmp_path / "logs",
        device="cpu",
        system="../../up",
        git_commit="--output=x",
        framework=hostile,
    )
    (tmp_path / "logs" / "job" / "superseded" / "run_3-1").mkdir(parents=True)
    (tmp_path / "logs" / "job" / "superseded" / "a note").touch()  # not an attempt
    packaged = package([tmp_path / "logs"], tmp_path / "out", PackageOptions(code=tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["logs", "out"]
    assert_passes_the_tools(tmp_path / "out", tmp_path)
    assert (
        "resnet: --code was not used, because the logs contain the commit of the code"
        in packaged.notes
    )
    assert any(note.startswith("not counted: 1 attempts") for note in packaged.notes)
    assert any("the commit of the runs is not in this checkout" in note for note in packaged.notes)
    ((path, unknown),) = packaged.unknown
    assert json.loads(Path(path).read_text())["accelerators_per_node"] == "0"
    assert not any("accelerator" in name for name in unknown)
    (loop,) = (tmp_path / "out").rglob("source/suite/worker/loop.py")
    assert loop.read_bytes() == (PROJECT / "suite" / "worker" / "loop.py").read_bytes()
    assert all(
        is_valid_name(part)
        for path in files(packaged.folder / "results")
        for part in Path(path).parts
    )
    (script,) = packaged.folder.rglob("run_and_time.sh")
    python = script.parent / "source" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    printed = subprocess.run(["bash", script], capture_output=True, text=True, cwd=tmp_path).stdout
    assert "framework=$(touch ran); `touch ran`" in printed
    assert not list(tmp_path.rglob("ran"))
    assert "<script>" not in (script.parent / "README.md").read_text()


def test_runs_of_commits_whose_code_differs_are_refused(tmp_path):
    history = ["git", "rev-list", "HEAD", "--", "suite/worker/loop.py"]
    commits = subprocess.run(history, capture_output=True, text=True, cwd=PROJECT).stdout.split()
    if len(commits) < 2:
        pytest.skip("no git history")
    resnet_runs(tmp_path / "logs", git_commit=commits[0])
    our_run(tmp_path / "logs" / "job", 4, "resnet50", suite_run={"git_commit": commits[1]})
    refused(
        [tmp_path / "logs"], tmp_path / "out", "are of commits whose code differs", PackageOptions()
    )


def test_different_machines_are_refused(tmp_path):
    first = our_run(tmp_path / "job", 0)
    second = our_run(
        tmp_path / "job", 1, machine={**MACHINE, "cpu": {**MACHINE["cpu"], "model": "Other CPU"}}
    )
    with pytest.raises(
        ValueError, match="the system differ: host_processor_model_name is 'Test CPU 9000'"
    ):
        description_fields([read(first), read(second)])


def test_core_counts_are_empty_if_the_sockets_differ(tmp_path):
    machine = {**MACHINE, "cpu": {**MACHINE["cpu"], "sockets": 3}}
    fields = description_fields([read(our_run(tmp_path, 0, machine=machine))])
    named = ("host_processors_per_node", "host_processor_core_count", "host_processor_vcpu_count")
    assert [fields[name] for name in named] == ["3", "", ""]


def over_nodes(job, *nodes, index=0):
    """Return the log of a run over several nodes, each with its name, topology, and hardware."""
    log = our_run(job, index, suite_run={"nodes": len(nodes), "devices": 2 * len(nodes)})
    path = log.parent / "run.json"
    run = json.loads(path.read_text())
    run["hosts"] = [
        {"name": name, "address": "10.0.0.1", "interface": "eth0"} for name, _, _ in nodes
    ]
    run["hardware"] = {"os": "Linux", "nodes": [hardware for _, _, hardware in nodes]}
    path.write_text(json.dumps(run))
    (log.parent / "topology.json").unlink()
    for name, topology, _ in nodes:
        folder = log.parent / safe_name(name)
        folder.mkdir()
        (folder / "topology.json").write_text(json.dumps(topology))
    return read(log)


WIRED = {**MACHINE, "network": {
    "interfaces": [{"name": "eth0", "state": "up", "megabits_per_second": 25000,
                    "driver": "mlx5_core"}],
    "infiniband": [{"device": "mlx5_0", "port": "1", "link_layer": "InfiniBand",
                    "rate": "200 Gb/sec (4X HDR)"}],
}}  # fmt: skip
HARDWARE = {"os": "Linux-6.8", "cpu_model": "Test CPU 9000", "cpu_cores": 40,
            "memory_bytes": 512 << 30, "gpus": [{"name": "NVIDIA Test 80GB"}] * 4}  # fmt: skip


def test_the_description_lists_the_nodes_of_a_run(tmp_path):
    fields = description_fields(
        [over_nodes(tmp_path, ("left", WIRED, HARDWARE), ("right", WIRED, HARDWARE))]
    )
    network = "eth0, 25000 Mbit/s, driver mlx5_core, mlx5_0 InfiniBand 200 Gb/sec (4X HDR)"
    assert (fields["number_of_nodes"], fields["accelerators_per_node"]) == ("2", "2")
    assert (fields["host_processor_model_name"], fields["operating_system"]) == (
        "Test CPU 9000",
        "Linux-6.8",
    )
    assert fields["host_networking"] == network
    assert (
        fields["hw_notes"] == "2 NUMA node(s), power limit 700 W per device; "
        f"2 nodes (Test CPU 9000, 40 cores, 512 GiB, 4 x NVIDIA Test 80GB, {network}): left, right"
    )


def test_fields_that_differ_between_nodes_are_empty_and_listed_per_node(tmp_path):
    other_hardware = {**HARDWARE, "memory_bytes": 256 << 30}
    smaller = {**MACHINE, "memory_bytes": 256 << 30}
    fields = description_fields(
        [over_nodes(tmp_path, ("left", MACHINE, HARDWARE), ("../right", smaller, other_hardware))]
    )
    assert (fields["host_memory_capacity"], fields["host_processors_per_node"]) == ("", "2")
    node_text = "Test CPU 9000, 40 cores, {} GiB, 4 x NVIDIA Test 80GB, eth0"
    assert str(fields["hw_notes"]).endswith(
        f"; 2 nodes: left ({node_text.format(512)}), ../right ({node_text.format(256)})"
    )


JSON = json_values(20, st.sampled_from(sorted(MACHINE)))


@examples(40)
@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys([*MACHINE, *MACHINE["cpu"], *MACHINE["gpus"][0]], JSON)
    )
)
def test_no_content_of_topology_makes_the_description_raise(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("machine")
    log = our_run(folder, 0, machine={**value, "cpu": value, "gpus": [value, value]})
    fields = description_fields([read(log)])
    assert tuple(fields) == FIELDS
    assert all(
        isinstance(text, str) for name, text in fields.items() if name != "other_software_stack"
    )


def test_an_interruption_leaves_no_files(tmp_path, monkeypatch):
    log_set(tmp_path / "logs", "ssd")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("suite.packaging.write.check_tree", stop)
    with pytest.raises(KeyboardInterrupt):
        package([tmp_path / "logs"], tmp_path / "out", OPTIONS)
    assert os.listdir(tmp_path) == ["logs"]


def recorded(folder, settings):
    """Return the parsed log of a run that only contains its header, with `run.json` next to it."""
    names = (
        "benchmark",
        "submission_org",
        "submission_status",
        "submission_platform",
        "system",
        "device_name",
    )
    identity = dict.fromkeys((*names, "framework_version", "sample_unit", "batch_unit"), "x")
    spec = RunSpec(
        run_index=0, runs_required=5, folder=str(folder), settings=settings,
        dataset_info=DatasetInfo(1, 1, {}, ""), labels=(), division="open", deviations=(), cores=(),
        cache_cleared=False, watchdog_seconds=1.0, setup_watchdog_seconds=1.0, identity=identity,
        environment={"name": "torch"}, versions={}, git={}, hardware={},
    )  # fmt: skip
    spec.write(folder / "run.json")
    with RunLog(folder / "result_0.txt") as log:
        workload = SimpleNamespace(
            metric_signatures=dict,
            round=find_round(settings.rules),
            epoch_samples=EpochSamples(1),
            dataset_info=spec.dataset_info,
        )
        write_log_header(log, spec, workload)
    return read(folder / "result_0.txt")


@pytest.mark.parametrize(
    "overrides",
    [
        ("workload=ncf", "profile=demo", "batch=global:4096", "lr_scaling=sqrt",
         "workload.evaluation_users_per_batch=7"),
        ("workload=ncf", "framework=mxnet", "data.threads=3", "gpus=2", "oversubscribe=true",
         "workload.target=0.5"),
        ("workload=resnet50", "data.decode=scaled", "data.skip_bad=true", "data.threads=5",
         "workload.compile=on"),
        ("workload=resnet50", "workload.evaluation_batch_size=9", "workload.learning_rate=0.25",
         "rules=v0.5"),
        ("workload=ssd", "data.skip_bad=true", "workload.evaluator=faster-coco-eval",
         "cpu.cores_per_device=2"),
        ("workload=maskrcnn", "workload.target.BBOX=0.3"),
        ("workload=gnmt", "workload.target=20"),
        ("workload=transformer", "profile=demo"),
    ],
)  # fmt: skip
def test_run_and_time_repeats_every_setting_of_the_run(tmp_path, overrides):
    """Resolve the arguments of the package's script to the same settings as the packaged run."""

    def resolved(*arguments):
        config = composed(*arguments)
        workload = registry.load_workload(config.workload["name"])
        return resolve_settings(config, workload, registry.load_framework(config.framework.name))

    settings = resolved("device=cpu", "oversubscribe=true", *overrides)
    record = recorded(tmp_path, settings)
    write_scripts(tmp_path, record.settings, recorded_machine(record))
    arguments = shlex.split(
        (tmp_path / "run_and_time.sh").read_text().partition("run_suite.py")[2].replace("\\\n", "")
    )
    assert "environment=torch" in arguments
    assert arguments[-1] == "$@"
    assert resolved(*arguments[:-1]) == settings
    missing = shlex.split(_command_for_missing_runs(record))
    assert missing[:3] == ["Run:", "python", "run_suite.py"]
    assert {word for word in missing[3:] if not word.startswith(("output=", "resume="))} == set(
        arguments[:-1]
    )


def test_run_and_time_asks_for_the_backbone_instead_of_the_submitters_path(tmp_path):
    config = composed("workload=ssd", "profile=reference", "device=cpu", "oversubscribe=true")
    settings = resolve_settings(
        config, registry.load_workload("ssd"), registry.load_framework("pytorch")
    )
    path = f"/home/somebody/{'long/' * 50}resnet34-333f7ec4.pth"
    record = recorded(
        tmp_path, replace(settings, options={**settings.options, "backbone_weights": path})
    )
    write_scripts(tmp_path, record.settings, recorded_machine(record))
    script = tmp_path / "run_and_time.sh"
    assert "somebody" not in script.read_text()
    script.write_text(
        script.read_text()
        .replace('cd "$(dirname "$0")/source"', "")
        .replace(".venv/bin/python", "echo")
    )
    done = subprocess.run(["bash", script], capture_output=True, text=True)
    assert done.returncode != 0
    assert "the path of the file that backbone_weights in the log names" in done.stderr
    environment = {**os.environ, "BACKBONE_WEIGHTS": "/data/my file.pth"}
    done = subprocess.run(["bash", script], capture_output=True, text=True, env=environment)
    assert "backbone.weights=/data/my file.pth" in done.stdout


def test_packaged_code_must_have_the_logged_digest(tmp_path):
    """Refuse to package closed runs if the digest of the code differs from the logged digest."""
    resnet_runs(tmp_path / "first")
    source = next(
        package([tmp_path / "first"], tmp_path / "plain", PackageOptions()).folder.glob(
            "benchmarks/*/*/*/source"
        )
    )
    digest = digest_below(source, "resnet50", "pytorch")
    resnet_runs(tmp_path / "same", code_digest=digest)
    notes = package([tmp_path / "same"], tmp_path / "good", PackageOptions()).notes
    assert not any("Compare them with the code" in note for note in notes)
    for name in ("other", "one_other"):
        resnet_runs(tmp_path / name, code_digest=digest)
        our_run(tmp_path / name / "job", 3, "resnet50", suite_run={"code_digest": "f" * 32})
    resnet_runs(tmp_path / "other", code_digest="f" * 32)
    for name in ("other", "one_other"):
        refused(
            [tmp_path / name],
            tmp_path / "bad",
            r"run_\d.* ran different code than commit",
            PackageOptions(),
        )
