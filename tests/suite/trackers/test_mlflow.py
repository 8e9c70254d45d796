"""Runs that were exported to MLflow in an SQLite file, read by MLflow's client."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from testing.fake_logs import START_MS, demo_log, write, write_run
from tests.helpers import suite
from tests.suite.trackers.libraries import export, needs, path, probed

pytestmark = [pytest.mark.full, needs("mlflow")]
BUSY = {"busy": ["others took 48 % of its cores"], "others_share": 0.48}
URI = "sqlite:///runs/m.db"


def test_a_growing_run_is_stored_once_with_the_times_of_its_log(tmp_path):
    (tmp_path / "runs").mkdir()
    folder, lines = (
        write_run(tmp_path / "logs", "ncf", status={"status": "running"}),
        demo_log(condition=BUSY),
    )
    (folder / "run.json").write_text(json.dumps({"hosts": [{"name": "a"}, {"name": "b"}]}))
    write(folder / "a" / "telemetry.jsonl", ["{}"])
    ends = [at for at, text in enumerate(lines, start=1) if '"block_stop"' in text]
    write(folder / "result_0.txt", lines[: ends[0]])
    export(tmp_path, "mlflow", "logs", "--output", URI)
    (first,) = probed(tmp_path, "mlflow", "mlflow_runs", URI)
    assert (first["status"], first["times"], first["artifacts"]) == (
        "RUNNING",
        [START_MS, None],
        [],
    )
    assert first["metrics"]["epoch/hr_at_10"] == [[1, 0.3, START_MS + 1999]]

    write(folder / "result_0.txt", lines)
    export(tmp_path, "mlflow", "logs", "--output", URI)
    assert export(tmp_path, "mlflow", "logs", "--output", URI) == f"{URI}: 1 runs, 0 new scalars"
    (run,) = probed(tmp_path, "mlflow", "mlflow_runs", URI)
    labels = "cpu, demo, busy machine: others took 48 % of its cores"
    assert (run["experiment"], run["name"]) == ("time-to-target ncf", f"ncf/run_0 ({labels})")
    assert (run["status"], run["times"]) == ("FINISHED", [START_MS, START_MS + 6000])
    points = [[1, 0.3, START_MS + 1999], [2, 0.5, START_MS + 3999], [3, 0.65, START_MS + 5999]]
    assert run["metrics"]["epoch/hr_at_10"] == points
    assert run["metrics"]["result/seconds_to_target"] == [[303, 6.0, START_MS + 6000]]
    expected = {
        "hyperparameters.opt_base_learning_rate": "0.003",
        "framework": "pytorch",
        "seed": "12345",
    }
    assert expected.items() <= run["params"].items()
    assert run["tags"]["system"] == "laptop"
    for name in ("labels", "mlflow.note.content"):
        assert (
            run["tags"][name]
            == f"{labels.replace(', ', '; ')}; Not verified by MLCommons Association"
        )
    assert not {"mlflow.user", "mlflow.source.name"} & run["tags"].keys(), (
        "the user who exports did not start the run"
    )
    assert run["artifacts"] == ["a", "result_0.txt", "run.json", "status.json"]
    assert (tmp_path / "runs" / "mlartifacts" / "ncf").is_dir()
    assert not (tmp_path / "mlruns").exists()


def test_the_status_and_hundreds_of_hyperparameters_are_stored(tmp_path):
    write_run(
        tmp_path, "a", keys={f"opt_{number}": number for number in range(250)}, qualities=(0.1,)
    )
    write_run(tmp_path, "b", start=9, status={"status": "interrupted"})
    log = tmp_path / "b" / "run_0" / "result_0.txt"
    write(log, log.read_text().splitlines()[:-1])
    export(tmp_path, "mlflow", ".")
    runs = {
        run["name"][0]: run
        for run in probed(tmp_path, "mlflow", "mlflow_runs", "sqlite:///mlflow.db")
    }
    assert {name: run["status"] for name, run in runs.items()} == {"a": "FAILED", "b": "KILLED"}
    assert sum(name.startswith("hyperparameters.opt_") for name in runs["a"]["params"]) > 250


class Failing(BaseHTTPRequestHandler):
    """Server that answers the health check and fails on every later request."""

    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, *args):
        pass


def test_a_failing_server_is_reported_in_one_line_in_bounded_time(tmp_path):
    write_run(tmp_path, "a")
    server = HTTPServer(("127.0.0.1", 0), Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        arguments = ["export", "mlflow", ".", "--output", f"http://127.0.0.1:{server.server_port}"]
        done = suite(tmp_path, *arguments, exits=2, PYTHONPATH=path("mlflow"), timeout=180)
    finally:
        server.shutdown()
        server.server_close()
    assert done.stderr.splitlines()[-1].startswith("suite export: MLflow: ")
    assert "Traceback" not in done.stderr
