"""Command line: `python -m tools.published REPOSITORY --round v5.1 --into logs/published`."""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from suite.results.names import parse_round_name
from tools.published.rows import EarlierRuns, Row, entry_folders, rows_of_entry
from tools.published.tree import is_git_directory, write_files

KEY = ("round", "submitter", "system", "benchmark")
"""Columns that identify an entry in both files."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Add the entries of a round, and return 0, or 2 for a wrong argument."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.published",
        description="Add the results of a published round to results.csv and runs.csv.",
    )
    parser.add_argument(
        "repository", type=Path, help="results repository: a work tree or a git directory"
    )
    parser.add_argument("--round", required=True, metavar="R", help="round, such as v5.1")
    parser.add_argument(
        "--into", required=True, type=Path, metavar="FOLDER", help="folder with the two files"
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="repository in the column `source`; default: mlcommons/training_results_ROUND",
    )
    options = parser.parse_args(arguments)
    round_name = parse_round_name(options.round)
    try:
        if not round_name:
            raise ValueError(f"--round {options.round}: expected a round such as v5.1")
        source = options.source or f"mlcommons/training_results_{round_name}"
        print(add_round(options.repository, round_name, options.into, source))
    except (OSError, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


def add_round(repository: Path, round_name: str, folder: Path, source: str) -> str:
    """Append the entries of a round that the two files do not hold, and return a summary.

    Existing rows are unchanged. Entries without a score, and logs that the repository lists but
    does not hold, are reported on standard error.

    Raises:
        ValueError: The repository has no entry, or a file is missing.
    """
    results_path, runs_path = folder / "results.csv", folder / "runs.csv"
    results, runs = _read_rows(results_path), _read_rows(runs_path)
    if not repository.is_dir():
        raise ValueError(f"{repository}: no such folder. Give a results repository")
    present = {tuple(row[name] for name in KEY) for row in results}
    earlier = EarlierRuns()
    for row in runs:
        start, seconds = (
            float(row[name]) if row[name] else None
            for name in ("run_start_unix_seconds", "seconds")
        )
        entry = f"{row['round']} {row['submitter']}/{row['system']}"
        earlier.add(row["benchmark"], start, seconds, entry)
    new_results: list[Row] = []
    new_runs: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        tree = repository.resolve()
        if is_git_directory(tree):
            tree = Path(temporary).resolve() / round_name
            tree.mkdir()
            for path in write_files(repository, tree):
                print(f"not in the git directory: {path}", file=sys.stderr)
        folders = entry_folders(tree)
        if not folders:
            raise ValueError(f"{repository}: no result_*.txt in SUBMITTER/results/SYSTEM/BENCHMARK")
        for logs in folders:
            try:
                result, rows = rows_of_entry(logs, tree, round_name, source, earlier)
            except ValueError as error:
                print(f"left out: {logs.relative_to(tree)}: {error}", file=sys.stderr)
                continue
            if tuple(result[name] for name in KEY) in present:
                continue
            new_results.append(result)
            new_runs += rows
    _append_rows(results_path, new_results)
    _append_rows(runs_path, new_runs)
    return f"{len(new_results)} entries and {len(new_runs)} runs added to {folder}"


def _read_rows(path: Path) -> list[Row]:
    if not path.is_file():
        raise ValueError(f"{path}: no such file. Set --into to the folder with results.csv")
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _append_rows(path: Path, rows: Sequence[Row]) -> None:
    with open(path, encoding="utf-8", newline="") as stream:
        columns = next(csv.reader(stream))
    with open(path, "a", encoding="utf-8", newline="") as stream:
        csv.DictWriter(stream, columns, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
