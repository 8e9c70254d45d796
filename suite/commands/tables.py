"""`suite tables DIR…`: tables 1-7 of the DGX-1 scaling article for our results."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite tables`."""
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="DIR", help="folder with runs (searched below), or a log"
    )
    parser.add_argument("--article", action="store_true", help="the article's own tables too, with its table 7 checked")
    parser.add_argument(
        "--format",
        choices=("markdown", "csv"),
        help="markdown (default) or csv; with --output both unless one is given",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="write tables.md, tables_1_to_6.csv and table_7.csv into FOLDER"
    )
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="FOLDER",
        help="the article's figure 6 (time to target over devices, speedup as an inset) as SVG and PNG in a new folder",
    )


def run(args: argparse.Namespace) -> int:
    """Print or write the tables; 0. Raises ValueError if there is nothing to show or a file would be overwritten."""
    from suite.results.advise.article_csv import results_csv, speedups_csv
    from suite.results.advise.article_tables import article_tables, tables_markdown
    from suite.results.published.other_logs import measurements_below

    if not args.paths and not args.article:
        raise ValueError("give a folder with runs (suite tables logs/) or --article")
    ours = measurements_below(args.paths) if args.paths else []
    tables = article_tables(ours, args.article)
    if args.figures is not None:
        from suite.results.html.scaling_curves import write_scaling_figures  # matplotlib: only here

        write_scaling_figures([item for family in tables.families for item in family.measurements], args.figures)
    if args.output is None:
        csv = f"{results_csv(tables)}\n{speedups_csv(tables)}" if args.format == "csv" else ""
        print(csv or tables_markdown(tables), end="")
        return 0
    files: dict[str, str] = {}
    if args.format in (None, "markdown"):
        files["tables.md"] = tables_markdown(tables)
    if args.format in (None, "csv"):
        files |= {"tables_1_to_6.csv": results_csv(tables), "table_7.csv": speedups_csv(tables)}
    _write(args.output, files)
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write all files or none; an existing file stays, and is fine only if it holds the same."""
    for name, text in files.items():
        path = folder / name
        if path.exists() and (not path.is_file() or path.read_bytes() != text.encode()):
            raise ValueError(
                f"--output {folder}: {name} exists there already and is not overwritten; give another folder"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise ValueError(f"--output {folder} cannot be written ({error.strerror}); give a folder") from error
    for name in files:
        print(folder / name)
