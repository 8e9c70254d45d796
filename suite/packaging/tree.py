"""Check a submission tree.

The checks cover names, structure, system descriptions, logs, and seeds. The suite also runs the
checkers of mlperf-logging.
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
from suite.compliance.convergence_points import check_convergence
from suite.compliance.rulesets import package_rulesets
from suite.packaging.checkers import check_package, check_seeds
from suite.packaging.description import check_description
from suite.packaging.layout import (
    BENCHMARKS,
    FILE_BYTES_LIMIT,
    PACKAGED,
    RESULTS,
    SCALING_FILE,
    SYSTEMS,
    failed_allowed,
)
from suite.packaging.same_setup import (
    difference,
    find_copy,
    find_different_code,
    find_foreign_overlap,
    find_overlap,
)
from suite.results.logs.reader import read
from suite.results.logs.record import RunRecord
from suite.results.names import workload_name
from suite.results.scoring_rules import RUNS_REQUIRED
from suite.results.text import clean


def check_tree(folder: Path, werror: bool = False) -> list[Verdict]:
    """Return the verdicts on a submission tree.

    The problems should be fixed in the order of the verdicts. The function never raises an error
    for an invalid tree. Links and special files are never opened. If the tree contains links,
    special files, or unreadable files, only the names are checked.
    """
    names = check_names(folder, werror)
    if any(complaint.found in (_NOT_A_FILE, _NOT_READABLE) for complaint in names.complaints):
        return [names]
    systems = [check_description(folder, name, werror) for name in _names(folder)]
    verdicts = [names, *systems]
    checked: list[RunRecord] = []
    """Records of the result sets that were already checked. These records are shared by all
    systems, because two systems in the tree may be the same machine.
    """
    for result_folder in _result_folders(folder):
        verdicts += check_results(folder, result_folder, werror, checked)
    verdicts += [_structure_verdict(folder, werror)]
    # The package checker stops at the first system description that it cannot read.
    if all(verdict.passed for verdict in systems):
        verdicts += [
            check_package(folder, werror, ruleset) for ruleset in package_rulesets(checked)
        ]
    else:
        text = "not run: repair the system descriptions first"
        verdicts.append(Verdict(folder, False, text, "package_checker", ()))
    return verdicts


_NOT_A_FILE = "a symbolic link or special file, not opened"
_NOT_READABLE = "no permission to read it"


def check_names(folder: Path, werror: bool = False) -> Verdict:
    """Check names and file sizes against the rules of repo_checker.

    Names must not contain a space or begin with a dot, and files are limited to 50 MB. Links and
    special files are rejected.
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
                    "no spaces, no leading dot",
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
                    shown,
                    0,
                    _NOT_A_FILE,
                    "ordinary files",
                    "replace it by the file",
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
    """Yield the path and the stat result of each file and folder below `folder`.

    Links are not followed.
    """
    for result_folder, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = Path(result_folder, name)
            yield path.relative_to(folder), path.lstat()


def _result_folders(folder: Path) -> list[Path]:
    return sorted(
        result_folder for result_folder in (folder / RESULTS).glob("*/*") if result_folder.is_dir()
    )


def _names(folder: Path) -> list[str]:
    """Return the names of all systems that have results or a description."""
    with_results = {path.name for path in (folder / RESULTS).glob("*") if path.is_dir()}
    return sorted(with_results | {path.stem for path in (folder / SYSTEMS).glob("*.json")})


def _structure_verdict(folder: Path, werror: bool) -> Verdict:
    """Return the verdict on the tree's structure.

    The tree must contain results, and the code of each benchmark.
    """
    complaints, without_code = [], []
    places = _result_folders(folder)
    if not places:
        needed = f"{RESULTS}/SYSTEM/BENCHMARK/result_0.txt, …"
        complaints.append(
            Complaint(
                RESULTS, 0, "no results", needed, "write the tree with: suite package LOGS OUT"
            )
        )
    for name in sorted({result_folder.name for result_folder in places}):
        code = folder / BENCHMARKS / name / "implementations"
        files = [path for path in code.rglob("*") if path.is_file()]
        path = f"{BENCHMARKS}/{clean(name)}/implementations"
        if not files:
            do = "put the code of the runs, its settings, and a README into this folder"
            complaints.append(
                Complaint(path, 0, "no files", "the code of every benchmark", do, warning=True)
            )
        elif all(file.stem.lower() == "readme" for file in files):
            without_code.append(
                f"{path}: it contains only a README. Put the code of the runs and its settings"
                " into this folder"
            )
    good = (
        "results and systems are present, code is missing"
        if without_code
        else "results, systems, and code are present"
    )
    verdict = Verdict.of(folder, "layout", good, complaints, werror)
    return replace(verdict, remarks=tuple(without_code))


def check_results(
    folder: Path, result_folder: Path, werror: bool = False, of_tree: list[RunRecord] | None = None
) -> list[Verdict]:
    """Check the logs of a benchmark on a system, individually and as a set.

    Args:
        folder: The submission tree.
        result_folder: The folder of the logs.
        werror: Treat warnings as errors.
        of_tree: Records of the result sets that were already checked. The new logs must not be
            copies of these records, and the new runs must not overlap with these runs on the same
            machine. The function appends the new records to this list.
    """
    logs = _logs(result_folder)
    verdicts = [check_file(path, werror=werror) for path in logs if path.is_file()]
    records = [read(path) for path in logs if path.is_file()]
    complaints = [
        *_count_complaints(result_folder, [path.name for path in logs]),
        *_stray_file_complaints(result_folder),
        *_mixed_run_complaints(result_folder, records, of_tree or ()),
        *_overlap_complaints(result_folder, records, of_tree or ()),
    ]
    if of_tree is not None:
        of_tree += records
    allowed = failed_allowed(result_folder.name)
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
            f"logs that pass. At most {allowed} of the set may miss the target, without any"
            " further complaint"
        )
        complaints.append(
            Complaint(
                result_folder.name,
                0,
                problem,
                needed,
                "see the complaints about each log, and run the whole set again",
            )
        )
    good = f"{len(logs)} runs with the same settings"
    whole = Verdict.of(result_folder, "result set", good, complaints, werror)
    convergence = check_convergence(result_folder, records, werror) if records else None
    return [
        *verdicts,
        whole,
        *([check_seeds(result_folder, logs, records, werror)] if logs else []),
        *([convergence] if convergence is not None else []),
    ]


