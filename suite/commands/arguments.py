"""Command-line arguments that several subcommands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suite.common.run_config import LaunchConfig
    from suite.results.price import Prices
    from suite.results.views.section import View

_MAX_DEVICES = 1_000_000


def add(parser: argparse._ActionsContainer, usage: str, text: str, **more: Any) -> None:
    """Add an argument by its usage string: `paths DIR`, `--figures FOLDER`, or `--werror`.

    An option without a value name in its usage string, such as `--werror`, is a flag.

    Args:
        parser: Parser or group to which the argument is added.
        usage: Name of the argument. If the argument takes a value, the name of the value follows.
        text: Help text.
        more: Additional keyword arguments for `add_argument`.
    """
    name, _, metavar = usage.partition(" ")
    if metavar:
        more["metavar"] = metavar
    elif name.startswith("--") and "choices" not in more:
        more = {"action": "store_true", **more}
    parser.add_argument(name, help=text, **more)


def add_logs(parser: argparse.ArgumentParser, usage: str = "paths DIR", nargs: str = "+") -> None:
    """Add the positional argument for the paths of logs."""
    add(parser, usage, "folder with runs (searched below), or a log", nargs=nargs, type=Path)


def check_logs(paths: Sequence[Path]) -> None:
    """Raise ValueError for the first path that is a file but not a log."""
    from suite.results.logs.collect import why_no_log

    for path in paths:
        if path.is_file() and (why := why_no_log(path)):
            raise ValueError(f"{path} is not a log: {why}. Give a log, or a folder of runs")


def add_measured(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select results.

    The arguments are folders and logs, names of published results, and a workload.
    """
    add_logs(parser, nargs="*")
    text = (
        "a published result, or dgx1-article; ROUND or ROUND/SUBMITTER name all below (may be"
        " repeated)"
    )
    add(parser, "--published ROUND/SUBMITTER/SYSTEM", text, action="append", default=[])
    add(parser, "--workload W", "only this workload: ncf, resnet50, …")


def add_price(parser: argparse.ArgumentParser) -> None:
    """Add the option `--price-per-device-hour`, whose value `prices` returns."""
    text = (
        "cost of each result: 2.5 for every device, or v100=2.48,a100=4.10 by part of the device's"
        " name"
    )
    add(parser, "--price-per-device-hour PRICE", text)


def prices(args: argparse.Namespace) -> Prices | None:
    """Return the prices from the command line, or None if no price is given.

    Raises ValueError if a price is invalid.
    """
    from suite.results.price import parse_prices

    return None if args.price_per_device_hour is None else parse_prices(args.price_per_device_hour)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the options `--format` and `--output`, which the function `write` uses."""
    from suite.results.render.document import FORMATS

    text = (
        "markdown, or every column as csv, json or parquet (default: from the suffix of FILE, else"
        " markdown)"
    )
    add(parser, "--format", text, choices=FORMATS)
    add(parser, "--output FILE", "write to FILE, which must not exist yet", type=Path)


_HTML_SUFFIXES = (".html", ".htm")
_FORMATS_OF_SUFFIXES: Mapping[str, str] = {
    ".md": "markdown", ".markdown": "markdown", ".csv": "csv", ".json": "json",
    ".parquet": "parquet",
}  # fmt: skip
_PLAIN_SUFFIXES = ("", ".txt", ".log")
"""File suffixes that are allowed for every text format."""


def resolve_output(args: argparse.Namespace) -> None:
    """Set `args.format` from `--format` and the suffix of `--output`.

    Commands call this function before they read any logs. If the command can write HTML pages, an
    HTML file in `--output` is moved to `args.html`.

    Raises:
        ValueError: The function `write` would reject the output, or the suffix and the format do
            not match.
    """
    if args.output is not None:
        if args.output.exists():
            raise ValueError(
                f"--output {args.output} exists and is not overwritten. Give a new path"
            )
        if args.output.suffix.lower() in _HTML_SUFFIXES:
            _move_output_to_html(args)
        else:
            args.format = _format_of_file(args.output, args.format)
    args.format = args.format or "markdown"
    if args.output is None and args.format == "parquet" and sys.stdout.isatty():
        raise ValueError("--format parquet is not text: add --output FILE, or send it into a file")


def _move_output_to_html(args: argparse.Namespace) -> None:
    """Treat `--output FILE.html` as `--html FILE.html`.

    Raises ValueError if the command cannot write HTML pages.
    """
    if not hasattr(args, "html"):
        allowed = ", ".join(_FORMATS_OF_SUFFIXES)
        raise ValueError(
            f"--output {args.output}: suite {args.command} writes no HTML. Allowed suffixes:"
            f" {allowed}"
        )
    if args.format is not None:
        raise ValueError(
            f"--output {args.output} is an HTML page: leave out --format {args.format}"
        )
    if args.html is not None:
        raise ValueError(
            f"--html {args.html} and --output {args.output} are two pages. Omit --html or --output"
        )
    args.html, args.output = args.output, None


def _format_of_file(path: Path, chosen: str | None) -> str:
    """Return the format in which `path` is written.

    `chosen` is the value of `--format`. Raises ValueError if the suffix of `path` and `chosen`
    contradict each other.
    """
    suffix = path.suffix.lower()
    format_of_suffix = _FORMATS_OF_SUFFIXES.get(suffix)
    if chosen is None:
        if format_of_suffix is None and suffix not in _PLAIN_SUFFIXES:
            allowed = ", ".join(_FORMATS_OF_SUFFIXES)
            raise ValueError(
                f"--output {path}: no format has the suffix {suffix}. Allowed: {allowed}, or set"
                " --format NAME"
            )
        return format_of_suffix or "markdown"
    if format_of_suffix not in (None, chosen):
        raise ValueError(
            f"--output {path} and --format {chosen} do not match: omit --format, or change the"
            " suffix"
        )
    return chosen


def write(view: View, args: argparse.Namespace) -> None:
    """Print the view, or write it to a new file, according to `--format` and `--output`.

    Raises ValueError if the output cannot be written.
    """
    from suite.results.render.document import document

    print_notes(view.notes, args)
    text = document(view, args.format)
    if args.output is None and isinstance(text, str):
        print(text, end="")
        return
    content = text.encode() if isinstance(text, str) else text
    if args.output is None:
        sys.stdout.buffer.write(content)
        return
    try:
        with open(args.output, "xb") as stream:
            stream.write(content)
    except OSError as error:
        raise ValueError(
            f"--output {args.output} cannot be written ({error.strerror}). Give the path of a new"
            " file"
        ) from error


def print_notes(notes: Sequence[str], args: argparse.Namespace) -> None:
    """Print notes about a command's options to standard error."""
    from suite.results.text import clean

    for note in notes:
        print(f"suite {args.command}: note: {clean(note, 1000)}", file=sys.stderr)


