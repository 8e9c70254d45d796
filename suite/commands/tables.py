"""`suite tables DIR…`: tables 1-7 of the DGX-1 scaling article for our results."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import write

if TYPE_CHECKING:
    from suite.results.views.section import View


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite tables`."""
    from suite.results.render.document import FORMATS

    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="DIR", help="folder with runs (searched below), or a log"
    )
    parser.add_argument("--article", action="store_true", help="the article's own tables too, with its table 7 checked")
    parser.add_argument(
        "--format", choices=FORMATS, help="markdown (default), csv, json or parquet; with --output markdown and csv"
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
    from suite.results.scores import find_published, measured
    from suite.results.views.tables import tables

    if not args.paths and not args.article:
        raise ValueError("give a folder with runs (suite tables logs/) or --article")
    results = measured(args.paths, command="tables") if args.paths else []
    view = tables(results, args.article)
    if args.figures is not None:
        from suite.results.render.html.scaling import write_scaling_figures  # matplotlib: only here

        write_scaling_figures([*results, *(find_published("dgx1-article") if args.article else [])], args.figures)
    if args.output is None:
        args.format = args.format or "markdown"
        write(view, args)
    else:
        _write(args.output, _files(view, args.format))
    return 0


def _files(view: View, form: str | None) -> dict[str, bytes]:
    """The content of each file of a folder; without a format the tables as Markdown and as CSV."""
    from suite.results.render.document import document

    summary = view.data["table"] == 7
    parts = {"tables_1_to_6": ~summary, "table_7": summary}
    found: dict[str, str | bytes] = {}
    if form in (None, "markdown"):
        found["tables.md"] = document(view)
    for name, rows in parts.items() if form != "markdown" else ():
        part = replace(view, data=view.data[rows].dropna(axis="columns", how="all"))
        found[f"{name}.{form or 'csv'}"] = document(part, form or "csv")
    return {name: text if isinstance(text, bytes) else text.encode() for name, text in found.items()}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files or none; an existing file stays, and is fine only if it holds the same."""
    for name, content in files.items():
        path = folder / name
        if path.exists() and (not path.is_file() or path.read_bytes() != content):
            raise ValueError(
                f"--output {folder}: {name} exists there already and is not overwritten; give another folder"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ValueError(f"--output {folder} cannot be written ({error.strerror}); give a folder") from error
    for name in files:
        print(folder / name)
