"""Jobs: reasons for the open division apart from the settings, and runs that resuming keeps."""

import gzip
import json
from dataclasses import replace

import pytest

from suite.common import source_code
from suite.common.run_folder import SUPERSEDED
from suite.common.source_code import expected_digest
from suite.launch import private_network
from suite.launch.hosts import AvailableHost
from suite.plan.jobs import plan
from suite.plan.resume import finished_status, move_to_superseded
from tests.helpers import composed
from workloads.ncf.dataset_info import published_facts
from workloads.ncf.workload import NCF


@pytest.fixture
def job(monkeypatch, tmp_path):
    """Return a function that plans a job of NCF on ML-20M in the current Python.

    The data set need not exist.
    """
    monkeypatch.setattr(
        NCF, "load_dataset_info", classmethod(lambda cls, settings: published_facts())
    )
    # Tests also run before a commit.
    monkeypatch.setattr(source_code, "files_unlike_commit", lambda workload, framework: [])

    def plan_job(*overrides):
        words = (
            "workload=ncf",
            "device=cpu",
            "profile=reference",
            "environment=current",
            *overrides,
        )
        return plan(composed(*words), "job", tmp_path).job

    return plan_job


@pytest.mark.parametrize(
    ("words", "cleared", "deviations"),
    [
        ((), True, ()),
        (("workload.epsilon=1e-8", "workload.max_epochs=5"), True, ()),
        ((), False, ("cache_clear false, not true",)),
        (("seed=1",), True, ("seed from user, not system",)),
        # All runs of an open job have the same reasons, so that they share a row of a table.
        (("workload.epsilon=1e-6",), False, ("epsilon 1e-06, not 1e-08 or 1.45439e-07",)),
    ],
)
def test_reasons_that_make_a_run_open(job, words, cleared, deviations):
    run = job(*words).run(0, cache_cleared=cleared)
    texts = tuple(deviation.text for deviation in run.deviations)
    assert (run.division, texts) == ("open" if deviations else "closed", deviations)


@pytest.mark.parametrize(
    ("name", "value", "division"),
    [
        ("TF_ENABLE_ONEDNN_OPTS", "0", "open"),
        ("NVIDIA_TF32_OVERRIDE", "1", "open"),
        ("ONEDNN_DEFAULT_FPMATH_MODE", "bf16", "open"),
        ("NCCL_DEBUG", "INFO", "closed"),
        ("OMP_NUM_THREADS", "7", "closed"),
    ],
)
def test_variables_that_change_the_arithmetic_make_a_run_open(
    job, monkeypatch, name, value, division
):
    monkeypatch.setenv(name, value)
    run = job().run(0, cache_cleared=True)
    assert run.division == division
    assert run.environment_variables.get(name) == (None if name == "OMP_NUM_THREADS" else value)
    assert [deviation.setting for deviation in run.deviations] == (
        [name] if division == "open" else []
    )


TWO_DEVICES = ("framework=tensorflow", "gpus=2", "oversubscribe=true")


@pytest.fixture
def draft_of(monkeypatch, tmp_path):
    """Return a function that plans a command.

    The machine allows private networks, or not. The hosts may be remote.
    """
    monkeypatch.setattr(
        NCF, "load_dataset_info", classmethod(lambda cls, settings: published_facts())
    )

    def plan_command(*overrides, fault="Operation not permitted", hosts=()):
        monkeypatch.setattr(private_network, "unavailable_reason", lambda: fault)
        words = (
            "workload=ncf",
            "device=cpu",
            "profile=reference",
            "environment=current",
            *overrides,
        )
        return plan(composed(*words), "job", tmp_path, hosts=hosts)

    return plan_command


def test_open_servers_on_one_machine_are_refused_unless_the_user_allows_them(
    draft_of,
):
    (finding,) = draft_of(*TWO_DEVICES).findings
    assert str(finding).startswith(
        "gpus=2 framework=tensorflow: the servers of TensorFlow have no authentication"
    )
    assert "(Operation not permitted)" in str(finding)
    assert "set framework.allow_open_grpc=true" in str(finding)
    for words, fault in (
        (TWO_DEVICES, ""),
        (("framework=tensorflow",), "no"),
        (("framework=pytorch", *TWO_DEVICES[1:]), "no"),
    ):
        planned = draft_of(*words, fault=fault)
        assert (planned.findings, planned.notes, planned.job.template.open_network) == (
            (),
            (),
            False,
        )
    planned = draft_of(*TWO_DEVICES, "framework.allow_open_grpc=true")
    assert planned.job.template.open_network
    (note,) = planned.notes
    assert note.startswith(
        "warning: the servers of TensorFlow have no authentication and listen on all interfaces"
    )


