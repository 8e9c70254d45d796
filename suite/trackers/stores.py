"""Checks of the place that runs are exported to, before a tracker's library is imported: that takes
seconds.

A place that cannot take runs is refused with what to set. A server gets a bounded time to answer.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import sqlite3
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from workloads import files

SERVER_SECONDS = 10.0
"""Time that a server gets to accept a connection, and again to answer."""
_LOCK_SECONDS = 5.0
_SQLITE = "sqlite:///"
_SQLITE_HEADER = b"SQLite format 3\0"
_DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_HANDLED_BY_MLFLOW = ("databricks", "databricks-uc", "uc")
_MLFLOW_REMEDY = (
    "set --output sqlite:///FILE, for example sqlite:///mlflow.db, or a server's address,"
    " http://HOST:PORT"
)


def check_store(tracker: str, output: str, given: str) -> None:
    """Raise ValueError with one line if `output` cannot take the runs of a tracker.

    Args:
        tracker: `tensorboard`, `mlflow` or `wandb`.
        output: A folder, or the tracking URI of MLflow.
        given: The output as it was set, for the message: `--output x`, `MLFLOW_TRACKING_URI=x`.
    """
    if not output.strip():
        raise ValueError(
            f"{given}: it is empty;"
            f" {_MLFLOW_REMEDY if tracker == 'mlflow' else 'set --output FOLDER'}"
        )
    if tracker == "mlflow":
        _check_mlflow(output, given)
        return
    if "://" in output:
        raise ValueError(f"{given}: {tracker} takes a folder, not an address; set --output FOLDER")
    _check_folder(
        Path(output) / "wandb" if tracker == "wandb" else Path(output), given, "set --output FOLDER"
    )


def _check_folder(folder: Path, given: str, remedy: str) -> None:
    """Raise ValueError unless files can be made in a folder, which may be missing."""
    existing = _nearest_existing(folder)
    if not existing.is_dir():
        raise ValueError(f"{given}: {existing} is not a folder; {remedy}")
    if not os.access(existing, os.W_OK | os.X_OK) or existing.resolve().is_relative_to("/proc"):
        raise ValueError(
            f"{given}: no permission to write into {existing}; {remedy} that you may write to"
        )


def _nearest_existing(path: Path) -> Path:
    path = path.absolute()
    return next((above for above in (path, *path.parents) if os.path.lexists(above)), Path("/"))


def _check_mlflow(output: str, given: str) -> None:
    try:
        address = urlsplit(output)
        port = address.port
    except ValueError as error:
        raise ValueError(f"{given}: not a tracking URI ({error}); {_MLFLOW_REMEDY}") from None
    scheme = address.scheme.partition("+")[0]
    if scheme in ("http", "https"):
        _check_server(output, address, given)
    elif scheme in _DATABASE_PORTS:
        if address.hostname:
            _connect(address.hostname, port or _DATABASE_PORTS[scheme], given)
    elif scheme == "sqlite":
        _check_sqlite(output, given)
    elif output not in _HANDLED_BY_MLFLOW and scheme not in _HANDLED_BY_MLFLOW:
        _refuse_folder_or_scheme(output, scheme, given)


def _refuse_folder_or_scheme(output: str, scheme: str, given: str) -> None:
    """Raise ValueError for a folder, which MLflow writes no runs to any more, or for an unknown
    scheme.
    """
    if scheme not in ("", "file"):
        schemes = ", ".join(f"{name}://" for name in ("sqlite", "http", "https", *_DATABASE_PORTS))
        raise ValueError(
            f"{given}: MLflow has no store for {scheme}; allowed: {schemes}; {_MLFLOW_REMEDY}"
        )
    path = Path(urlsplit(output).path if scheme else output)
    if path.suffix in (".db", ".sqlite", ".sqlite3") or (path.is_file() and _is_sqlite(path)):
        raise ValueError(
            f"{given}: a file needs the prefix sqlite:///; set --output {_SQLITE}{path}"
        )
    raise ValueError(f"{given}: MLflow no longer writes to folders; {_MLFLOW_REMEDY}")


def _check_sqlite(output: str, given: str) -> None:
    name = output.partition("?")[0].removeprefix(_SQLITE)
    if not output.startswith(_SQLITE):
        meant = output.partition(":")[2].lstrip("/") or "mlflow.db"
        raise ValueError(f"{given}: three slashes are needed; set --output {_SQLITE}{meant}")
    if name in ("", ":memory:"):
        raise ValueError(
            f"{given}: a database in memory is lost when the command ends; set --output"
            f" {_SQLITE}mlflow.db"
        )
    file = Path(name)
    if file.is_dir():
        raise ValueError(f"{given}: {file} is a folder; set --output {_SQLITE}{file / 'mlflow.db'}")
    if os.path.lexists(file) and not file.is_file():
        raise ValueError(f"{given}: {file} is not a regular file; {_MLFLOW_REMEDY}")
    _check_folder(file.parent, given, f"set --output {_SQLITE}FILE in a folder")
    if not file.exists() or not file.stat().st_size:
        return
    if not _is_sqlite(file):
        raise ValueError(
            f"{given}: {file} is not an SQLite database; set --output {_SQLITE}FILE to another file"
        )
    try:
        with contextlib.closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", timeout=_LOCK_SECONDS, uri=True)
        ) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("SELECT count(*) FROM sqlite_master")
            database.rollback()
    except sqlite3.Error as error:
        why = (
            f"cannot be written ({error}); end the program that uses it, or set --output"
            f" {_SQLITE}FILE to another file"
        )
        raise ValueError(f"{given}: {file} {why}") from None


def _is_sqlite(file: Path) -> bool:
    try:
        with files.open_stream(file) as stream:
            return stream.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER
    except OSError:
        return False


def _check_server(output: str, address: SplitResult, given: str) -> None:
    """Raise ValueError unless a server answers a request, with whatever status."""
    if not address.hostname:
        raise ValueError(f"{given}: no host in it; set --output http://HOST:PORT")
    try:
        with urllib.request.urlopen(f"{output.rstrip('/')}/health", timeout=SERVER_SECONDS):
            pass
    except urllib.error.HTTPError:
        return  # a server that answers; MLflow reports what it refuses
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):
            return  # MLflow has settings for certificates
        raise ValueError(_no_answer(given, reason)) from None


def _connect(host: str, port: int, given: str) -> None:
    try:
        socket.create_connection((host, port), SERVER_SECONDS).close()
    except OSError as error:
        raise ValueError(_no_answer(given, error)) from None


def _no_answer(given: str, error: object) -> str:
    why = str(error) or type(error).__name__
    if isinstance(error, TimeoutError):
        why = f"no answer within {SERVER_SECONDS:.0f} s"
    return f"{given}: the server cannot be used: {why}; start it, or {_MLFLOW_REMEDY}"
