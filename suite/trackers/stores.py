"""Check the destination of an export before the tracker's library is imported.

Importing the library takes seconds. If the destination is not usable, the error message names the
option to change. A server must respond within SERVER_SECONDS.
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
"""Timeout in seconds for connecting to a server. The same timeout applies to the server's
response.
"""
_LOCK_SECONDS = 5.0
_SQLITE = "sqlite:///"
_SQLITE_HEADER = b"SQLite format 3\0"
_DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_HANDLED_BY_MLFLOW = ("databricks", "databricks-uc", "uc")
_MLFLOW_OUTPUT = (
    "--output sqlite:///FILE, for example sqlite:///mlflow.db, or a server's address,"
    " http://HOST:PORT"
)
_MLFLOW_REMEDY = f"Set {_MLFLOW_OUTPUT}"


def check_store(tracker: str, output: str, setting: str) -> None:
    """Raise ValueError if a tracker cannot write to `output`.

    The error message is a single line.

    Args:
        tracker: `tensorboard`, `mlflow`, or `wandb`.
        output: A folder, or the tracking URI of MLflow.
        setting: The option or environment variable that sets the output, for the error message.
            Examples: `--output x`, `MLFLOW_TRACKING_URI=x`.
    """
    if not output.strip():
        raise ValueError(
            f"{setting}: it is empty."
            f" {_MLFLOW_REMEDY if tracker == 'mlflow' else 'Set --output FOLDER'}"
        )
    if tracker == "mlflow":
        _check_mlflow(output, setting)
        return
    if "://" in output:
        raise ValueError(
            f"{setting}: {tracker} takes a folder, not an address. Set --output FOLDER"
        )
    _check_folder(
        Path(output) / "wandb" if tracker == "wandb" else Path(output),
        setting,
        "Set --output FOLDER",
    )


def _check_folder(folder: Path, setting: str, remedy: str) -> None:
    """Raise ValueError if no files can be created in a folder.

    The folder may be missing if it can be created.
    """
    existing = _nearest_existing(folder)
    if not existing.is_dir():
        raise ValueError(f"{setting}: {existing} is not a folder. {remedy}")
    if not os.access(existing, os.W_OK | os.X_OK) or existing.resolve().is_relative_to("/proc"):
        raise ValueError(
            f"{setting}: no permission to write into {existing}. {remedy} that you may write to"
        )


def _nearest_existing(path: Path) -> Path:
    path = path.absolute()
    return next((above for above in (path, *path.parents) if os.path.lexists(above)), Path("/"))


def _check_mlflow(output: str, setting: str) -> None:
    try:
        address = urlsplit(output)
        port = address.port
    except ValueError as error:
        raise ValueError(f"{setting}: not a tracking URI ({error}). {_MLFLOW_REMEDY}") from None
    scheme = address.scheme.partition("+")[0]
    if scheme in ("http", "https"):
        _check_server(output, address, setting)
    elif scheme in _DATABASE_PORTS:
        if address.hostname:
            _connect(address.hostname, port or _DATABASE_PORTS[scheme], setting)
    elif scheme == "sqlite":
        _check_sqlite(output, setting)
    elif output not in _HANDLED_BY_MLFLOW and scheme not in _HANDLED_BY_MLFLOW:
        _refuse_folder_or_scheme(output, scheme, setting)


def _refuse_folder_or_scheme(output: str, scheme: str, setting: str) -> None:
    """Raise ValueError if `output` is a plain folder or has an unsupported URI scheme.

    MLflow no longer supports plain folders.
    """
    if scheme not in ("", "file"):
        schemes = ", ".join(f"{name}://" for name in ("sqlite", "http", "https", *_DATABASE_PORTS))
        raise ValueError(
            f"{setting}: MLflow has no store for {scheme}, allowed: {schemes}. {_MLFLOW_REMEDY}"
        )
    path = Path(urlsplit(output).path if scheme else output)
    if path.suffix in (".db", ".sqlite", ".sqlite3") or (path.is_file() and _is_sqlite(path)):
        raise ValueError(
            f"{setting}: a file needs the prefix sqlite:///. Set --output {_SQLITE}{path}"
        )
    raise ValueError(f"{setting}: MLflow no longer writes to folders. {_MLFLOW_REMEDY}")


def _check_sqlite(output: str, setting: str) -> None:
    name = output.partition("?")[0].removeprefix(_SQLITE)
    if not output.startswith(_SQLITE):
        meant = output.partition(":")[2].lstrip("/") or "mlflow.db"
        raise ValueError(f"{setting}: three slashes are needed. Set --output {_SQLITE}{meant}")
    if name in ("", ":memory:"):
        raise ValueError(
            f"{setting}: a database in memory is lost when the command ends. Set --output"
            f" {_SQLITE}mlflow.db"
        )
    file = Path(name)
    if file.is_dir():
        raise ValueError(
            f"{setting}: {file} is a folder. Set --output {_SQLITE}{file / 'mlflow.db'}"
        )
    if os.path.lexists(file) and not file.is_file():
        raise ValueError(f"{setting}: {file} is not a regular file. {_MLFLOW_REMEDY}")
    _check_folder(file.parent, setting, f"Set --output {_SQLITE}FILE in a folder")
    if not file.exists() or not file.stat().st_size:
        return
    if not _is_sqlite(file):
        raise ValueError(
            f"{setting}: {file} is not an SQLite database. Set --output"
            f" {_SQLITE}FILE to a different file"
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
            f"cannot be written ({error}). End the program that uses it, or set --output"
            f" {_SQLITE}FILE to a different file"
        )
        raise ValueError(f"{setting}: {file} {why}") from None


def _is_sqlite(file: Path) -> bool:
    try:
        with files.open_stream(file) as stream:
            return stream.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER
    except OSError:
        return False


def _check_server(output: str, address: SplitResult, setting: str) -> None:
    """Raise ValueError if a server does not respond to a request.

    A response with any HTTP status is sufficient.
    """
    if not address.hostname:
        raise ValueError(f"{setting}: it has no host. Set --output http://HOST:PORT")
    try:
        with urllib.request.urlopen(f"{output.rstrip('/')}/health", timeout=SERVER_SECONDS):
            pass
    except urllib.error.HTTPError:
        return  # The server responds with an error status. MLflow reports rejected requests later.
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):
            return  # MLflow may be configured to accept a certificate that Python rejects.
        raise ValueError(_no_answer(setting, reason)) from None


def _connect(host: str, port: int, setting: str) -> None:
    try:
        socket.create_connection((host, port), SERVER_SECONDS).close()
    except OSError as error:
        raise ValueError(_no_answer(setting, error)) from None


def _no_answer(setting: str, error: object) -> str:
    why = str(error) or type(error).__name__
    if isinstance(error, TimeoutError):
        why = f"no answer within {SERVER_SECONDS:.0f} s"
    return f"{setting}: the server cannot be used: {why}. Start the server, or set {_MLFLOW_OUTPUT}"
