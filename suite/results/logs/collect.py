"""Find the runs below folders by their logs, or by `status.json` if a run has no log."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from suite.common.output_lock import holder_was_killed
from suite.common.paths import real_path, shipped
from suite.common.run_end import SUCCESS, EndCode, EndStatus, RunEnd
from suite.common.run_folder import COMMANDS_FILE, RUN_FILE, STATUS_FILE, STUDY_FILES, SUPERSEDED
from suite.common.status_file import StatusFile
from suite.results.entry import is_entry_file
from suite.results.logs.compressed import SUFFIXES
from suite.results.logs.events import ProblemCode
from suite.results.logs.lines import may_be_log
from suite.results.logs.reader import read
from suite.results.logs.record import RunRecord
from workloads.process_identity import is_alive

_OF_UNFINISHED_LOG = frozenset(
    {ProblemCode.NO_STOP, ProblemCode.NO_START, ProblemCode.EMPTY, ProblemCode.INCOMPLETE_LINE}
)
"""Problems that are expected in a log that is still being written."""
_LOG_NAME = re.compile(rf"result_[^/]*\.txt({'|'.join(map(re.escape, SUFFIXES))})?")
_OF_A_RUN = (RUN_FILE, STATUS_FILE)
"""Files that every run of this suite writes next to its log."""
NOT_ENDED = RunEnd(
    EndStatus.RUNNING, EndCode.NOT_ENDED, "has not ended yet, or its controller was killed"
)
KILLED = RunEnd(EndStatus.INTERRUPTED, EndCode.CONTROLLER_KILLED, "its controller was killed")
"""End of a run whose controller is no longer alive, although `status.json` still has the status
`running`.
"""


def collect(paths: Sequence[Path]) -> list[RunRecord]:
    """Return the runs of all `result_*.txt` and `status.json` files below `paths`.

    A path may be a folder or a log. If a folder contains neither `result_*.txt` nor `status.json`,
    logs with other names are recognized by their content. Unreadable files become failed runs.

    Raises:
        ValueError: A path does not exist, or contains no run.
    """
    unique: dict[Path, RunRecord] = {}
    _resolved_folder.cache_clear()
    for path in paths:
        runs = [_run(path, None, path.name)] if path.is_file() else list(_runs_below(path))
        if not runs:
            raise ValueError(
                f"{path} holds no log: it has no result_*.txt, no status.json and no file with"
                " records of a log. Use a folder that runs wrote, or run: python run_suite.py"
                " workload=ncf profile=demo"
            )
        for run in runs:
            unique.setdefault(_resolved(run.path), run)
    return _with_settings_of_job(list(unique.values()))


def _resolved(path: Path) -> Path:
    """Return a path with resolved symbolic links.

    Each folder is resolved only once, because many logs share a folder. A symbolic link that points
    to itself is not resolved.
    """
    is_last_part_followed = path.name in ("", "..") or path.is_symlink()
    return real_path(path) if is_last_part_followed else _resolved_folder(path.parent) / path.name


_resolved_folder = functools.lru_cache(maxsize=1 << 16)(real_path)


def _runs_below(folder: Path) -> Iterator[RunRecord]:
    if not folder.is_dir():
        raise ValueError(f"{folder} does not exist. Give a folder that holds logs, such as logs/")
    closed: list[OSError] = []
    for place, files, logs, other_names in _walk(folder, closed.append):
        parts = place.relative_to(folder).parts
        # The name contains at least the job and the run, even if `folder` is a job folder or a run
        # folder.
        name = "/".join(parts if len(parts) > 1 else place.absolute().parts[-2:])
        status = place / STATUS_FILE if STATUS_FILE in files else None
        for log in logs:
            yield _run(place / log, status, name if len(logs) == 1 else f"{name}/{log}")
        if status is not None and not logs:
            yield _without_log(status, name)
        yield from filter(
            None,
            (
                _log_of_another_name(place / other_name, f"{name}/{other_name}")
                for other_name in other_names
            ),
        )
    for error in closed:
        path = Path(error.filename)
        end = _unreadable(f"{path}: {error.strerror}")
        yield RunRecord(path, "/".join(path.absolute().parts[-2:]), has_log=False, end=end)


def _walk(
    folder: Path, closed: Callable[[OSError], object] | None = None
) -> Iterator[tuple[Path, list[str], list[str], list[str]]]:
    """Yield each folder, its file names, its named logs, and its further file names.

    Named logs are the files `result_*.txt`. Further files may be logs with other names. The list of
    further files is empty if the folder contains a named log or a run of this suite. `closed` is
    called with the error of each unreadable folder.
    """
    for place, folders, files in os.walk(folder, onerror=closed):
        folders[:] = sorted(name for name in folders if name != SUPERSEDED)
        logs = sorted(name for name in files if _LOG_NAME.fullmatch(name))
        named = bool(logs) or any(name in files for name in _OF_A_RUN)
        yield (
            Path(place),
            files,
            logs,
            [] if named else sorted(name for name in files if not name.startswith(".")),
        )


def _log_of_another_name(path: Path, name: str) -> RunRecord | None:
    """Return the run in a file, or None if the file is not a log.

    Text that only mentions log records, such as documentation, is not a log.
    """
    run = _run(path, None, name) if may_be_log(path) else None
    return (
        run
        if run is not None and run.has_log and (run.benchmark or run.start_ms is not None)
        else None
    )


def filed_end(path: Path) -> RunEnd | None:
    """Return the run end in a `status.json`, or None if the file cannot be read.

    The run end is `KILLED` if the controller of a running run is no longer alive.

    The function checks whether the controller process in `status.json` is alive. If the process is
    not visible from this machine, the function checks the lock of the output folder. The lock alone
    is not sufficient: after a controller was killed, a later command may use the output folder and
    remove the lock.
    """
    try:
        filed = StatusFile.read(path)
    except (OSError, ValueError):
        return None
    end = filed.end
    if end is None or end.status is not EndStatus.RUNNING:
        return end
    alive = is_alive(filed.controller)
    if alive is None:
        alive = not any(
            map(holder_was_killed, path.absolute().parents[2:3])
        )  # The path of the file is OUTPUT/JOB/run_N/status.json.
    return NOT_ENDED if alive else KILLED


def end_next_to(log: Path) -> RunEnd | None:
    """Return the run end in the `status.json` in the folder of a log.

    Returns None if `status.json` cannot be read (see `filed_end`).
    """
    return filed_end(log.with_name(STATUS_FILE))


def skipped(paths: Sequence[Path]) -> int:
    """Return the number of files below folders that `collect` skips.

    Files that the suite's runs write are not counted.
    """
    count = 0
    for place, files, logs, other_names in itertools.chain.from_iterable(
        _walk(path) for path in paths if path.is_dir()
    ):
        if any(name in files for name in _OF_A_RUN) or real_path(place) == shipped(
            "logs/published"
        ):
            continue
        rest = [
            name
            for name in set(files).difference(logs)
            if name != COMMANDS_FILE
            and not fnmatch(name, STUDY_FILES)
            and not is_entry_file(place / name)
        ]
        unnamed = set(other_names)
        count += sum(
            name not in unnamed or _log_of_another_name(place / name, name) is None for name in rest
        )
    return count


def why_no_log(path: Path) -> str:
    """Return the reason why a file is not a log, or an empty string if the file is a log.

    A damaged log is still a log.

    Raises:
        ValueError: The file cannot be opened.
    """
    record = read(path)
    return "" if record.format else "; ".join(problem.text for problem in record.problems[:1])


def _without_log(status_path: Path, name: str) -> RunRecord:
    end = filed_end(status_path)
    if end is None:
        text = "status.json cannot be read and there is no log"
        end = RunEnd(EndStatus.FAILED, EndCode.NO_LOG, text)
    elif end.status is EndStatus.SUCCESS:
        end = RunEnd(EndStatus.FAILED, EndCode.NO_LOG, "there is no log")
    return RunRecord(status_path.parent, name, has_log=False, end=end)


def _unreadable(detail: str) -> RunEnd:
    return RunEnd(EndStatus.UNREADABLE, EndCode.NO_RECORD, detail)


def _run(log: Path, status_path: Path | None, name: str) -> RunRecord:
    filed = (
        filed_end(status_path) if status_path is not None else None
    )  # `status.json` is read before the log, because the run may end between the two reads.
    try:
        record = read(log)
    except ValueError as error:
        return RunRecord(log, name, has_log=False, end=_unreadable(str(error)))
    settings = record.settings if record.settings.profile or record.benchmark else None
    if (
        settings is not None and not settings.system
    ):  # v0.5 logs do not name the system. Path: <system>/<benchmark>/result_N.txt
        settings = replace(settings, system=real_path(log).parent.parent.name)
    if record.finished:
        return replace(
            record, name=name, described_settings=settings or record.settings, end=SUCCESS
        )
    record = replace(record, name=name, described_settings=settings)
    if filed is None or filed.status is EndStatus.SUCCESS:
        return record
    # `status.json` contains the reason why the log is incomplete.
    problems = tuple(
        problem for problem in record.problems if problem.code not in _OF_UNFINISHED_LOG
    )
    return replace(
        record,
        problems=problems,
        end=filed if filed.detail else replace(filed, detail=record.reason),
    )


def _with_settings_of_job(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Copy the settings of a run to runs of the same job that lack settings.

    The runs of a job are stored in the folders `<job>/run_<N>`.
    """

    def job(run: RunRecord) -> Path | None:
        folder = (
            _resolved(run.path)
            if not run.has_log and run.path.is_dir()
            else _resolved(run.path).parent
        )
        return folder.parent if re.fullmatch(r"run_\d+", folder.name) else None

    jobs = {
        job(run): run.described_settings
        for run in reversed(runs)
        if run.described_settings is not None
    }
    jobs.pop(None, None)
    return [
        (
            run
            if run.described_settings is not None
            else replace(run, described_settings=jobs.get(job(run)))
        )
        for run in runs
    ]