def test_open_servers_on_several_machines_print_a_warning_and_a_remote_machine_decides_itself(
    draft_of,
):
    hosts = [
        AvailableHost(name, "10.0.0.1", "eth0", (0, 1), {"gpus": [], "cpu_model": "C"}, "", "no")
        for name in "ab"
    ]
    planned = draft_of(
        *TWO_DEVICES, "nodes=2", "launch=ssh", "launch.hosts=[a,b]", fault="", hosts=hosts
    )
    assert planned.findings == ()
    (note,) = planned.notes
    assert "Block access from outside with a firewall (docs/how-to/multiple_nodes.md)" in note
    (finding,) = draft_of(
        *TWO_DEVICES, "launch=ssh", "launch.hosts=[a]", fault="", hosts=hosts[:1]
    ).findings
    assert "(no)" in str(finding)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (["suite/worker/loop.py"], "code unlike its commit: suite/worker/loop.py"),
        (
            ["suite/a.py", "suite/b.py", "suite/c.py"],
            "code unlike its commit: suite/a.py and 2 more",
        ),
    ],
)
def test_code_that_differs_from_its_commit_makes_a_run_open(job, monkeypatch, changed, reason):
    monkeypatch.setattr(source_code, "files_unlike_commit", lambda workload, framework: changed)
    run = job().run(0, cache_cleared=True)
    assert (run.division, *map(str, run.deviations)) == ("open", reason)
    (deviation,) = job("workload.epsilon=1e-6").run(0, cache_cleared=True).deviations
    assert deviation.text == "epsilon 1e-06, not 1e-08 or 1.45439e-07"
    assert run.code_digest == expected_digest("ncf", run.settings.framework)


def test_each_run_of_a_job_has_a_different_seed(job):
    planned = job()
    assert (
        planned.run(0, cache_cleared=True).settings.seed
        != planned.run(1, cache_cleared=True).settings.seed
    )
    assert [job("seed=5").run(index, cache_cleared=True).settings.seed for index in (0, 2)] == [
        5,
        7,
    ]


def test_a_finished_run_is_kept_only_for_equal_settings_and_data(job, tmp_path):
    planned = job()
    run, again = planned.run(0, cache_cleared=True), planned.run(1, cache_cleared=False)
    run.write(tmp_path / "run.json")
    assert finished_status(tmp_path, again) == ""  # its controller was killed
    (tmp_path / "result_1.txt").touch()
    assert finished_status(tmp_path, again) == ""
    with_new_data = replace(run, dataset_info=replace(run.dataset_info, fingerprint="new data"))
    ends = {
        "success": ({"status": "success"}, "success"),
        "a missed target": ({"status": "aborted"}, "target_missed"),
        "a failure": ({"status": "aborted", "reason": "OSError: no space"}, ""),
    }
    for metadata, expected in ends.values():
        may_be_lost = {"status": "success"} if expected else {"status": "failed"}
        stop = {"key": "run_stop", "value": None, "time_ms": 1, "metadata": metadata}
        (tmp_path / "result_1.txt").write_text(f":::MLLOG {json.dumps(stop)}\n")
        for filed in (may_be_lost, {"status": "interrupted"}, {}):
            (tmp_path / "status.json").write_text(json.dumps(filed))
            assert finished_status(tmp_path, again) == expected
        with_new_variables = replace(run, environment_variables={"XLA_FLAGS": "--a"})
        with_new_batch = replace(run, settings=replace(run.settings, global_batch_size=4096))
        for changed in (with_new_data, with_new_variables, with_new_batch):
            with pytest.raises(ValueError, match="holds a run with different settings or data"):
                finished_status(tmp_path, changed)
    with_new_gpu = replace(
        run, environment_variables={**run.environment_variables, "CUDA_VISIBLE_DEVICES": "3"}
    )
    assert finished_status(tmp_path, with_new_gpu) == finished_status(tmp_path, again)