def add_machines(parser: argparse.ArgumentParser) -> None:
    """Add the options that select machines: `--launch`, `--hosts`, and `--hostfile`.

    The options correspond to the `launch.*` settings of a run.
    """
    group = parser.add_argument_group("several machines (docs/how-to/multiple_nodes.md)")
    text = (
        "default: ssh with --hosts or --hostfile, else this machine alone; slurm: all of this"
        " allocation"
    )
    add(group, "--launch", text, choices=("local", "ssh", "slurm"))
    named = group.add_mutually_exclusive_group()
    add(named, "--hosts A,B", "do it on these machines, over ssh: a,b or node[1-4]")
    add(named, "--hostfile FILE", "the same from a file: one machine a line")


def launch_of(args: argparse.Namespace, env: Mapping[str, str] = os.environ) -> LaunchConfig | None:
    """Return the machines that a command line selects, or None for this machine only.

    Raises ValueError if the options that select machines contradict each other.
    """
    if not hasattr(args, "hosts"):
        return None
    named = bool(args.hosts or args.hostfile)
    by = args.launch or ("ssh" if named else "local")
    if by != "ssh" and named:
        raise ValueError(
            f"--launch {by}: --hosts and --hostfile are for --launch ssh. Omit --hosts or"
            " --hostfile"
        )
    if by == "ssh" and not named:
        raise ValueError("--launch ssh: which machines? type --hosts a,b or --hostfile FILE")
    if by == "local":
        return None
    from suite.control.hosts.launchers import in_allocation

    if by == "slurm" and not in_allocation(env):
        raise ValueError(
            "--launch slurm: there is no SLURM allocation here. Run salloc -N2 first, or set"
            " --hosts a,b"
        )
    from suite.common.run_config import LaunchConfig

    hosts = [args.hosts] if args.hosts else []
    return LaunchConfig(by=by, hosts=hosts, hostfile=args.hostfile)


def without_machines(argv: Sequence[str], args: argparse.Namespace) -> list[str]:
    """Return the command line to run on each of the selected machines.

    The options that select machines are removed, and all paths are made absolute.
    """
    parser = argparse.ArgumentParser(add_help=False)
    add_machines(parser)
    _, kept = parser.parse_known_args(list(argv))
    paths = {str(value) for value in vars(args).values() if isinstance(value, Path)}
    return [_whole(word, paths) for word in kept]


def _whole(word: str, paths: set[str]) -> str:
    """Convert a path argument to an absolute path. Return all other arguments unchanged."""
    option, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{sign}{os.path.abspath(value)}" if value in paths else word


def counts(text: str) -> tuple[int, ...]:
    """Parse a list of numbers of devices, and return the numbers in increasing order.

    Raises ArgumentTypeError if `text` is not a list of numbers.
    """
    argv = text.split(",")
    if not all(word.isdecimal() and 0 < int(word[:12]) <= _MAX_DEVICES for word in argv):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r}: give whole numbers of devices, such as 16,64,512"
        )
    return tuple(sorted({int(word) for word in argv}))
