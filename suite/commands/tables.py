"""`suite tables DIR…`: tables 1-7 of the DGX-1 scaling article for our results."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import add, add_logs, write
from workloads.files import read_bytes

if TYPE_CHECKING:
    from suite.results.views.section import View


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite tables`."""
    from suite.results.render.document import FORMATS

    add_logs(parser, nargs="*")
    add(parser, "--article", "the article's own tables too, with its table 7 checked")
    add(parser, "--format", "markdown (default), csv, json or parquet", choices=FORMATS)
    files = "write tables.md, tables_1_to_6.csv and table_7.csv into FOLDER"
    add(parser, "--output FOLDER", files, type=Path)
    figure = "the article's figure 6 (time to target over devices, speedup as an inset) as SVG and PNG in a new folder"
    add(parser, "--figures FOLDER", figure, type=Path)


def run(args: argparse.Namespace) -> int:
    """Print or write the tables; 0. Raises ValueError if there is nothing to show or a file would be overwritten."""
    from suite.results.scores import find_published, measured
    from suite.results.views.tables import tables

    if not args.paths and not args.article:
        raise ValueError("give a folder with runs (suite tables logs/) or --article")
    if args.output is not None and args.format is not None:
        raise ValueError(
            f"--format {args.format}: --output FOLDER writes both Markdown and CSV; leave one of the two out"
        )
    results = measured(args.paths, command="tables") if args.paths else []
    view = tables(results, args.article)
    if args.figures is not None:
        from suite.results.render.html.scaling import scaling_charts
        from suite.results.render.html.vega import write_figures  # vl-convert: only here

        drawn = [*results, *(find_published("dgx1-article") if args.article else [])]
        write_figures(scaling_charts(drawn), args.figures)
    if args.output is not None:
        _write(args.output, view)
        return 0
    args.format = args.format or "markdown"
    write(view, args)
    return 0


def _write(folder: Path, view: View) -> None:
    """Write all files or none; an existing file stays, and is fine only if it holds the same."""
    from suite.results.render.document import document

    summary, files = view.data["table"] == 7, {"tables.md": str(document(view))}
    for name, rows in (("tables_1_to_6.csv", ~summary), ("table_7.csv", summary)):
        part = view.data[rows].dropna(axis="columns", how="all")
        files[name] = str(document(replace(view, data=part), "csv"))
    for name, text in files.items():
        path = folder / name
        if path.exists() and (not path.is_file() or read_bytes(path) != text.encode()):
            raise ValueError(f"--output {folder}: {name} exists there already and is not overwritten; give another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise ValueError(f"--output {folder} cannot be written ({error.strerror}); give a folder") from error
    print(*(folder / name for name in files), sep="\n")
