"""`suite_condition`: figures of a run's processes, limits of a busy machine, and the log line."""

import json

import pytest

from suite.control import condition
from suite.worker.heartbeat import WorkerStatus
from suite.worker.runlog import RunLog
from tests.helpers import events

REPORTED = {
    "seconds": 10.0, "run_seconds": 6.0, "wait_seconds": 2.0, "cpu_seconds": 6.0,
    "cores": {"0": [9.0, 1.0, 10.0]}, "load_average": 1.5, "memory_stall_share": 0.02,
}  # fmt: skip


def heartbeat(process=0, **changes):
    return WorkerStatus(process, 1, contention={**REPORTED, **changes})


def figures(*heartbeats, hosts=None, rows=(), serving=()):
    return condition.figures(heartbeats, hosts or ["here"] * len(heartbeats), rows, serving)


def test_figures_of_one_process():
    assert figures(heartbeat()) == {
        **{
            "seconds": 10.0,
            "cpu_share": 0.75,
            "cores": 1,
            "memory_stall_share": 0.02,
            "load_average": 1.5,
        },
        # 9 of 10 seconds were busy: 6 s with this run and 1 s stolen by the hypervisor.
        **{"others_share": 0.2, "stolen_share": 0.1},
    }


def test_processes_add_up_and_cores_that_they_share_count_once():
    alone = figures(heartbeat())
    second = heartbeat(
        1, cpu_seconds=4.0, run_seconds=1.0, wait_seconds=7.0, memory_stall_share=0.5
    )
    shared = figures(heartbeat(cpu_seconds=2.0), second)
    assert (shared["cores"], shared["others_share"]) == (1, alone["others_share"])
    assert (shared["cpu_share"], shared["memory_stall_share"]) == (pytest.approx(7 / 16), 0.5)
    assert figures(heartbeat(), heartbeat(1), hosts=["a", "b"])["cores"] == 2


def test_the_smallest_thread_count_of_all_processes_is_reported():
    assert "threads_per_device" not in figures(heartbeat())
    assert (
        figures(
            heartbeat(), heartbeat(1, threads_per_device=3), heartbeat(2, threads_per_device=2)
        )["threads_per_device"]
        == 2
    )


def test_servers_that_workers_measured_are_part_of_the_run():
    both = figures(
        heartbeat(server_cpu_seconds=1.5),
        heartbeat(1, server_cpu_seconds=1.0, cpu_seconds=0.0),
        serving={"here"},
    )
    # Both workers measure the same servers. The later measurement counts.
    assert (both["others_share"], both["server_share"]) == (0.05, 0.15)
    assert "servers" not in both
    heartbeats = heartbeat(server_cpu_seconds=1.0), heartbeat(1, server_cpu_seconds=0.5)
    elsewhere = figures(*heartbeats, hosts=["a", "b"], serving={"a", "b"})
    assert (elsewhere["server_share"], elsewhere["others_share"]) == (0.075, (16 - 12 - 1.5) / 20)


def test_servers_that_no_worker_measured_count_as_other_processes():
    found = figures(heartbeat(), serving={"here"})
    assert (found["servers"], found["others_share"]) == (1, 0.2)
    assert "server_share" not in found
    assert "servers" not in figures(
        heartbeat(), heartbeat(1, server_cpu_seconds=1.0), hosts=["a", "b"], serving={"b"}
    )


