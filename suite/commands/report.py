"""`suite report DIR…`: print tables of time to target, throughput, and speedup, or write a page."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import (
    add,
    add_format,
    add_logs,
    add_price,
    check_logs,
    counts,
    prices,
    print_notes,
    resolve_output,
    write,
)
from workloads import files

if TYPE_CHECKING:
    from suite.results.columns import Run


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite report`."""
    add_logs(parser)
    add_format(parser)
    text = (
        "write an HTML page with figures that needs no network; an earlier page of this command is"
        " replaced"
    )
    add(parser, "--html OUT", text, type=Path)
    text = "with --html: compare with published results (suite published list)"
    add(parser, "--to ROUND/SUBMITTER/SYSTEM", text)
    add(
        parser,
        "--figures FOLDER",
        "with --html: write the figures as SVG and PNG into a new folder",
        type=Path,
    )
    add(
        parser,
        "--follow",
        "with --html: update the page every 10 s until Ctrl-C, and let browsers reload it",
    )
    text = "with --html: predict the results on these numbers of devices (suite scaling)"
    add(parser, "--predict N,N,…", text, type=counts)
    add_price(parser)
    text = "add a table of ratios to the results with device=cpu, gpus=N or framework=NAME"
    add(parser, "--baseline KEY=VALUE", text)
    add(parser, "--verbose", "also list settings that have their default values")


def run(args: argparse.Namespace) -> int:
    """Print or write the report, and return 0.

    Raises:
        ValueError: A folder has no logs, a file is not a log, or the output cannot be written.
    """
    resolve_output(args)
    check_logs(args.paths)
    _print_skipped(args.paths)
    if args.html is not None:
        return _html(args)
    if args.to is not None or args.figures is not None or args.predict is not None or args.follow:
        raise ValueError("--to, --figures, --predict and --follow need --html OUT")
    from suite.results.table import read_runs
    from suite.results.views.baseline import parse_baseline
    from suite.results.views.report_view import report, with_single_title

    against = None if args.baseline is None else parse_baseline(args.baseline)
    if args.format != "markdown" and against is not None:
        raise ValueError(
            f"--baseline adds a table to the Markdown report. Leave out --format {args.format}"
        )
    write(
        with_single_title(report(read_runs(args.paths), prices(args), against, args.verbose)), args
    )
    return 0


def _print_skipped(paths: list[Path]) -> None:
    """Print how many files below `paths` are skipped because they are not logs."""
    from suite.results.logs.collect import skipped

    if count := skipped(paths):
        files_text = (
            "1 file that is not a log" if count == 1 else f"{count:,} files that are not logs"
        )
        print(f"suite report: skipped {files_text}", file=sys.stderr)


def _html(args: argparse.Namespace) -> int:
    if args.format != "markdown" or args.output is not None or args.baseline is not None:
        raise ValueError(
            "--html writes a page only. Leave out --format, --output, and --baseline, or run suite"
            " report twice"
        )
    if args.follow and args.figures is not None:
        raise ValueError(
            "--follow updates the page, and --figures writes figures once. Leave out either option"
        )
    # Import the module here, because its dependency vl-convert is needed only for pages.
    from suite.results.render.html.page import FOLLOW_SECONDS, write_html
    from suite.results.scores import find_published, results_of
    from suite.results.table import read_runs

    published = [] if args.to is None else find_published(args.to)
    price_list = prices(args)

    def write_page(follow: bool | None) -> list[Run]:
        with _replacing_earlier_page(args.html) as out:
            runs, home = read_runs(args.paths), args.html.parent
            write_html(
                runs, out, published, args.figures, price_list, args.predict or (), follow, home
            )
        return runs

    runs = write_page(args.follow or None)
    if price_list is not None:
        print_notes(price_list.unused_notes(results_of(runs)), args)
    print(args.html, flush=True)
    if not args.follow:
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(FOLLOW_SECONDS)
            write_page(follow=True)
    write_page(follow=False)  # the last version of the page does not reload itself
    return 0


@contextlib.contextmanager
def _replacing_earlier_page(page: Path) -> Iterator[Path]:
    """Yield the path to which the new page is written.

    When the new page is complete, the new page replaces the page of an earlier `suite report`.
    """
    if page.is_symlink() or not page.is_file() or not _is_page(page):
        yield page
        return
    with tempfile.TemporaryDirectory(prefix=".suite-", dir=page.absolute().parent) as folder:
        yield Path(folder, page.name)
        os.replace(Path(folder, page.name), page)


def _is_page(path: Path) -> bool:
    """Check whether `suite report` wrote a file. Other files must not be overwritten."""
    with files.open_stream(path) as stream:
        return b'<meta name="generator" content="suite ' in stream.read(1 << 12)
