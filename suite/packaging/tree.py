"""Checks a submission tree: names, structure, system descriptions, logs, seeds, and
mlperf-logging's own checkers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from suite.common.paths import real_path
from suite.common.registry import suggestion
from suite.compliance.check_log import Verdict, check_file
from suite.compliance.complaints import Complaint
from suite.packaging.checkers import check_package, check_seeds
from suite.packaging.description import check_description
from suite.packaging.layout import (
    BENCHMARKS,
    FILE_BYTES_LIMIT,
    PACKAGED,
    RESULTS,
    SYSTEMS,
    failed_allowed,
)
from suite.packaging.same_setup import (
    difference,
    find_copy,
    find_foreign_overlap,
    find_other_code,
    find_overlap,
)
from suite.results.logs.reader import read
from suite.results.logs.record import RunRecord
from suite.results.names import workload_name
from suite.results.scoring_rules import RUNS_REQUIRED
from suite.results.text import clean


def check_tree(folder: Path, werror: bool = False) -> list[Verdict]:
    """The verdicts on all parts of a tree, in the order in which to repair them.

    No content of the tree raises.

    Links and special files are never opened: if there are any, or a file without read permission,
    only the names are checked.
    """
    names = check_names(folder, werror)
    if any(complaint.found in (_NOT_A_FILE, _NOT_READABLE) for complaint in names.complaints):
        return [names]
    systems = [check_description(folder, name, werror) for name in _names(folder)]
    verdicts = [names, *systems]
    checked: list[RunRecord] = []
    """Records of the result sets so far. Systems of different names may be one machine."""
    for place in _result_folders(folder):
        verdicts += check_results(folder, place, werror, checked)
    verdicts += [_structure_verdict(folder, werror)]
    if all(
        verdict.passed for verdict in systems
    ):  # the package checker stops at a description that it cannot read
        verdicts.append(check_package(folder, werror))
    else:
        text = "not run: repair the system descriptions first"
        verdicts.append(Verdict(folder, False, text, "package_checker", ()))
    return verdicts


_NOT_A_FILE = "a symbolic link or special file, not opened"
_NOT_READABLE = "no permission to read it"


def check_names(folder: Path, werror: bool = False) -> Verdict:
    """Check names by repo_checker's rules (no spaces, no leading dots, at most 50 MB); links and
    special files are refused.
    """
    complaints = []
    name = real_path(folder).name
    for path, information in [(Path(name), None), *_entries(folder)]:
        shown = clean(str(path), 300)
        if " " in path.name or path.name.startswith("."):
            complaints.append(
                Complaint(
                    shown,
                    0,
                    f"the name {clean(path.name)}",
                    "no spaces, no dot at the front",
                    "rename it",
                )
            )
        if information is None:
            continue
        if not stat.S_ISLNK(information.st_mode) and not os.access(folder / path, os.R_OK):
            complaints.append(
                Complaint(shown, 0, _NOT_READABLE, "files that you may read", f"chmod u+rX {shown}")
            )
        if stat.S_ISDIR(information.st_mode):
            continue
        if not stat.S_ISREG(information.st_mode):
            complaints.append(
                Complaint(
                    shown, 0, _NOT_A_FILE, "ordinary files", "put the file itself in its place"
                )
            )
        elif information.st_size > FILE_BYTES_LIMIT:
            size = f"{information.st_size / (1 << 20):.0f} MiB"
            complaints.append(
                Complaint(
                    shown, 0, size, "at most 50 MiB a file", "leave it out, or make it smaller"
                )
            )
    return Verdict.of(folder, "repo_checker", "names, sizes and kinds of files", complaints, werror)


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file and folder below, links not followed: its path below `folder`, and what it is."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = Path(place, name)
            yield path.relative_to(folder), path.lstat()


def _result_folders(folder: Path) -> list[Path]:
    return sorted(place for place in (folder / RESULTS).glob("*/*") if place.is_dir())


def _names(folder: Path) -> list[str]:
    """Every system that has results or a description."""
    with_results = {path.name for path in (folder / RESULTS).glob("*") if path.is_dir()}
    return sorted(with_results | {path.stem for path in (folder / SYSTEMS).glob("*.json")})


def _structure_verdict(folder: Path, werror: bool) -> Verdict:
    """The verdict on the layout: there are results, and code for every benchmark."""
    complaints, without_code = [], []
    places = _result_folders(folder)
    if not places:
        needed = f"{RESULTS}/SYSTEM/BENCHMARK/result_0.txt, …"
        complaints.append(
            Complaint(
                RESULTS, 0, "no results", needed, "write the tree with: suite package LOGS OUT"
            )
        )
    for name in sorted({place.name for place in places}):
        code = folder / BENCHMARKS / name / "implementations"
        files = [path for path in code.rglob("*") if path.is_file()]
        path = f"{BENCHMARKS}/{clean(name)}/implementations"
        if not files:
            do = "put the code that ran, its settings and a README there"
            complaints.append(
                Complaint(path, 0, "no files", "the code of every benchmark", do, warning=True)
            )
        elif all(file.stem.lower() == "readme" for file in files):
            without_code.append(
                f"{path}: nothing but a README; put the code that ran and its settings there"
            )
    good = (
        "results and systems are there, code is missing"
        if without_code
        else "results, systems and code are there"
    )
    verdict = Verdict.of(folder, "layout", good, complaints, werror)
    return replace(verdict, remarks=tuple(without_code))


def check_results(
    folder: Path, place: Path, werror: bool = False, of_tree: list[RunRecord] | None = None
) -> list[Verdict]:
    """Check the logs of one benchmark on one system, each by itself and all together.

    Args:
        folder: The tree.
        place: The folder of the logs.
        werror: Whether warnings fail.
        of_tree: Records of the tree's result sets so far, to which the records of this set are
            added. They may neither overlap with this set on one machine nor be copies of its runs.
    """
    logs = sorted(place.glob("result_*.txt"), key=lambda path: (len(path.name), path.name))
    verdicts = [check_file(path, werror=werror) for path in logs if path.is_file()]
    records = [read(path) for path in logs if path.is_file()]
    complaints = [
        *_count_complaints(place, [path.name for path in logs]),
        *_stray_file_complaints(place),
        *_mixed_run_complaints(place, records, of_tree or ()),
        *_overlap_complaints(place, records, of_tree or ()),
    ]
    if of_tree is not None:
        of_tree += records
    allowed = failed_allowed(place.name)
    if sum(verdict.missed_target for verdict in verdicts) <= allowed:
        verdicts = [
            _accepted(verdict, allowed) if verdict.missed_target else verdict
            for verdict in verdicts
        ]
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed:
        problem = (
            "1 log that does not pass"
            if len(failed) == 1
            else f"{len(failed)} logs that do not pass"
        )
        needed = (
            f"logs that pass; at most {allowed} of the set may miss the target, with no other"
            " complaint"
        )
        complaints.append(
            Complaint(
                place.name,
                0,
                problem,
                needed,
                "see each log; run again what failed, all of the set",
            )
        )
    good = f"{len(logs)} runs of one setting"
    whole = Verdict.of(place, "result set", good, complaints, werror)
    return [*verdicts, whole, *([check_seeds(place, logs, records, werror)] if logs else [])]


def _accepted(failed: Verdict, allowed: int) -> Verdict:
    """Return the verdict on a log that missed the target, as passed."""
    most = "one run" if allowed == 1 else f"up to {allowed} runs"
    return replace(
        failed, passed=True, text=f"{failed.text}; accepted: {most} of a set may miss the target"
    )


def _count_complaints(place: Path, names: list[str]) -> Iterator[Complaint]:
    """Complaints unless there are exactly as many logs as the rules require, numbered from 0."""
    required = required_runs(place.name)
    if required is None:
        known = ", ".join(sorted(PACKAGED))
        do = f"rename the folder{suggestion(place.name, PACKAGED)}, or leave it out"
        yield Complaint(
            clean(place.name), 0, "a benchmark that the rules do not know", f"one of {known}", do
        )
        return
    if len(names) != required:
        do = (
            "add the missing runs"
            if len(names) < required
            else "keep the first by their start, never the fastest"
        )
        yield Complaint(
            place.name, 0, f"{len(names)} logs", f"exactly {required}: result_0.txt to …", do
        )
    wrong = sorted(set(names) - {f"result_{index}.txt" for index in range(len(names))})
    if wrong:
        needed = f"result_0.txt to result_{len(names) - 1}.txt"
        yield Complaint(
            place.name,
            0,
            clean(", ".join(wrong[:5])),
            needed,
            "number the logs from 0, without gaps",
        )


def required_runs(benchmark: str) -> int | None:
    """Logs that a result needs; None for a benchmark that neither the suite nor the tool knows."""
    from mlperf_logging.benchmark_meta import get_result_file_counts

    known: int | None = RUNS_REQUIRED.get(workload_name(benchmark)) or get_result_file_counts(
        "training"
    ).get(benchmark)
    return known


def _stray_file_complaints(place: Path) -> Iterator[Complaint]:
    stray_files = sorted(path.name for path in place.iterdir() if not path.match("result_*.txt"))
    bypass = "package_checker_params"
    if bypass in stray_files:
        do = "remove it before you rely on the verdict"
        yield Complaint(
            bypass, 0, "a file that switches checks off", "every check to run", do, warning=True
        )
    others = clean(", ".join(name for name in stray_files if name != bypass)[:300])
    if others:
        yield Complaint(
            place.name,
            0,
            others,
            "nothing but result_N.txt",
            "remove it, or rename it",
            warning=True,
        )


def _mixed_run_complaints(
    place: Path, records: list[RunRecord], of_tree: Sequence[RunRecord] = ()
) -> Iterator[Complaint]:
    """Complaints about logs of other settings, another benchmark than the folder's, or that cannot
    be submitted.
    """
    for record in records:
        if record.benchmark and record.benchmark != place.name:
            do = f"move {record.path.name} to the folder of its benchmark"
            yield Complaint("submission_benchmark", 0, clean(record.benchmark, 80), place.name, do)
            return
        if record.settings.profile not in ("", "reference") or "not an MLPerf result" in record.org:
            run = (
                f"profile {clean(record.settings.profile, 80)}, {clean(record.org, 80)} in"
                f" {record.path.name}"
            )
            yield Complaint(
                "suite_run",
                0,
                run,
                "profile reference",
                "demo and synthetic runs cannot be submitted",
            )
            return
    if records and (text := difference(records)):
        yield Complaint(
            place.name, 0, text, "equal in all runs of a result", "package each setting separately"
        )
    if names := find_other_code(records):
        do = "package the runs of each state of the code separately"
        yield Complaint(
            "suite_run",
            0,
            f"{names} ran different code (code_digest)",
            "one code in all runs of a result",
            do,
        )
    of_benchmark = [record for record in of_tree if record.benchmark == place.name]
    if text := find_copy(records, of_benchmark):
        yield Complaint(
            place.name, 0, f"one run twice: {text}", "different runs", "replace one by another run"
        )


def _overlap_complaints(
    place: Path, records: list[RunRecord], of_tree: Sequence[RunRecord]
) -> Iterator[Complaint]:
    """Complaints about runs that overlapped in time on one machine.

    Other programs do not log the machine: then a warning.
    """
    if names := find_overlap([*of_tree, *records]):
        do = (
            "run again one after another; runs on different machines need system.name=NAME for each"
            " machine"
        )
        yield Complaint(
            place.name, 0, f"{names} overlap in time", "one run at a time on a machine", do
        )
    if names := find_foreign_overlap(records):
        do = "make sure that they ran on different machines"
        found = f"{names} overlap in time"
        yield Complaint(place.name, 0, found, "one run at a time on a machine", do, warning=True)
