"""`suite compare A B`, `suite compare LOGS… [--to NAME | --to-logs OTHER…]`: compares results, and their convergence."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import add, add_format, resolve_output, write

if TYPE_CHECKING:
    from suite.results.views.compare import Side


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite compare`."""
    text = "folder with runs (searched below), or a log; two of them are compared with each other; or the name of published "
    add(parser, "logs LOGS", f"{text}results, such as dgx1-article", nargs="+", type=Path)
    other = parser.add_mutually_exclusive_group()
    text = "published results, such as v0.5/NVIDIA/dgx1 or dgx1-article (suite published list has all)"
    add(other, "--to ROUND/SUBMITTER/SYSTEM", text)
    add(other, "--to-logs OTHER", "another set of runs", nargs="+", type=Path)
    add(parser, "--workload NAME,…", "only these workloads", default="")
    add(parser, "--profile NAME", "only runs of this profile, where LOGS hold several")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print or write the comparison; 1 if nothing was comparable. Raises ValueError for a user's mistake."""
    from suite.results.scores import published_results
    from suite.results.views.compare import comparable, compare

    resolve_output(args)
    view = compare(*_sides(args), published_results())
    write(view, args)
    return 0 if comparable(view) else 1


def _sides(args: argparse.Namespace) -> tuple[Side, Side | None]:
    from suite.results.views.compare import logs_side, published_side

    workloads = [name for name in args.workload.split(",") if name]
    logs, to, other, option = list(args.logs), args.to, args.to_logs, "--to-logs"
    if to is None and not other and len(logs) > 1:
        if len(logs) > 2:
            raise ValueError(
                f"{len(logs)} folders: which against which? type suite compare {logs[0]} {logs[1]}, or name the others of the "
                f"second side after --to-logs: suite compare {logs[0]} --to-logs {' '.join(map(str, logs[1:]))}"
            )
        to, other, option = (None, logs[1:], "LOGS") if logs[1].exists() else (str(logs[1]), None, option)
        logs = logs[:1]
    if other:
        return logs_side(logs, "A", args.profile, workloads), logs_side(other, "B", args.profile, workloads, option)
    if to is None:
        return logs_side(logs, "ours", args.profile, workloads), None
    theirs = published_side(to, workloads=workloads)
    if args.profile is None and len(logs) == 1 and not logs[0].exists():
        with contextlib.suppress(ValueError):  # no such name: the missing folder is the mistake
            return published_side(str(logs[0]), "A", workloads), replace(theirs, name="B")
    return logs_side(logs, "ours", args.profile, workloads), theirs
