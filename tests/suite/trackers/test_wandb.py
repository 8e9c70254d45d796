"""Offline runs of Weights & Biases: their records, and the requests of `wandb sync` to a server."""

import http.server
import json
import shutil
import subprocess
import sys
import threading

import pytest

from testing.fake_logs import START_MS, demo_log, write, write_run
from tests.helpers import suite_env
from tests.suite.trackers.libraries import export, needs, path, probed

pytestmark = [pytest.mark.full, needs("wandb")]
BUSY = {"busy": ["others took 48 % of its cores"], "others_share": 0.48}
LABELS = (
    "cpu; demo; busy machine: others took 48 % of its cores; Not verified by MLCommons Association"
)


def records(tmp_path, kind):
    """Return the records of one kind of the only run."""
    (file,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    return [
        record[kind]
        for record in probed(tmp_path, "wandb", "wandb_records", file)
        if kind in record
    ]


def decoded(items, key="nested_key"):
    return {
        "/".join([item[key]] if key == "key" else item[key]): json.loads(item["value_json"])
        for item in items
    }


def test_a_run_is_written_once_after_its_end(tmp_path):
    folder, lines = (
        write_run(tmp_path / "logs", "ncf", status={"status": "running"}),
        demo_log(condition=BUSY),
    )
    write(folder / "result_0.txt", lines[: len(lines) - 2])
    assert export(tmp_path, "wandb", "logs") == ".: 1 runs, 0 new scalars"
    write(folder / "result_0.txt", lines)
    export(tmp_path, "wandb", "logs")
    assert export(tmp_path, "wandb", "logs") == ".: 1 runs, 0 new scalars"
    (run,) = records(tmp_path, "run")
    assert (run["run_group"], run["notes"]) == ("ncf", LABELS)
    assert run["tags"] == ["cpu", "demo", "busy machine: others took 48 % of its cores"]
    assert run["start_time"] == "2023-11-14T22:13:20Z"
    config = decoded(run["config"]["update"], "key")
    assert config["hyperparameters.opt_base_learning_rate"] == 0.003
    assert (config["system"], config["labels"]) == ("laptop", LABELS)
    rows = [decoded(record["item"]) for record in records(tmp_path, "history")]
    hits = [
        (row["epoch"], row["epoch/hr_at_10"], row["_timestamp"], row["_runtime"])
        for row in rows
        if "epoch" in row
    ]
    start = START_MS / 1000
    assert hits == [
        (1, 0.3, start + 1.999, 1.999),
        (2, 0.5, start + 3.999, 3.999),
        (3, 0.65, start + 5.999, 5.999),
    ]
    assert [row["_step"] for row in rows] == [*range(7)]
    summary = decoded(records(tmp_path, "summary")[0]["update"])
    assert (summary["result/seconds_to_target"], summary["_wandb/runtime"]) == (6.0, 6)
    assert records(tmp_path, "exit") == [{"runtime": 6}]
    assert [record["path"] for record in records(tmp_path, "files")[0]["files"]] == [
        "result_0.txt",
        "status.json",
    ]


def test_records_longer_than_a_block_are_complete(tmp_path):
    write_run(tmp_path / "logs", "ncf", keys={f"opt_{number}": "x" * 500 for number in range(300)})
    export(tmp_path, "wandb", "logs")
    (run,) = records(tmp_path, "run")
    assert sum("x" * 500 in item["value_json"] for item in run["config"]["update"]) == 300


@pytest.fixture
def server():
    """Run a stub of W&B's server; yield its address and the received bodies by path."""
    sent = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            sent.setdefault(self.path, []).append(body)
            request = json.loads(body) if self.path == "/graphql" else {}
            answer = {"data": answers(request)} if request else {}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_PUT = do_GET = do_POST

        def log_message(self, *words):
            pass

    def answers(request):
        if "UpsertBucket" in request["query"]:
            project = {"id": "p", "name": "time-to-target", "entity": {"id": "e", "name": "e"}}
            bucket = {
                "id": "b",
                "name": request["variables"]["name"],
                "displayName": "d",
                "config": "{}",
                "project": project,
            }
            return {"upsertBucket": {"bucket": {**bucket, "historyLineCount": 0}, "inserted": True}}
        if "CreateRunFiles" in request["query"]:
            to = [
                {"name": name, "uploadUrl": f"{address}/up/{name}"}
                for name in request["variables"]["files"]
            ]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": to}}
        return {}

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        address = f"http://127.0.0.1:{listening.server_port}"
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield address, sent
        listening.shutdown()


def test_wandb_sync_uploads_the_run_and_the_export_sends_no_data(tmp_path, server):
    address, sent = server
    online = {
        "WANDB_BASE_URL": address,
        "WANDB_API_KEY": "a" * 40,
        "WANDB_ERROR_REPORTING": "false",
    }
    folder = write_run(tmp_path / "logs", "ncf", condition=BUSY)
    export(tmp_path, "wandb", "logs", HTTP_PROXY=address, HTTPS_PROXY=address, **online)
    assert not sent
    shutil.rmtree(folder)  # The offline run has copies of all files.
    offline = next((tmp_path / "wandb").glob("offline-run-*"))
    command = [sys.executable, "-m", "wandb", "sync", str(offline)]
    environment = suite_env(tmp_path, PYTHONPATH=path("wandb"), **online)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert "Finished syncing" in done.stdout + done.stderr
    (stream,) = [path for path in sent if path.endswith("/file_stream")]
    contents = [
        json.loads(body).get("files", {}).get("wandb-history.jsonl", {}) for body in sent[stream]
    ]
    rows = [json.loads(line) for content in contents for line in content.get("content", [])]
    assert [row["epoch/hr_at_10"] for row in rows if "epoch" in row] == [0.3, 0.5, 0.65]
    assert rows[-1]["_timestamp"] == START_MS / 1000 + 6
    summary = json.loads(sent["/up/wandb-summary.json"][0])
    assert (summary["result/seconds_to_target"], summary["_wandb"]["runtime"]) == (6, 6)
    assert sent["/up/result_0.txt"][0].startswith(":::MLLOG")
