"""Write the folder `benchmarks/BENCHMARK/implementations/NAME` of a package.

The folder contains the code of the runs, their settings, and scripts that repeat the runs.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from suite.common import registry
from suite.common.git_state import run_git
from suite.common.paths import PROJECT, shipped
from suite.common.source_code import digest_below, uses_plugin
from suite.compliance.equivalences import equivalences
from suite.packaging.choose_runs import ChosenRuns
from suite.packaging.layout import FILE_BYTES_LIMIT
from suite.packaging.recorded_overrides import recorded_machine
from suite.packaging.scripts import write_scripts
from suite.results.logs.lines import read_file
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.text import clean, markdown_escape
from workloads import files
from workloads.api import Json

_COMMON = (
    "run_suite.py", "setup.cfg", "pyproject.toml", "Makefile", "LICENSE", "README.md", "suite",
    "conf", "environments", "workloads/__init__.py", "workloads/api", "workloads/common",
    "workloads/frameworks",
)  # fmt: skip
"""Paths in the repository that are copied into the package of every workload."""
_BYTES_LIMIT = 200 << 20
"""Maximum total size of the copied code in bytes."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


def write_code(folder: Path, runs: ChosenRuns, user_code: Path | None) -> list[str]:
    """Create the code folder for the runs of a benchmark, and return notes for the user.

    Args:
        folder: The folder to create.
        runs: The runs of the benchmark.
        user_code: The user's folder with the code, which is copied if another program wrote the
            logs.

    Raises:
        ValueError: The code cannot be packaged.
    """
    folder.mkdir(parents=True)
    benchmark, records = runs.benchmark, runs.records
    settings = records[0].settings
    if user_code is not None and not settings.profile:
        _copy_folder(user_code, folder)
        return []
    if not settings.profile:
        readme = (
            f"# {benchmark}\n\nThe logs were not written by this suite. Put the code of the runs"
            " into this folder, with its settings,\n"
        )
        (folder / "README.md").write_text(
            readme + "scripts for setup and runs, and the commit.\n", encoding="utf-8"
        )
        target = "/".join(folder.parts[-4:])
        return [
            f"{benchmark}: the code of the runs is unknown. Put it into {target}, or set --code DIR"
        ]
    paths, notes = _paths(settings)
    if user_code is not None:
        notes.append("--code was not used, because the logs contain the commit of the code")
    notes += _source(folder / "source", paths, records)
    notes += equivalences(records[0])
    recorded = recorded_machine(records[0])
    (folder / "settings.json").write_text(_settings(records), encoding="utf-8")
    (folder / "README.md").write_text(
        _readme(benchmark, records, [*runs.notes, *notes]), encoding="utf-8"
    )
    write_scripts(folder, settings, recorded)
    return [f"{benchmark}: {note}" for note in notes]


def _paths(settings: RunSettings) -> tuple[tuple[str, ...], list[str]]:
    """Return the repository paths of a workload's code, and notes about missing code."""
    try:
        kind = registry.load_workload(settings.workload)
        package = Path(inspect.getfile(kind)).resolve().parent
        return (*_COMMON, package.relative_to(PROJECT.resolve()).as_posix()), []
    except ValueError:  # The workload is not installed, or belongs to a plugin.
        name = clean(settings.workload, 60)
        return _COMMON, [
            f"the code of workload {name} is not part of this repository. Add it to source/"
        ]


def _source(folder: Path, paths: Sequence[str], records: Sequence[RunRecord]) -> list[str]:
    """Write the source files of the runs' commit, and return notes for the user.

    If the commit is not available, the source files of the current checkout are written.
    """
    commits = sorted({record.settings.git_commit for record in records})
    available = [
        commit for commit in commits if _COMMIT.fullmatch(commit) and _list_files(commit, paths)
    ]
    if commits != available:
        _copy_paths(folder, paths)
        if _holds_code_of(folder, records):
            return [
                "the commit of the runs is not in this checkout. source/ contains the current"
                " files, which are the code of the runs"
            ]
        return [
            "the commit of the runs is not in this checkout. source/ contains the current files."
            " Compare them with the code of the runs"
        ]
    if len({_list_files(commit, paths) for commit in available}) > 1:
        shown = ", ".join(commit[:12] for commit in available[:5])
        raise ValueError(
            f"the runs are of commits whose code differs ({shown}). Package each of them separately"
        )
    _extract(folder, available[0], paths)
    _holds_code_of(folder, records)
    dirty = any(recorded_machine(record)["git"].get("dirty") is True for record in records)
    return (
        [
            f"files differed from commit {available[0][:12]} when the runs started. Add the"
            " difference"
        ]
        if dirty
        else []
    )


def _holds_code_of(folder: Path, records: Sequence[RunRecord]) -> bool:
    """Check whether the digest of the code in `folder` equals the digest in the logs.

    Returns False if the digests cannot be compared.

    Raises:
        ValueError: A run in the closed division used different code, so the code in `folder` must
            not be packaged.
    """
    settings = records[0].settings
    digests = {record.path: _logged_code_digest(record.path) for record in records}
    if "" in digests.values() or uses_plugin(settings.workload, settings.framework):
        return False
    packaged = digest_below(folder, settings.workload, settings.framework)
    different = [path for path, digest in digests.items() if digest != packaged]
    if different and any(record.division == "closed" for record in records):
        raise ValueError(
            f"{clean(str(different[0]), 300)} ran different code than commit"
            f" {clean(settings.git_commit, 12) or '(none)'} has. Package closed runs in the"
            " unchanged checkout that ran them"
        )
    return not different