def _logs(result_folder: Path) -> list[Path]:
    """Return the logs of a result set in the order of their numbers."""
    return sorted(result_folder.glob("result_*.txt"), key=lambda path: (len(path.name), path.name))


def _accepted(failed: Verdict, allowed: int) -> Verdict:
    """Return a passing verdict on a log that missed the target."""
    most = "one run" if allowed == 1 else f"up to {allowed} runs"
    return replace(
        failed, passed=True, text=f"{failed.text} (accepted: {most} of a set may miss the target)"
    )


def _count_complaints(result_folder: Path, names: list[str]) -> Iterator[Complaint]:
    """Yield complaints about a wrong number of logs, and about logs not numbered from 0."""
    required = required_runs(result_folder.name)
    if required is None:
        allowed = ", ".join(sorted(PACKAGED))
        do = f"rename the folder{suggestion(result_folder.name, PACKAGED)}, or leave it out"
        yield Complaint(
            clean(result_folder.name),
            0,
            "a benchmark that the rules do not define",
            f"one of {allowed}",
            do,
        )
        return
    if len(names) != required:
        do = (
            "add the missing runs"
            if len(names) < required
            else "keep the runs that started first, not the fastest runs"
        )
        yield Complaint(
            result_folder.name,
            0,
            f"{len(names)} logs",
            f"exactly {required}: result_0.txt to …",
            do,
        )
    wrong = sorted(set(names) - {f"result_{index}.txt" for index in range(len(names))})
    if wrong:
        needed = f"result_0.txt to result_{len(names) - 1}.txt"
        yield Complaint(
            result_folder.name,
            0,
            clean(", ".join(wrong[:5])),
            needed,
            "number the logs from 0, without gaps",
        )


def required_runs(benchmark: str) -> int | None:
    """Return the number of logs that a result requires.

    Returns None for a benchmark that neither the suite nor mlperf-logging defines.
    """
    from mlperf_logging.benchmark_meta import get_result_file_counts

    required: int | None = RUNS_REQUIRED.get(workload_name(benchmark)) or get_result_file_counts(
        "training"
    ).get(benchmark)
    return required


def _stray_file_complaints(result_folder: Path) -> Iterator[Complaint]:
    stray_files = sorted(
        path.name
        for path in result_folder.iterdir()
        if not path.match("result_*.txt") and path.name != SCALING_FILE
    )
    bypass = "package_checker_params"
    if bypass in stray_files:
        do = "remove it before you rely on the verdict"
        yield Complaint(
            bypass, 0, "a file that switches checks off", "every check to run", do, warning=True
        )
    unexpected = clean(", ".join(name for name in stray_files if name != bypass)[:300])
    if unexpected:
        yield Complaint(
            result_folder.name,
            0,
            unexpected,
            "only files result_N.txt",
            "remove it, or rename it",
            warning=True,
        )


def _mixed_run_complaints(
    result_folder: Path, records: list[RunRecord], of_tree: Sequence[RunRecord] = ()
) -> Iterator[Complaint]:
    """Yield complaints about logs that do not belong in this result set.

    Such a log has different settings, is from a different benchmark, or cannot be submitted.
    """
    for record in records:
        if record.benchmark and record.benchmark != result_folder.name:
            do = f"move {record.path.name} to the folder of its benchmark"
            yield Complaint(
                "submission_benchmark", 0, clean(record.benchmark, 80), result_folder.name, do
            )
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
            result_folder.name,
            0,
            text,
            "the same value in all runs of a result",
            "package each setting separately",
        )
    if names := find_different_code(records):
        do = "package the runs of each version of the code separately"
        yield Complaint(
            "suite_run",
            0,
            f"{names} ran different code (code_digest)",
            "the same code in all runs of a result",
            do,
        )
    of_benchmark = [record for record in of_tree if record.benchmark == result_folder.name]
    if text := find_copy(records, of_benchmark):
        yield Complaint(
            result_folder.name,
            0,
            f"the same run twice: {text}",
            "different runs",
            "replace one of them by a different run",
        )


def _overlap_complaints(
    result_folder: Path, records: list[RunRecord], of_tree: Sequence[RunRecord]
) -> Iterator[Complaint]:
    """Yield complaints about runs that overlapped in time on the same machine.

    Logs of other programs do not contain the machine, so complaints about these logs are warnings.
    """
    if names := find_overlap([*of_tree, *records]):
        do = (
            "repeat the runs one after another. If they ran on different machines, set"
            " system.name=NAME for each machine"
        )
        yield Complaint(
            result_folder.name,
            0,
            f"{names} overlap in time",
            "one run at a time on each machine",
            do,
        )
    if names := find_foreign_overlap(records):
        do = "make sure that they ran on different machines"
        found = f"{names} overlap in time"
        yield Complaint(
            result_folder.name, 0, found, "one run at a time on each machine", do, warning=True
        )
