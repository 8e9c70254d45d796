"""`suite report DIR…`: tables of time to target, throughput and speedup from logs."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "tables of time to target, throughput and speedup from logs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite report`."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="DIR", help="folder with runs (searched below), or a log"
    )
    parser.add_argument(
        "--format", choices=("markdown", "csv"), default="markdown", help="markdown (default) or csv (raw numbers)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to FILE instead of standard output")


def run(args: argparse.Namespace) -> int:
    """Print or write the report; 0. Raises ValueError for a folder without logs or an output that cannot be written."""
    from suite.results.report import report_csv, report_text

    text = report_csv(args.paths) if args.format == "csv" else report_text(args.paths)
    if args.output is None:
        print(text, end="")
        return 0
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"--output {args.output} cannot be written ({error.strerror}); give the path of a file"
        ) from error
    return 0