def _logged_code_digest(path: Path) -> str:
    """Return `code_digest` in a log's `suite_run` record.

    The string is empty for logs of older suite versions.
    """
    run = next((event.value for event in read_file(path).events if event.key == "suite_run"), None)
    digest = run.get("code_digest") if isinstance(run, dict) else None
    return digest if isinstance(digest, str) else ""


def _git(*arguments: str) -> bytes:
    """Run git in the repository and return git's output, or empty bytes if git fails."""
    return run_git(*arguments) or b""


def _list_files(commit: str, paths: Sequence[str]) -> bytes:
    """Return the modes, hashes, and names of the files in a commit.

    The output is empty if the commit is not available.
    """
    return _git("ls-tree", "-r", "-z", commit, "--", *paths)


def _extract(folder: Path, commit: str, paths: Sequence[str]) -> None:
    """Write the regular files of a commit. Links and paths outside `folder` are skipped."""
    existing = [path for path in paths if _list_files(commit, [path])]
    archive = _git("archive", "--format=tar", commit, "--", *existing)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is not None and not _outside(member.name):
                _write_file(folder / member.name, stream.read(), bool(member.mode & 0o100))


def _outside(name: str) -> bool:
    return (
        name.startswith("/")
        or ".." in Path(name).parts
        or any(part.startswith(".") for part in Path(name).parts)
    )


def _copy_paths(folder: Path, paths: Sequence[str]) -> None:
    for path in paths:
        source = shipped(path) if path in ("conf", "environments") else PROJECT / path
        if source.is_dir():
            _copy_folder(source, folder / path)
        elif source.is_file():
            _write_file(folder / path, files.read_bytes(source), os.access(source, os.X_OK))


def _copy_folder(source: Path, folder: Path) -> None:
    """Copy the regular files of a folder. Links, hidden files, and compiled files are skipped."""
    if not source.is_dir():
        raise ValueError(f"--code {source} is not a folder. Give the folder that contains the code")
    total = 0
    for path in _files(source):
        size = path.stat().st_size
        total += size
        if size > FILE_BYTES_LIMIT or total > _BYTES_LIMIT or " " in str(path.relative_to(source)):
            raise ValueError(
                f"{path} cannot be packaged: no spaces in names, at most {FILE_BYTES_LIMIT >> 20}"
                f" MiB per file and {_BYTES_LIMIT >> 20} MiB in total. Leave it out of --code"
            )
        _write_file(
            folder / path.relative_to(source),
            files.read_bytes(path, FILE_BYTES_LIMIT),
            os.access(path, os.X_OK),
        )


def _files(source: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(source):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__pycache__"
        )
        for name in sorted(names):
            path = Path(parent, name)
            if (
                not name.startswith(".")
                and not name.endswith(".pyc")
                and not path.is_symlink()
                and path.is_file()
            ):
                yield path


def _write_file(path: Path, content: bytes, executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if executable else 0o644)


def _settings(records: Sequence[RunRecord]) -> str:
    """Return the logged settings, all seeds, and the hyperparameters' sources as JSON."""
    logged = {
        name: value for name, value in asdict(records[0].settings).items() if name != "run_index"
    }
    recorded = recorded_machine(records[0])
    content: dict[str, Json] = {
        "suite_run": logged,
        "logged": dict(records[0].hyperparameters),
        "hyperparameter_sources": recorded["hyperparameter_sources"],
        "seeds": [record.seed for record in records],
    }
    return json.dumps(content, indent=1, ensure_ascii=True, default=str) + "\n"


def _readme(benchmark: str, records: Sequence[RunRecord], notes: Sequence[str]) -> str:
    settings = records[0].settings
    commits = ", ".join(
        sorted({clean(record.settings.git_commit, 40) or "unknown" for record in records})
    )
    rows = {
        "framework": f"{settings.framework} {settings.framework_version}",
        "commit": commits,
        "data set": f"{settings.dataset} (fingerprint {settings.data_fingerprint})",
        "devices": f"{settings.devices}x {settings.device_name}",
        "global batch size": str(settings.global_batch_size),
        "division": records[0].division,
        "deviations": ", ".join(settings.deviations) or "none",
    }
    table = [f"| {name} | {markdown_escape(clean(value, 300))} |" for name, value in rows.items()]
    lines = [
        f"# {benchmark}", "", "| | |", "| --- | --- |", *table, "",
        "- `source/`: the code of the runs", "- `settings.json`: all settings, and the seeds",
        "- `setup.sh`: creates the environment", "- `run_and_time.sh`: repeats the runs", "",
        "How to get the data: `source/README.md`.", "",
        *[f"- {markdown_escape(clean(note, 600))}" for note in notes],
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"