STOP = ':::MLLOG {"key": "run_stop", "metadata": {"status": "success"}}\n'
LOST = {
    "the log was deleted": None,
    "the log was emptied": "",
    "the end was cut off": ':::MLLOG {"key": "run_start", "metadata": {}}\n',
    "a reason was added": STOP.replace('"success"', '"aborted", "reason": "OSError: no space"'),
    "the key was edited": STOP.replace("run_stop", "run_stop "),
    "the key is escaped": STOP.replace("run_stop", "run\\u005fstop"),
    "the log was damaged": ':::MLLOG {"key": "run_stop"\n',
}


@pytest.mark.parametrize("filed", ["success", "target_missed"])
@pytest.mark.parametrize("trick", LOST)
def test_a_finished_run_whose_log_was_lost_is_not_run_again(job, tmp_path, trick, filed):
    run = job().run(0, cache_cleared=True)
    run.write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text(json.dumps({"status": filed}))
    if LOST[trick] is not None:
        (tmp_path / "result_0.txt").write_text(LOST[trick])
    with pytest.raises(ValueError, match=r"^[^\n]*holds a finished run[^\n]*status\.json[^\n]*$"):
        finished_status(tmp_path, run)


def test_a_compressed_log_is_not_run_again(job, tmp_path):
    run = job().run(0, cache_cleared=True)
    run.write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text('{"status": "success"}')
    (tmp_path / "result_0.txt.gz").write_bytes(gzip.compress(STOP.encode()))
    with pytest.raises(ValueError, match="decompressed"):
        finished_status(tmp_path, run)


@pytest.mark.parametrize("filed", ["running", "interrupted", "failed", "oom", "hung", "rank_died"])
def test_an_unfinished_run_without_a_log_is_run_again(job, tmp_path, filed):
    run = job().run(0, cache_cleared=True)
    run.write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text(json.dumps({"status": filed}))
    assert finished_status(tmp_path, run) == ""


def test_a_run_of_fixed_length_that_ended_is_a_success(job, tmp_path):
    run = job("stop=steps:5").run(0, cache_cleared=True)
    run.write(tmp_path / "run.json")
    (tmp_path / "result_0.txt").write_text(
        ':::MLLOG {"key": "run_stop", "metadata": {"status": "aborted"}}\n'
    )
    assert finished_status(tmp_path, run) == "success"


def test_a_damaged_run_json_is_named(job, tmp_path):
    run = job().run(0, cache_cleared=True)
    run.write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text('{"status": "success"}')
    whole = json.loads((tmp_path / "run.json").read_text())
    wrong = (
        {"dataset_info": []},
        {"settings": []},
        {"schema": [[[]]]},
        {"settings": {**whole["settings"], "options": "x"}},
    )
    for content in (
        {"schema": whole["schema"]},
        *({**whole, **part} for part in wrong),
        int("1" * 4000),
    ):
        (tmp_path / "run.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"^\S*run\.json\b[^\n]*$"):
            finished_status(tmp_path, run)


@pytest.mark.parametrize("content", ["[]", "null", "3", '"x"', "{}", "[" * 100_000])
def test_an_invalid_run_json_is_named_and_a_log_without_an_end_is_unfinished(
    job, tmp_path, content
):
    run = job().run(0, cache_cleared=True)
    run.write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text('{"status": "interrupted"}')
    (tmp_path / "result_0.txt").write_text(
        f':::MLLOG {content}\nrun_stop\n:::MLLOG {{"key": "run_stop"\n'
    )
    assert finished_status(tmp_path, run) == ""
    (tmp_path / "run.json").write_text(content)
    (tmp_path / "status.json").write_text('{"status": "success"}')
    with pytest.raises(ValueError, match=r"^\S*run\.json"):
        finished_status(tmp_path, run)


def test_every_unfinished_attempt_is_kept(tmp_path):
    for attempt in range(3):
        (tmp_path / "run_0").mkdir()
        (tmp_path / "run_0" / "log").write_text(str(attempt))
        move_to_superseded(tmp_path / "run_0")
    kept = {path.name: (path / "log").read_text() for path in (tmp_path / SUPERSEDED).iterdir()}
    assert kept == {"run_0-1": "0", "run_0-2": "1", "run_0-3": "2"}
