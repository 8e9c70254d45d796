"""Write a submission tree from logs. The tree is kept only if all checks pass."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.common.logged_end import read_filed_end, read_logged_end
from suite.common.paths import real_path
from suite.common.run_folder import SUPERSEDED
from suite.packaging.choose_runs import ChosenRuns, choose_runs
from suite.packaging.code import write_code
from suite.packaging.description import AVAILABILITY, fields_to_fill_in, needs_availability
from suite.packaging.layout import BENCHMARKS, RESULTS, SYSTEMS, sanitized_name, validated_name
from suite.packaging.recorded_machine import description_fields
from suite.packaging.tree import check_tree
from suite.results.logs.collect import collect
from suite.results.logs.record import RunRecord
from suite.results.text import clean
from workloads.api import Json
from workloads.held_folder import held_folder, remove_left

_NO_ORG = "not submitted"
"""Value of `submission_org` if the user set no organization (profile.submission_org)."""


@dataclass(frozen=True)
class PackageOptions:
    """Options of `suite package`. Unset options are replaced by values from the logs."""

    submitter: str = ""
    system: str = ""
    division: str = ""
    """Expected division. The package is rejected if the division in the logs differs."""
    status: str = ""
    code: Path | None = None
    """Folder with the code of the runs, for logs that another program wrote."""
    explanation: str = ""
    """The user's reason why runs of a job are missing."""


@dataclass(frozen=True)
class Packaged:
    """The written submission tree, and notes for the user."""

    folder: Path
    sets: tuple[tuple[str, str, int], ...]
    """System, benchmark, and number of runs of each result set."""
    unknown: tuple[tuple[str, tuple[str, ...]], ...]
    """Path of each system description, and its fields that the user must fill in."""
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    """Tasks that remain before the tree is complete."""


def package(logs: Sequence[Path], out: Path, options: PackageOptions) -> Packaged:
    """Write the submission tree to `out`, which must not exist.

    The tree is created in a temporary folder in the parent folder of `out`. The temporary folder is
    renamed to `out` if every checker passed.

    Raises:
        ValueError: The logs cannot be submitted. The message is a single line, and no files are
            left behind.
    """
    _check_out(out, logs)
    remove_left(out.parent, _work_prefix(out))
    runs = collect(logs)
    _check_links(logs, [run.path for run in runs])
    before = _stamps(runs)
    chosen = choose_runs(runs, options.explanation)
    systems = _systems(chosen, options)
    with held_folder(out.parent, _work_prefix(out)) as held:
        temporary = held / "tree"
        temporary.mkdir()
        packaged = _write(temporary, chosen, systems, options)
        if _stamps(runs) != before:
            raise ValueError(
                "a log was written to while it was read. Wait until the runs have ended"
            )
        _check_written_tree(temporary)
        temporary.chmod(0o755)
        if os.path.lexists(out):
            raise ValueError(f"{out} was created meanwhile and is not overwritten")
        temporary.rename(out)
    folders = tuple((str(out / path), fields) for path, fields in packaged.unknown)
    return Packaged(out, packaged.sets, folders, packaged.notes, packaged.warnings)


def _work_prefix(out: Path) -> str:
    """Return the name prefix of the temporary folder in which the tree is created."""
    return f".{out.name[:40]}."


def _stamps(runs: Sequence[RunRecord]) -> dict[Path, tuple[int, int, int]]:
    """Return the inode, size, and modification time of each log.

    If these values change, a log is still being written.
    """
    facts = {run.path: run.path.stat() for run in runs if run.has_log}
    return {path: (fact.st_ino, fact.st_size, fact.st_mtime_ns) for path, fact in facts.items()}


def _check_out(out: Path, logs: Sequence[Path]) -> None:
    validated_name("OUT", out.name)
    if os.path.lexists(out):
        raise ValueError(
            f"{out} exists already and is not overwritten. Give a folder that does not exist"
        )
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} does not exist. Create it, or set a different folder OUT")
    for path in logs:
        if path.is_dir() and real_path(out.parent).is_relative_to(real_path(path)):
            raise ValueError(
                f"{out} lies inside {path}, so its copies would be read as runs. Give a"
                " different folder"
            )


def _check_links(paths: Sequence[Path], logs: Sequence[Path]) -> None:
    """Raise ValueError if a link below a given folder points outside of the folder.

    The given paths themselves may be links.
    """
    roots = [real_path(path) for path in paths]
    for log in logs:
        if not any(real_path(log).is_relative_to(root) for root in roots):
            raise ValueError(
                f"{clean(str(log), 300)} is a link to a file in a different folder. Give the"
                " folder of this file instead"
            )


def _systems(chosen: Sequence[ChosenRuns], options: PackageOptions) -> dict[str, list[RunRecord]]:
    """Return the runs of each system.

    Raises ValueError if neither the options nor the logs name the system.
    """
    systems: dict[str, list[RunRecord]] = {}
    for item in chosen:
        systems.setdefault(_system(item.records[0], options), []).extend(item.records)
    return systems


def _system(record: RunRecord, options: PackageOptions) -> str:
    if options.system:
        return validated_name("--system", options.system)
    settings = record.settings
    if not settings.profile:
        raise ValueError(
            "the logs were not written by this suite. Set --system NAME (and --submitter ORG)"
        )
    parts = (
        settings.system,
        f"{settings.devices}x",
        settings.framework,
        settings.framework_version,
    )
    return sanitized_name("_".join(parts))


