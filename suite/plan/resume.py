"""Resume an interrupted sweep.

The module determines which runs are finished, and keeps the files of unfinished attempts.

A run is finished if its log has a `run_stop` without a reason. A finished run reached the target,
or missed the target after the last allowed epoch. The module checks the log instead of
`status.json`, because `status.json` may be lost. If `status.json` records a finished run but the
log does not, the log was lost and the command is rejected. All other runs are unfinished and are
repeated: these runs were interrupted, died, hung, ran out of memory, failed, or were killed with
the controller. The files of an unfinished attempt are moved to `superseded/` next to the run
folders. Reports skip the folder `superseded/`. If the attempt wrote a checkpoint, the run resumes
from the checkpoint with the same seed.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from suite.catalog.deviations import RESUMED
from suite.common import checkpoint_files
from suite.common.job_name import is_in_name
from suite.common.labels import Label, LabelKind
from suite.common.logged_end import read_filed_end, read_logged_end
from suite.common.run_end import EndCode, EndStatus
from suite.common.run_folder import RUN_FILE, STATUS_FILE, SUPERSEDED
from suite.common.runspec import RunSpec, read_run
from suite.common.status_file import StatusFile
from suite.launch.recorded_env import identifying_variables
from workloads.api import Json, Settings, field_names

FINISHED = ("success", "target_missed")
_MAX_DIFFERENCES = 5
_OF_ONE_LOG = ("device_name", "framework_version")
"""Fields in the first lines of a log that must not change when a run is resumed."""


def identity(run: RunSpec) -> str:
    """Return a hash of all inputs that determine a run's computation.

    The inputs are the settings without seed and paths, the fingerprint of the data, and environment
    variables.
    """
    parts: list[Any] = [_compared_settings(run), run.dataset_info.fingerprint]
    if env := identifying_variables(run.environment_variables):
        parts.append(env)
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _compared_settings(run: RunSpec) -> dict[str, Json]:
    """Return the settings that must not change when a run is resumed."""
    all_settings = asdict(run.settings)
    settings = {
        name: all_settings[name] for name in field_names(Settings, must_match_on_resume=True)
    }
    settings["options"] = {
        name: value for name, value in settings["options"].items() if name != "backbone_weights"
    }
    return settings


def finished_status(folder: Path, run: RunSpec) -> str:
    """Return how the run in `folder` ended, if the run is finished and matches `run`.

    Two runs match if they have the same settings and data.

    Args:
        folder: Folder of the earlier run.
        run: The run of the resumed command.

    Returns:
        `success` or `target_missed`. The string is empty if the run must be repeated.

    Raises:
        ValueError: The folder contains a run with different settings, a finished log whose
            `run.json` is missing or damaged, or a finished run whose log is missing or incomplete.
        OSError: The log cannot be read.
    """
    end = read_logged_end(folder / f"result_{run.run_index}.txt")
    is_finished = end is not None and end.is_finished
    try:
        earlier = read_run(folder / RUN_FILE)
    except (FileNotFoundError, json.JSONDecodeError):
        if is_finished:
            raise ValueError(
                f"{folder} holds a finished run, but its {RUN_FILE} is missing or damaged. Restore"
                f" {RUN_FILE}, or move the folder away to run it again"
            ) from None
        return ""
    try:
        differences = settings_differences(earlier, run)
    except (TypeError, AttributeError) as error:
        raise ValueError(
            f"{folder / RUN_FILE} is not the description of a run ({error}). Set a different"
            " output=FOLDER"
        ) from None
    if differences:
        raise ValueError(
            f"{folder} holds a run with different settings or data: {', '.join(differences)}."
            " Resume with the same command, or set a different output=FOLDER"
        )
    if end is None or not is_finished:
        _refuse_lost_log(folder, run)
        return ""
    # Runs of a fixed length log the status `aborted` even if they finish.
    reached = end.status is EndStatus.SUCCESS or not run.settings.to_target
    return "success" if reached else "target_missed"


def _refuse_lost_log(folder: Path, run: RunSpec) -> None:
    """Raise ValueError if `status.json` records a finished run, but the log does not.

    Repeating the run would discard a finished run and use a new seed.
    """
    filed = read_filed_end(folder)
    if filed is not None and filed.is_finished:
        log = folder / f"result_{run.run_index}.txt"
        found = (
            "its log has no run_stop of a finished run" if log.exists() else "its log is missing"
        )
        raise ValueError(
            f"{folder} holds a finished run according to its {STATUS_FILE}, but {found}. Restore"
            f" {log.name} (decompressed), or move the folder away to run it again"
        )


def restore_status(folder: Path, run: RunSpec, status: str) -> None:
    """Write `status.json` of a finished run if the file is missing or outdated.

    The file is outdated if the controller ended before the run did. If the controller recorded a
    failure, the file is not changed.

    Args:
        folder: Folder of the run.
        run: The run.
        status: The status to write, `success` or `target_missed`.
    """
    path = folder / STATUS_FILE
    try:
        filed = StatusFile.read(path)
    except (OSError, ValueError):
        filed = StatusFile("")
    end = filed.end
    if end is not None and end.status not in (EndStatus.RUNNING, EndStatus.INTERRUPTED):
        return
    settings = run.settings
    log_time = (folder / f"result_{run.run_index}.txt").stat().st_mtime
    ended = (
        datetime.datetime.fromtimestamp(log_time).astimezone().isoformat(timespec="milliseconds")
    )
    restored = replace(
        filed,
        status=status,
        reason="",
        code=EndCode.NONE.value,
        started=filed.started or ended,
        ended=ended,
        run_index=run.run_index,
        workload=settings.workload,
        framework=settings.framework,
        profile=settings.profile,
        devices=settings.devices,
    )
    restored.write(path)


def settings_differences(earlier: RunSpec, run: RunSpec) -> list[str]:
    """Return a line for each setting that differs but must be equal in a resumed run."""
    if identity(earlier) == identity(run):
        return []
    before = _flat(_compared_settings(earlier)) | _flat(
        identifying_variables(earlier.environment_variables)
    )
    now = _flat(_compared_settings(run)) | _flat(identifying_variables(run.environment_variables))
    differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    texts = [
        f"{name} is {_shown(before.get(name))} in that run and {_shown(now.get(name))} in this"
        " command"
        for name in differing
    ]
    if earlier.dataset_info.fingerprint != run.dataset_info.fingerprint:
        texts.append("the data set has different content (fingerprint)")
    shown = texts[:_MAX_DIFFERENCES]
    return [*shown, f"and {len(texts) - len(shown)} more"] if len(texts) > len(shown) else shown


def _flat(settings: Mapping[str, Json], prefix: str = "") -> dict[str, str]:
    """Flatten nested settings to dotted keys, such as `hyperparameters.learning_rate`.

    The values are JSON strings.
    """
    flat: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = json.dumps(value, sort_keys=True, default=str)
    return flat


def _shown(value: str | None) -> str:
    return "not set" if value is None else value[:80]


@dataclass(frozen=True)
class UnfinishedJob:
    """A job folder with at least one run that is unfinished or was not started."""

    folder: Path
    run: RunSpec
    """The run that was started last in this folder."""
    run_count: int
    """Number of runs that the original command requested."""


def unfinished_jobs(output: Path) -> list[UnfinishedJob]:
    """Return the unfinished jobs in an output folder.

    Job folders without a readable `run.json` are skipped.
    """
    unfinished = []
    for folder in sorted({path.parent.parent for path in output.glob(f"*/run_*/{RUN_FILE}")}):
        last, finished_count = None, 0
        for path in sorted(folder.glob(f"run_*/{RUN_FILE}")):
            try:
                run = read_run(path)
                end = read_logged_end(path.parent / f"result_{run.run_index}.txt")
            except (OSError, ValueError):
                continue
            last = run
            finished_count += end is not None and end.is_finished
        if last is not None and finished_count < (run_count := _run_count(last)):
            unfinished.append(UnfinishedJob(folder, last, run_count))
    return unfinished


def check_unmatched(
    output: Path, names: Mapping[str, RunSpec], run_counts: Mapping[str, int]
) -> None:
    """Raise ValueError if a resumed command would start new jobs instead of resuming jobs.

    The error is raised if the command would start new jobs although it does not match all
    unfinished jobs in the folder. A command that matches all unfinished jobs may add new jobs.

    Args:
        output: The output folder.
        names: Maps each job name of the resumed command to the job's settings.
        run_counts: Maps each job name of the resumed command to its number of runs.
    """
    unfinished = unfinished_jobs(output)
    for job in unfinished:
        name, runs = job.folder.name, _overrides(job.run).get("runs", str(job.run_count))
        if job.run_count > run_counts.get(name, job.run_count):
            raise ValueError(
                f"resume=true: {job.folder} was started with runs={runs}, but this command has"
                f" runs={run_counts[name]}. Set runs={runs}"
            )
    unmatched = [job for job in unfinished if job.folder.name not in names]
    new = [run for name, run in names.items() if not (output / name).exists()]
    if not unmatched or not new:
        return
    job, run = min(
        ((job, run) for job in unmatched for run in new),
        key=lambda pair: len(_differing_settings(pair[0].run, pair[1])),
    )
    differing = _differing_settings(job.run, run)
    earlier_texts = [
        f"{key}={before}" if before is not None else f"no {key}"
        for key, (before, _) in differing.items()
    ]
    new_texts = [
        f"{key}={now}" if now is not None else f"no {key}" for key, (_, now) in differing.items()
    ]
    remedies = [
        f"set {key}={before}" if before is not None else f"leave {key} out"
        for key, (before, _) in differing.items()
    ]
    more = f", as are {len(unmatched) - 1} more" if len(unmatched) > 1 else ""
    raise ValueError(
        f"resume=true: {job.folder} is unfinished{more}, and this command does not match it: it was"
        f" started with {' '.join(earlier_texts)}, but this command has {' '.join(new_texts)}. To"
        f" resume it, {', '.join(remedies)}, or run: python run_suite.py"
        f" {shlex.join([f'output={output}', 'resume=true'])} (which takes the settings from the"
        " folder). To start new runs next to it, leave resume=true out"
    )


def _differing_settings(earlier: RunSpec, run: RunSpec) -> dict[str, tuple[str | None, str | None]]:
    """Return the settings in a job's name that differ, with the earlier and the new value.

    The earlier or new value is None if the run does not set the setting.
    """
    before, now = _named_settings(earlier), _named_settings(run)
    keys = dict.fromkeys((*before, *now))
    return {key: (before.get(key), now.get(key)) for key in keys if before.get(key) != now.get(key)}


def _named_settings(run: RunSpec) -> dict[str, str]:
    settings = run.settings
    kinds = {
        "workload": settings.workload,
        "framework": settings.framework,
        "profile": settings.profile,
    }
    in_name = {
        key: value for key, value in _overrides(run).items() if is_in_name(key) or key == "device"
    }
    return {**kinds, "gpus": str(settings.devices), **in_name}


def _overrides(run: RunSpec) -> dict[str, str]:
    """Map the key of each command-line override of a run to the override's value."""
    return {text.partition("=")[0]: text.partition("=")[2] for text in run.overrides}


