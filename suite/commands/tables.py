"""`suite tables DIR…`: print tables 1-7 of the DGX-1 article for measured results."""

from __future__ import annotations

import argparse
from pathlib import Path

from suite.commands.arguments import add, add_format, add_logs, check_logs, resolve_output, write


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite tables`."""
    add_logs(parser, nargs="*")
    add(parser, "--article", "add the tables of the article, and check the speedups of its table 7")
    add_format(parser)
    figure = (
        "the article's figure 6 (time to target over devices, speedup as an inset) as SVG and PNG"
        " in a new folder"
    )
    add(parser, "--figures FOLDER", figure, type=Path)


def run(args: argparse.Namespace) -> int:
    """Print or write the tables and return 0.

    Raises:
        ValueError: No results were found, or a file would be overwritten.
    """
    from suite.results.scores import find_published, measured
    from suite.results.views.tables_view import tables

    resolve_output(args)
    if not args.paths and not args.article:
        raise ValueError("give a folder with runs (suite tables logs/) or --article")
    check_logs(args.paths)
    results = measured(args.paths, command="tables") if args.paths else []
    view = tables(results, args.article)
    if args.figures is not None:
        from suite.results.render.html.charts import looks
        from suite.results.render.html.scaling_charts import scaling_charts

        # vl-convert, which the module imports, is needed only for figures
        from suite.results.render.html.vega import write_figures

        drawn = [*results, *(find_published("dgx1-article") if args.article else [])]
        write_figures(scaling_charts(drawn, (), looks(drawn)), args.figures)
    write(view, args)
    return 0