def _write(
    folder: Path,
    chosen: Sequence[ChosenRuns],
    systems: dict[str, list[RunRecord]],
    options: PackageOptions,
) -> Packaged:
    notes = list(dict.fromkeys(note for item in chosen for note in item.notes))
    _refuse_superseded_runs(chosen)
    if superseded := _superseded_attempts(chosen):
        notes.append(
            f"not counted: {superseded} attempts that resume=true replaced. Explain in the"
            " submission why they ended early"
        )
    missing = []
    (folder / SYSTEMS).mkdir()
    for name, records in systems.items():
        fields, disagreements = _description(name, records, options)
        notes += disagreements
        missing.append((f"{SYSTEMS}/{name}.json", tuple(fields_to_fill_in(fields))))
        text = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
        (folder / SYSTEMS / f"{name}.json").write_text(text, encoding="utf-8")
    sets: list[tuple[str, str, int]] = []
    warnings: list[str] = []
    for item in chosen:
        system = _system(item.records[0], options)
        result_folder = folder / RESULTS / system / item.benchmark
        result_folder.mkdir(parents=True)
        for index, record in enumerate(item.records):
            shutil.copyfile(record.path, result_folder / f"result_{index}.txt")
        implementation = sanitized_name(item.records[0].settings.framework or system)
        code = folder / BENCHMARKS / item.benchmark / "implementations" / implementation
        remarks = write_code(code, item, options.code)
        unknown_code = options.code is None and not item.records[0].settings.profile
        (warnings if unknown_code else notes).extend(remarks)
        if item.benchmark == "ncf":
            notes.append(
                "ncf: mlperf-logging has no rules for it after round v0.5, so the suite's rules"
                " ncf_reference were used"
            )
        sets.append((system, item.benchmark, len(item.records)))
    return Packaged(folder, tuple(sets), tuple(missing), tuple(notes), tuple(warnings))


def _refuse_superseded_runs(chosen: Sequence[ChosenRuns]) -> None:
    """Raise ValueError if a finished run was moved to `superseded/` and repeated.

    A finished run must not be repeated, because the submitter could then select a favorable seed.
    """
    for attempt in _superseded_folders(chosen):
        ends = [
            read_filed_end(attempt),
            *map(read_logged_end, sorted(attempt.glob("result_*.txt"))),
        ]
        if any(end is not None and end.is_finished for end in ends):
            raise ValueError(
                f"{clean(str(attempt), 300)} is a finished run in {SUPERSEDED}/, but finished runs"
                f" count. Move its folder back to {clean(str(attempt.parent.parent), 300)} as"
                " run_N, in place of the run that replaced it"
            )


def _superseded_attempts(chosen: Sequence[ChosenRuns]) -> int:
    """Return how many attempts of the chosen jobs were interrupted and repeated."""
    return len(_superseded_folders(chosen))


def _superseded_folders(chosen: Sequence[ChosenRuns]) -> list[Path]:
    jobs = {
        record.path.parent.parent
        for item in chosen
        for record in item.records
        if record.settings.profile
    }
    return sorted(path for job in jobs for path in (job / SUPERSEDED).glob("*") if path.is_dir())


def _description(
    name: str, records: Sequence[RunRecord], options: PackageOptions
) -> tuple[dict[str, Json], list[str]]:
    """Return a system description, and notes about fields that differ from the logs.

    Raises:
        ValueError: The options contradict the logs, or a required option is missing.
    """
    organizations = _common_value("submission_org", [record.org for record in records])
    division = _common_value("submission_division", [record.division for record in records])
    status = _common_value("submission_status", [record.submission_status for record in records])
    if options.division not in ("", division):
        reasons = "; ".join(
            dict.fromkeys(reason for record in records for reason in record.settings.deviations)
        )
        why = f" ({clean(reasons, 300)})" if reasons else ""
        raise ValueError(
            f"--division {options.division}: the logs have {division}{why}. The division follows"
            " from the logs. Leave --division out"
        )
    if not options.submitter and organizations == _NO_ORG:
        raise ValueError(
            "the runs have no organization. Set --submitter ORG (for later runs:"
            " profile.submission_org=ORG)"
        )
    fields = description_fields(records)
    fields["submitter"] = clean(options.submitter or organizations, 100)
    fields["division"] = division
    chosen_status = options.status or status
    fields["status"] = (
        AVAILABILITY.get(chosen_status, chosen_status)
        if needs_availability(records)
        else chosen_status
    )
    fields["system_name"] = name
    pairs = (
        ("submitter", fields["submitter"], organizations),
        ("status", chosen_status, status),
    )
    notes = [
        f"{SYSTEMS}/{name}.json has {key} {value}, but the logs have {clean(logged, 100)}."
        " Logs are not edited"
        for key, value, logged in pairs
        if value != logged
    ]
    return fields, notes


def _common_value(key: str, values: Sequence[str]) -> str:
    """Return the value of a key that all runs of a system share.

    Raises ValueError if the values differ.
    """
    unique = sorted(set(values))
    if len(unique) > 1:
        shown = ", ".join(clean(value, 60) or "nothing" for value in unique[:5])
        raise ValueError(
            f"{key} differs between the benchmarks of one system ({shown}). Package them separately"
        )
    return unique[0]


def _check_written_tree(folder: Path) -> None:
    """Raise ValueError if a checker rejects the written tree.

    During the check, the tree has a temporary name that begins with a dot. Complaints about this
    name are ignored.
    """
    for verdict in check_tree(folder):
        complaints = [
            item for item in verdict.complaints if item.key != folder.name and not item.warning
        ]
        if not verdict.passed and complaints:
            first = complaints[0]
            problem = f"{verdict.rules_name}: {first.key or verdict.path.name}: {first.found}"
            raise ValueError(
                clean(
                    f"the tree does not pass {problem}, needed: {first.needed}. To fix it:"
                    f" {first.do}",
                    600,
                )
            )
