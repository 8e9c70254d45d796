"""`suite compare LOGS… [--to NAME | --to-logs OTHER…]`: compares results, and their convergence with published runs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.results.compare.entries import ResultSet


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite compare`."""
    parser.add_argument(
        "logs",
        nargs="+",
        type=Path,
        metavar="LOGS",
        help="folder with runs (searched below), or a log; or the name of published results, such as dgx1-article",
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--to",
        metavar="ROUND/SUBMITTER/SYSTEM",
        help="published results, such as v0.5/NVIDIA/dgx1 or dgx1-article (suite published list has all); "
        "an existing path that is no published result is taken as --to-logs",
    )
    other.add_argument("--to-logs", nargs="+", type=Path, metavar="OTHER", help="another set of runs")
    parser.add_argument("--workload", default="", metavar="NAME,…", help="only these workloads")
    parser.add_argument("--profile", metavar="NAME", help="only runs of this profile, where LOGS hold several")
    parser.add_argument(
        "--format", choices=("markdown", "csv", "json"), default="markdown", help="markdown (default), csv or json"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to FILE, which must not exist yet")


def run(args: argparse.Namespace) -> int:
    """Print or write the comparison; 1 if nothing was comparable. Raises ValueError for a user's mistake."""
    from suite.results.compare.compare import Comparison, compare
    from suite.results.compare.entries import published_result_set, result_set_from_logs
    from suite.results.compare.export import comparison_csv, comparison_json
    from suite.results.compare.markdown import comparison_markdown
    from suite.results.published.csv_files import load_published_results

    if args.output is not None and args.output.exists():
        raise ValueError(f"--output {args.output} exists and is not overwritten; give another path")
    workloads = [name for name in args.workload.split(",") if name]

    def result_sets() -> tuple[ResultSet, ResultSet | None]:
        theirs, other = None, args.to_logs
        if args.to is not None:
            try:
                theirs = published_result_set(args.to)
            except ValueError:
                if not Path(args.to).exists():
                    raise
                other = [Path(args.to)]
        if not other:
            return _first_set(args.logs, args.profile, workloads, theirs is not None), theirs
        ours = result_set_from_logs(args.logs, "A", args.profile, workloads)
        argument = "--to" if args.to_logs is None else "--to-logs"
        return ours, result_set_from_logs(other, "B", args.profile, workloads, argument=argument)

    ours, theirs = result_sets()
    comparison: Comparison = compare(ours, theirs, load_published_results())
    text = {"markdown": comparison_markdown, "csv": comparison_csv, "json": comparison_json}[args.format](comparison)
    _write(text, args.output)
    return 0 if comparison.comparable else 1


def _first_set(logs: Sequence[Path], profile: str | None, workloads: Sequence[str], to_published: bool) -> ResultSet:
    """The runs below `logs`; or the published results that the one argument names, beside other published ones.

    Raises ValueError for neither.
    """
    from suite.results.compare.entries import published_result_set, result_set_from_logs

    if to_published and profile is None and len(logs) == 1 and not logs[0].exists():
        with contextlib.suppress(ValueError):  # no such name: the missing folder is the mistake
            return published_result_set(str(logs[0]), workloads)
    return result_set_from_logs(logs, "ours", profile, workloads)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
        return
    try:
        with open(output, "x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ValueError(
            f"--output {output} cannot be written ({error.strerror}); give the path of a new file"
        ) from error