def test_no_figures_if_a_process_reported_none_and_unknown_figures_are_left_out():
    assert figures(heartbeat(), None) == figures(heartbeat(), WorkerStatus(1, 2)) == {}
    contention = {"seconds": 10.0, "cpu_seconds": 1.0, "cores": {}}
    assert condition.figures([WorkerStatus(0, 1, contention=contention)], ["here"], []) == {
        "seconds": 10.0
    }


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        ({"others_share": 0.1, "cpu_share": 0.3}, []),
        ({"others_share": 0.48}, ["other processes took 48 % of its cores"]),
        ({"others_share": 0.22, "servers": 1},
         ["its servers and other processes took 22 % of its cores"]),
        ({"stolen_share": 0.12}, ["the hypervisor took 12 % of its cores"]),
        ({"quota_share": 0.2}, ["its CPU quota stopped it in 20 % of the periods"]),
        ({"memory_stall_share": 0.3}, ["processes waited for memory 30 % of the time"]),
        ({"hot_share": 1.0}, ["its cores were slowed down by heat 100 % of the time"]),
        ({"gpu_slow_share": 0.5}, ["its GPUs were slowed down 50 % of the time"]),
        ({"threads_per_device": 1},
         ["its threads were limited to 1 per device, because cores were in use"]),
        ({"threads_per_device": 1, "others_share": 0.5, "gpu_other_processes": 1},
         ["other processes took 50 % of its cores",
          "its threads were limited to 1 per device, because cores were in use",
          "other processes were on its GPUs"]),
        ({"gpu_other_processes": 1}, ["other processes were on its GPUs"]),
        ({"gpu_other_processes": 0, "load_average": 99.0}, []),
        ({"others_share": 0.2, "stolen_share": 0.2},
         ["other processes took 20 % of its cores", "the hypervisor took 20 % of its cores"]),
    ],
)  # fmt: skip
def test_shares_above_a_tenth_make_a_machine_busy(found, reasons):
    assert condition.busy(found) == reasons


def test_only_the_devices_of_the_run_count(tmp_path):
    path = tmp_path / "telemetry.jsonl"
    keys = ("time_ms", "cpu_clock_mhz", "gpu_clock_mhz", "gpu_slow", "gpu_other_processes")
    samples = [
        (1, 2000.0, [1000, 1980], [1, 0], [3, 0]),
        (2, 3000.0, [1000, 1880], [1, 1], [3, None]),
    ]
    rows = [{"sensors": {}}, *(dict(zip(keys, sample, strict=True)) for sample in samples)]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = figures(heartbeat(), rows=condition.device_rows(path, (1,)))
    assert (found["gpu_clock_mhz"], found["gpu_slow_share"], found["gpu_other_processes"]) == (
        1930.0,
        0.5,
        0,
    )
    assert found["cpu_clock_mhz"] == 2500.0
    assert condition.device_rows(tmp_path / "none", (0,)) == []


@pytest.mark.parametrize("end", ["\n", '\n:::MLLOG {"key": "eval'])
def test_the_line_follows_the_last_line_even_if_that_line_is_incomplete(tmp_path, end):
    path = tmp_path / "result_0.txt"
    with RunLog(path) as log:
        log.end("run_stop", status="success")
    path.write_text(path.read_text().rstrip() + end)
    condition.append(path, {"others_share": 0.5})
    *_, last = path.read_text().splitlines()
    record = json.loads(last.partition(":::MLLOG ")[2])
    assert (record["key"], record["metadata"]["file"]) == (
        "suite_condition",
        "suite/control/condition.py",
    )
    assert record["value"] == {
        "busy": ["other processes took 50 % of its cores"],
        "others_share": 0.5,
    }


def test_on_a_full_disk_no_part_of_the_line_is_written(tmp_path, monkeypatch):
    path = tmp_path / "result_0.txt"
    with RunLog(path) as log:
        log.end("run_stop", status="success")
    before = path.read_bytes()

    def breaks_off(log, key, value):
        log._handler.stream.write(":::MLLOG {")
        log._handler.stream.flush()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunLog, "event", breaks_off)
    condition.append(path, {"others_share": 0.5})
    assert path.read_bytes() == before
    assert [key for key, _, _ in events(path)] == ["run_stop"]


def test_no_log_is_created(tmp_path):
    condition.append(tmp_path / "result_0.txt", {"others_share": 0.5})
    assert list(tmp_path.iterdir()) == []


def test_the_seconds_are_those_of_process_0_which_logs_the_clock():
    reported = [
        WorkerStatus(0, 1, contention={"seconds": seconds, "cpu_seconds": 1.0, "cores": {}})
        for seconds in (9.0, 12.0)
    ]
    assert condition.figures(reported, ["here", "there"], []) == {"seconds": 9.0}