def _run_count(run: RunSpec) -> int:
    runs = _overrides(run).get("runs", "1")
    return run.runs_required if runs == "official" else int(runs) if runs.isdecimal() else 1


def move_to_superseded(folder: Path) -> Path:
    """Move the folder of an unfinished attempt to `superseded/`, and return its new path."""
    superseded = folder.parent / SUPERSEDED
    superseded.mkdir(exist_ok=True)
    number = 1
    while (superseded / f"{folder.name}-{number}").exists():
        number += 1
    return folder.rename(superseded / f"{folder.name}-{number}")


def find_resume(
    run: RunSpec, folder: Path, print_line: Callable[[str], object]
) -> tuple[RunSpec, Path] | None:
    """Find the newest valid checkpoint in the folders of a run's unfinished attempts.

    All checkpoints except the two newest checkpoints are deleted.

    Args:
        run: Settings of the run that is about to start.
        folder: Folder of the run.
        print_line: Function that receives the reason why a newer checkpoint is skipped.

    Returns:
        The specification of the resumed run, and the path of the checkpoint. None if no valid
        checkpoint was found.
    """
    attempts = (folder.parent / SUPERSEDED).glob(f"{folder.name}-*")
    paths = [path for attempt in attempts for path in checkpoint_files.found(attempt)]
    paths.sort(
        key=lambda path: (checkpoint_files.step_of(path), path.stat().st_mtime), reverse=True
    )
    for path in paths:
        reason = _not_resumable_reason(path, run) or checkpoint_files.damage(path)
        if not reason:
            for old in paths[paths.index(path) + checkpoint_files.KEPT :]:
                old.unlink(missing_ok=True)
            return _resumed(run, path), path
        print_line(f"not resuming from {path}: {reason}")
    return None


