"""`suite published list`: print results of published rounds and of the DGX-1 article."""

from __future__ import annotations

import argparse
from pathlib import Path

from suite.commands.arguments import (
    add,
    add_format,
    add_price,
    prices,
    print_notes,
    resolve_output,
    write,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and options of `suite published`."""
    subcommands = parser.add_subparsers(dest="subcommand", metavar="list", required=True)
    listed = subcommands.add_parser("list", help="print published results")
    add(
        listed,
        "--round R",
        "v0.5, v0.6, v0.7, v1.1, v2.1, v3.0, v3.1, v4.0, v4.1, v5.0, v5.1, v6.0, or dgx1-article;"
        " several separated by commas",
    )
    add(listed, "--submitter NAME", "NVIDIA, Google, …; several separated by commas")
    add(
        listed,
        "--workload W",
        "resnet50, ssd, …, llama31_8b, flux1; several separated by commas",
    )
    add(listed, "--framework F", "pytorch, tensorflow, mxnet, jax, or part of a framework's name")
    add(listed, "--chips N", "8, a list 1,4,8, or a range 1-16 (0: CPUs only)")
    add(listed, "--system TEXT", "part of a system's name or description")
    add(listed, "--division D", "closed or open")
    add(
        listed,
        "--html OUT",
        "write an HTML page with an overview and all columns, which needs no network",
        type=Path,
    )
    add(
        listed,
        "--logs DIR",
        "with --html: compare with the results of your runs",
        type=Path,
        nargs="+",
        default=[],
    )
    add_format(listed)
    add_price(listed)


def run(args: argparse.Namespace) -> int:
    """Print the list or write the page, and return 0.

    Raises:
        ValueError: No result matches a filter, or the output cannot be written.
    """
    from suite.results.views.published_view import OPTIONS, published_list

    resolve_output(args)
    if args.html is not None and args.format != "markdown":
        raise ValueError("--html writes a page, so leave out --format")
    if args.html is not None and args.output is not None:
        raise ValueError(
            f"--html {args.html} and --output {args.output}: leave out --html or --output"
        )
    view = published_list({name: getattr(args, name) for name in OPTIONS}, prices(args))
    if args.logs and args.html is None:
        raise ValueError(
            "--logs needs --html OUT; to compare results in tables, run: suite compare"
        )
    if args.html is None:
        write(view, args)
        return 0
    from suite.results.render.html.published_page import write_published_html
    from suite.results.scores import measured

    print_notes(view.notes, args)
    write_published_html(view, args.html, measured(args.logs) if args.logs else ())
    print(args.html)
    return 0
