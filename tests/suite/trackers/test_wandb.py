"""Offline runs of Weights & Biases: their records, and what its own program makes of them for a
server.
"""

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
    """The records of one kind of the only run."""
    (file,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    return [one[kind] for one in probed(tmp_path, "wandb", "wandb_records", file) if kind in one]


def told(items, key="nested_key"):
    return {
        "/".join([one[key]] if key == "key" else one[key]): json.loads(one["value_json"])
        for one in items
    }


def test_a_run_is_written_once_when_it_has_ended(tmp_path):
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
    config = told(run["config"]["update"], "key")
    assert config["hyperparameters.opt_base_learning_rate"] == 0.003
    assert (config["system"], config["labels"]) == ("laptop", LABELS)
    rows = [told(one["item"]) for one in records(tmp_path, "history")]
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
    summary = told(records(tmp_path, "summary")[0]["update"])
    assert (summary["result/seconds_to_target"], summary["_wandb/runtime"]) == (6.0, 6)
    assert records(tmp_path, "exit") == [{"runtime": 6}]
    assert [one["path"] for one in records(tmp_path, "files")[0]["files"]] == [
        "result_0.txt",
        "status.json",
    ]


def test_records_longer_than_a_block_are_whole(tmp_path):
    write_run(tmp_path / "logs", "ncf", keys={f"opt_{number}": "x" * 500 for number in range(300)})
    export(tmp_path, "wandb", "logs")
    (run,) = records(tmp_path, "run")
    assert sum("x" * 500 in one["value_json"] for one in run["config"]["update"]) == 300


@pytest.fixture
def server():
    """A stand-in for W&B's server; what it was sent, by its path."""
    sent = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            sent.setdefault(self.path, []).append(body)
            asked = json.loads(body) if self.path == "/graphql" else {}
            answer = {"data": answers(asked)} if asked else {}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_PUT = do_GET = do_POST

        def log_message(self, *words):
            pass

    def answers(asked):
        if "UpsertBucket" in asked["query"]:
            project = {"id": "p", "name": "time-to-target", "entity": {"id": "e", "name": "e"}}
            bucket = {
                "id": "b",
                "name": asked["variables"]["name"],
                "displayName": "d",
                "config": "{}",
                "project": project,
            }
            return {"upsertBucket": {"bucket": {**bucket, "historyLineCount": 0}, "inserted": True}}
        if "CreateRunFiles" in asked["query"]:
            to = [
                {"name": name, "uploadUrl": f"{address}/up/{name}"}
                for name in asked["variables"]["files"]
            ]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": to}}
        return {}

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        address = f"http://127.0.0.1:{listening.server_port}"
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield address, sent
        listening.shutdown()


def test_wandb_itself_takes_the_run_and_nothing_went_online_before(tmp_path, server):
    address, sent = server
    online = {
        "WANDB_BASE_URL": address,
        "WANDB_API_KEY": "a" * 40,
        "WANDB_ERROR_REPORTING": "false",
    }
    folder = write_run(tmp_path / "logs", "ncf", condition=BUSY)
    export(tmp_path, "wandb", "logs", HTTP_PROXY=address, HTTPS_PROXY=address, **online)
    assert not sent
    shutil.rmtree(folder)  # the offline run has files of its own
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
