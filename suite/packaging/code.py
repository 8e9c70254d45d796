"""Writes `benchmarks/BENCHMARK/implementations/NAME`: the code of the runs, their settings, and
scripts to run it again.
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
    "run_suite.py", "setup.cfg", "pyproject.toml", "Makefile", "LICENSE", "README.md", "suite", "conf",
    "environments", "workloads/__init__.py", "workloads/api", "workloads/common", "workloads/frameworks",
)  # fmt: skip
"""What every workload needs, below the repository's root."""
_BYTES_LIMIT = 200 << 20
"""Most bytes of code that are copied."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


def write_code(folder: Path, runs: ChosenRuns, own_code: Path | None) -> list[str]:
    """Fill `folder` (new) for the runs of one benchmark; returns notes for the user.

    Raises ValueError.

    `own_code`: the user's folder of code, for logs that this suite did not write.
    """
    folder.mkdir(parents=True)
    benchmark, records = runs.benchmark, runs.records
    settings = records[0].settings
    if own_code is not None and not settings.profile:
        _copy_folder(own_code, folder)
        return []
    if not settings.profile:
        readme = (
            f"# {benchmark}\n\nThe logs were not written by this suite: put the code that ran here,"
            " with its settings,\n"
        )
        (folder / "README.md").write_text(
            readme + "scripts for setup and runs, and which commit it is.\n", encoding="utf-8"
        )
        place = "/".join(folder.parts[-4:])
        return [
            f"{benchmark}: the code that ran is not known: put it into {place}, or give --code DIR"
        ]
    paths, notes = _paths(settings)
    if own_code is not None:
        notes.append("--code was not used: the runs say which code it was")
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
    """Paths below the repository that make up a workload, and notes about code that is not among
    them.
    """
    try:
        kind = registry.load_workload(settings.workload)
        place = Path(inspect.getfile(kind)).resolve().parent
        return (*_COMMON, place.relative_to(PROJECT.resolve()).as_posix()), []
    except ValueError:  # not installed here, or a plugin's
        name = clean(settings.workload, 60)
        return _COMMON, [
            f"the code of workload {name} is not part of this repository: add it to source/"
        ]


def _source(folder: Path, paths: Sequence[str], records: Sequence[RunRecord]) -> list[str]:
    """The files of the commit that ran, or of this checkout where that is not known; returns notes."""
    commits = sorted({record.settings.git_commit for record in records})
    known = [
        commit for commit in commits if _COMMIT.fullmatch(commit) and _list_files(commit, paths)
    ]
    if commits != known:
        _copy_paths(folder, paths)
        if _holds_code_of(folder, records):
            return [
                "the commit that ran is not in this checkout: source/ has its current files, which"
                " are the code that ran"
            ]
        return [
            "the commit that ran is not in this checkout: source/ holds the files of today, hold"
            " them against the run"
        ]
    if len({_list_files(commit, paths) for commit in known}) > 1:
        shown = ", ".join(commit[:12] for commit in known[:5])
        raise ValueError(
            f"the runs are of commits whose code differs ({shown}); package each of them separately"
        )
    _extract(folder, known[0], paths)
    _holds_code_of(folder, records)
    dirty = any(recorded_machine(record)["git"].get("dirty") is True for record in records)
    return (
        [f"files differed from commit {known[0][:12]} when the runs were made: add the difference"]
        if dirty
        else []
    )


def _holds_code_of(folder: Path, records: Sequence[RunRecord]) -> bool:
    """Return True if the logs name the code in `folder` by its digest, False if they cannot be
    compared.

    Raises ValueError for a closed run of other code: its package would not be what ran.
    """
    settings = records[0].settings
    digests = {record.path: _logged_code_digest(record.path) for record in records}
    if "" in digests.values() or uses_plugin(settings.workload, settings.framework):
        return False
    packaged = digest_below(folder, settings.workload, settings.framework)
    others = [path for path, digest in digests.items() if digest != packaged]
    if others and any(record.division == "closed" for record in records):
        raise ValueError(
            f"{clean(str(others[0]), 300)} is of other code than commit"
            f" {clean(settings.git_commit, 12) or '(none)'} has; package closed runs with the"
            " checkout that made them, unchanged since"
        )
    return not others


def _logged_code_digest(path: Path) -> str:
    """Return `code_digest` of a log's `suite_run`; empty in logs of older versions."""
    run = next((event.value for event in read_file(path).events if event.key == "suite_run"), None)
    digest = run.get("code_digest") if isinstance(run, dict) else None
    return digest if isinstance(digest, str) else ""


def _git(*arguments: str) -> bytes:
    """Standard output of git in the repository; empty if it fails."""
    return run_git(*arguments) or b""


def _list_files(commit: str, paths: Sequence[str]) -> bytes:
    """Modes, hashes and names of the files of a commit; empty if it is not there."""
    return _git("ls-tree", "-r", "-z", commit, "--", *paths)


def _extract(folder: Path, commit: str, paths: Sequence[str]) -> None:
    """Write the ordinary files of a commit: no links, nothing outside `folder`."""
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
    """Copy the ordinary files of a folder; links are not followed, hidden and compiled files are
    skipped.
    """
    if not source.is_dir():
        raise ValueError(f"--code {source} is no folder; give the folder that holds the code")
    total = 0
    for path in _files(source):
        size = path.stat().st_size
        total += size
        if size > FILE_BYTES_LIMIT or total > _BYTES_LIMIT or " " in str(path.relative_to(source)):
            raise ValueError(
                f"{path} cannot be packaged: no spaces in names, at most {FILE_BYTES_LIMIT >> 20}"
                f" MiB a file and {_BYTES_LIMIT >> 20} MiB in all; leave it out of --code"
            )
        _write_file(
            folder / path.relative_to(source),
            files.read_bytes(path, FILE_BYTES_LIMIT),
            os.access(path, os.X_OK),
        )


def _files(source: Path) -> Iterator[Path]:
    for place, folders, found in os.walk(source):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__pycache__"
        )
        for name in sorted(found):
            path = Path(place, name)
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
    """The settings of the runs as logged, the seed of each, and where every hyperparameter came
    from.
    """
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
        "- `source/`: the code that ran", "- `settings.json`: everything that was set, and the seeds",
        "- `setup.sh`: makes the environment", "- `run_and_time.sh`: makes the runs", "",
        "How to get the data: `source/README.md`.", "", *[f"- {markdown_escape(clean(note, 600))}" for note in notes],
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"
