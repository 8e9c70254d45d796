"""Unusable outputs are refused in one line, within seconds, before a tracker is imported."""

import os
import socket
import sqlite3
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from suite.trackers import stores
from testing.fake_logs import write_run
from tests.helpers import suite_here
from tests.suite.trackers.libraries import needs, path

SQLITE = "Set --output sqlite:///FILE, for example sqlite:///mlflow.db"
MLFLOW = {
    "./mlruns": f"MLflow no longer writes to folders. {SQLITE}",
    "mlruns": f"MLflow no longer writes to folders. {SQLITE}",
    "file:mlruns": f"MLflow no longer writes to folders. {SQLITE}",
    "file:///tmp/mlruns": f"MLflow no longer writes to folders. {SQLITE}",
    "a.db": "a file needs the prefix sqlite:///. Set --output sqlite:///a.db",
    "database": "a file needs the prefix sqlite:///. Set --output sqlite:///database",
    "foo://x": "MLflow has no store for foo, allowed: sqlite://, http://, https://, postgresql://",
    "s3://bucket/x": "MLflow has no store for s3",
    "sqlite:a.db": "three slashes are needed. Set --output sqlite:///a.db",
    "sqlite://a.db": "three slashes are needed. Set --output sqlite:///a.db",
    "sqlite://": "three slashes are needed. Set --output sqlite:///mlflow.db",
    "sqlite:///": "a database in memory is lost when the command ends",
    "sqlite:///:memory:": "a database in memory is lost when the command ends",
    "sqlite:///text": "text is not an SQLite database. Set --output sqlite:///FILE",
    "sqlite:///folder": "folder is a folder. Set --output sqlite:///folder/mlflow.db",
    "sqlite:///text/m.db": "text is not a folder. Set --output",
    "sqlite:////dev/null": "/dev/null is not a regular file",
    "sqlite:///damaged": "damaged cannot be written (",
    "http://": "it has no host. Set --output http://HOST:PORT",
    "http://[::1": "not a tracking URI",
    "http://127.0.0.1:99999": "not a tracking URI",
    "http://127.0.0.1:9": "the server cannot be used: ",
    "http://no-such-host.invalid:5000": "the server cannot be used: ",
    "postgresql://127.0.0.1:9/x": "the server cannot be used: ",
    "mysql+pymysql://127.0.0.1:9/x": "the server cannot be used: ",
    "": "it is empty. Set --output sqlite:///FILE",
    " ": "it is empty. Set --output sqlite:///FILE",
}
FOLDERS = {
    "text": "text is not a folder. Set --output FOLDER",
    "text/x": "text is not a folder. Set --output FOLDER",
    "/dev/null": "/dev/null is not a folder. Set --output FOLDER",
    "/proc/x": "no permission to write into /proc. Set --output FOLDER",
    "http://127.0.0.1:9": "takes a folder, not an address. Set --output FOLDER",
    "s3://bucket/x": "takes a folder, not an address. Set --output FOLDER",
    "": "it is empty. Set --output FOLDER",
}
CASES = [("mlflow", *case) for case in MLFLOW.items()]
CASES += [(tracker, *case) for tracker in ("tensorboard", "wandb") for case in FOLDERS.items()]


@pytest.fixture
def folder(tmp_path):
    write_run(tmp_path / "logs", "ncf")
    (tmp_path / "text").write_text("no database\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged").write_bytes(b"SQLite format 3\0" + bytes(200))
    make_database(tmp_path / "database")
    return tmp_path


def make_database(file):
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE t (x)")
    database.close()


@pytest.mark.parametrize(("tracker", "output", "message"), CASES)
def test_an_unusable_output_is_refused_in_one_line(folder, tracker, output, message):
    began = time.monotonic()
    done = suite_here(folder, "export", tracker, "logs", "--output", output, exits=2)
    assert done.stderr.startswith(f"suite export: --output {output}: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert time.monotonic() - began < 5 * stores.SERVER_SECONDS
    assert not {"mlflow", "tensorboard", "wandb"} & set(sys.modules), "the library was not imported"


@pytest.mark.parametrize("variable", ["MLFLOW_TRACKING_URI", "WANDB_DIR"])
def test_an_output_in_an_environment_variable_is_named_by_the_variable(folder, variable):
    tracker = variable.partition("_")[0].lower()
    done = suite_here(folder, "export", tracker, "logs", exits=2, **{variable: "text"})
    assert done.stderr.startswith(f"suite export: {variable}=text: ")


def test_a_server_that_never_answers_times_out(monkeypatch):
    monkeypatch.setattr(stores, "SERVER_SECONDS", 0.5)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        began = time.monotonic()
        with pytest.raises(
            ValueError,
            match=r"^x: the server cannot be used: no answer within 0 s. Start the server, or set ",
        ):
            stores.check_store("mlflow", f"http://127.0.0.1:{server.getsockname()[1]}", "x")
        assert time.monotonic() - began < 30


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.end_headers()

    def log_message(self, *args):
        pass


def test_usable_outputs_are_accepted(folder):
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        web = f"http://127.0.0.1:{server.server_port}"
        for output in (
            web,
            f"{web}/mlflow/",
            "sqlite:///new/folder/m.db",
            f"sqlite:///{folder / 'database'}",
            "databricks",
        ):
            stores.check_store("mlflow", output, output)
    finally:
        server.shutdown()
        server.server_close()
    for tracker in ("tensorboard", "wandb"):
        stores.check_store(tracker, str(folder / "a" / "b"), "x")
    assert not (folder / "a").exists(), "a check writes nothing"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize(
    ("tracker", "output"),
    [("mlflow", "sqlite:///{}/m.db"), ("wandb", "{}"), ("tensorboard", "{}/x")],
)
def test_a_folder_without_permission_is_refused(folder, tracker, output):
    (folder / "closed").mkdir(mode=0o555)
    with pytest.raises(ValueError, match=r"no permission to write into .*closed. Set --output"):
        stores.check_store(tracker, output.format(folder / "closed"), "x")


def test_a_locked_database_is_refused(folder, monkeypatch):
    monkeypatch.setattr(stores, "_LOCK_SECONDS", 0.1)
    with sqlite3.connect(folder / "database") as database:
        database.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(
            ValueError,
            match=r"cannot be written \(database is locked\). End the program that uses it",
        ):
            stores.check_store("mlflow", f"sqlite:///{folder / 'database'}", "x")
    database.close()


@pytest.mark.full
@needs("mlflow")
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("databricks", "MLflow: Reading Databricks credential configuration failed"),
        ("uc:x", "MLflow: Detected Unity Catalog tracking URI"),
        ("postgresql:///x", "needs the Python package psycopg"),
    ],
)
def test_an_error_of_mlflow_is_reported_in_one_line(folder, output, message):
    from tests.helpers import suite

    done = suite(
        folder, "export", "mlflow", "logs", "--output", output, exits=2, PYTHONPATH=path("mlflow")
    )
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
