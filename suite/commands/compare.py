"""Compare results, and check convergence.

Usage: `suite compare A B` or `suite compare LOGS… [--to NAME | --to-logs LOGS…]`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import add, add_format, check_logs, resolve_output, write
from suite.common.paths import real_path

if TYPE_CHECKING:
    from suite.results.views.compare_sides import Side


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite compare`."""
    text = (
        "folder with runs (searched for logs), a log, or the name of published results, such as"
        " dgx1-article; two of them are compared with each other"
    )
    add(parser, "logs LOGS", text, nargs="+", type=Path)
    second = parser.add_mutually_exclusive_group()
    text = (
        "compare with published results, such as v0.5/NVIDIA/dgx1 or dgx1-article (suite published"
        " list has all names)"
    )
    add(second, "--to ROUND/SUBMITTER/SYSTEM", text, nargs="?", const="")
    add(second, "--published ROUND/SUBMITTER/SYSTEM", "the same as --to", nargs="?", const="")
    add(second, "--to-logs LOGS", "compare with these runs", nargs="+", type=Path)
    add(parser, "--workload NAME,…", "only these workloads", default="")
    add(parser, "--profile NAME", "only runs of this profile, if LOGS have several profiles")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print or write the comparison of the results.

    Returns:
        0 if at least one result was compared, otherwise 1.

    Raises:
        ValueError: An argument is invalid, or no run succeeded.
    """
    from suite.results.scores import published_results
    from suite.results.views.compare_view import comparable, compare

    resolve_output(args)
    view = compare(*_sides(args), published_results())
    write(view, args)
    return 0 if comparable(view) else 1


def _sides(args: argparse.Namespace) -> tuple[Side, Side | None]:
    """Return the two groups of results to compare.

    The second group is None if the command only checks convergence.

    Raises:
        ValueError: A path or a name does not exist, both groups are identical, or the arguments are
            ambiguous.
    """
    from suite.results.views.compare_sides import logs_side, published_side

    workloads = [name for name in args.workload.split(",") if name]
    paths, second_paths, argument = list(args.logs), list(args.to_logs or ()), "--to-logs"
    to = _published_name(args, paths)
    if to is None and not second_paths and len(paths) > 1:
        if len(paths) > 2:
            raise ValueError(
                f"{len(paths)} folders: expected one or two. Run: suite compare {paths[0]}"
                f" {paths[1]}, or name the second set after --to-logs: suite compare {paths[0]}"
                f" --to-logs {' '.join(map(str, paths[1:]))}"
            )
        paths, second_paths, argument = paths[:1], paths[1:], "LOGS"
    names = _published_among([*paths, *second_paths])
    if to is None and names and len(paths) == len(second_paths) == 1:
        if {str(paths[0]), str(second_paths[0])} <= names.keys():
            _refuse_same(str(paths[0]).strip("/").lower(), str(second_paths[0]).strip("/").lower())
            ours = published_side(str(paths[0]), "A", workloads)
            return ours, published_side(str(second_paths[0]), "B", workloads)
        (to,) = names
        paths, second_paths = [path for path in (*paths, *second_paths) if str(path) != to], []
    elif to is not None and len(paths) == 1 and str(paths[0]) in names and args.profile is None:
        return published_side(str(paths[0]), "A", workloads), published_side(to, "B", workloads)
    elif names:
        first = next(iter(names))
        raise ValueError(
            f"{first} is the name of published results, not a folder. "
            f"Run: suite compare {first} --to NAME, or suite compare LOGS --to {first}"
        )
    check_logs([*paths, *second_paths])
    if second_paths:
        _refuse_same(set(map(real_path, paths)), set(map(real_path, second_paths)))
        ours = logs_side(paths, "A", args.profile, workloads)
        return ours, logs_side(second_paths, "B", args.profile, workloads, argument)
    theirs = None if to is None else published_side(to, workloads=workloads)
    return logs_side(paths, "ours", args.profile, workloads), theirs


def _published_name(args: argparse.Namespace, paths: Sequence[Path]) -> str | None:
    """Return the value of `--to` or `--published`, or None if neither option is given.

    Raises:
        ValueError: The value of the option is not the name of published results.
    """
    from suite.results.scores import find_published

    option = "--to" if args.to is not None else "--published"
    name: str | None = args.to if args.to is not None else args.published
    if name is None:
        return None
    if not name:
        examples = "such as v0.7, v0.5/NVIDIA/dgx1 or dgx1-article (run: suite published list)"
        raise ValueError(f"{option}: give the name of published results, {examples}")
    try:
        find_published(name, option)
    except ValueError as error:
        if not Path(name).exists():
            raise
        logs = " ".join(map(str, paths))
        raise ValueError(
            f"{option} {name}: expected the name of published results, but {name} is a path. "
            f"Run: suite compare {logs} --to-logs {name}"
        ) from error
    return name


def _published_among(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the arguments that name published results, not existing paths, by name.

    Raises:
        ValueError: Some arguments are neither existing paths nor names of published results. The
            message lists all these arguments.
    """
    from suite.common.registry import suggestion
    from suite.results.scores import find_published, published_results

    names, missing = dict[str, Path](), list[str]()
    for path in paths:
        if path.exists():
            continue
        try:
            find_published(str(path))
            names[str(path)] = path
        except ValueError:
            missing.append(str(path))
    if missing:
        verb, name = ("does", "that name") if len(missing) == 1 else ("do", "these names")
        existing = {text for result in published_results() for text in (result.round, result.run)}
        raise ValueError(
            f"{' and '.join(missing)} {verb} not exist, and no published results have"
            f" {name}{suggestion(missing[0], existing)}. Give folders that contain logs, such as"
            " logs/, or names of published results (suite published list)"
        )
    return names


def _refuse_same(ours: object, theirs: object) -> None:
    """Raise ValueError if both groups contain the same folders or published results."""
    if ours == theirs:
        raise ValueError("both sides are the same results: give two different sets of runs")