def _not_resumable_reason(path: Path, run: RunSpec) -> str:
    """Return the reason why `run` cannot resume from a checkpoint, or an empty string.

    A run that diverged cannot be resumed, because it would diverge again.
    """
    try:
        earlier = read_run(path.parent / RUN_FILE)
        end = read_logged_end(path.parent / f"result_{earlier.run_index}.txt")
    except (OSError, ValueError) as error:
        return str(error)
    if differences := settings_differences(earlier, run):
        return f"its run has different settings or data: {', '.join(differences)}"
    for name in _OF_ONE_LOG:
        if earlier.identity[name] != run.identity[name]:
            return (
                f"its {name} is {earlier.identity[name]}, but the new run has {run.identity[name]}"
            )
    ends = (end, read_filed_end(path.parent))
    return (
        "its run diverged"
        if any(end is not None and end.code is EndCode.DIVERGED for end in ends)
        else ""
    )


def _resumed(run: RunSpec, path: Path) -> RunSpec:
    """Return the specification of a run that resumes from a checkpoint.

    The resumed run has the seed of the earlier attempt, and a label for resumed runs.
    """
    earlier = read_run(path.parent / "run.json")
    stopped_ms = max(file.stat().st_mtime for file in path.parent.iterdir()) * 1e3
    before = int(earlier.resume_from.get("resumptions", bool(earlier.resume_from)))
    return replace(
        run,
        settings=replace(run.settings, seed=earlier.settings.seed),
        cache_cleared=earlier.cache_cleared,
        labels=(*run.labels, Label(LabelKind.RESUMED)),
        deviations=(*run.deviations, RESUMED),
        division="open",
        resume_from={
            "checkpoint": path.name,
            "stopped_ms": round(stopped_ms),
            "resumptions": before + 1,
        },
    )
