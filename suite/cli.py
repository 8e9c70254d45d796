"""The `suite` command-line program.

Each subcommand is a module in `suite/commands/`. The module is imported only if the subcommand is
used.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from suite import __version__
from suite.common import process
from suite.common.command_text import localize_commands
from suite.common.installed_copy import print_copy_notice
from suite.common.terminal import clean_lines

COMMANDS = {
    "run": (
        "train to a quality target and log it: what `python run_suite.py` does (suite run --help)"
    ),
    "env": "create, list, check and remove framework environments",
    "data": "prepare, verify and generate data sets",
    "check": (
        "check logs and submission trees against the MLPerf rules, with what to do about each"
        " complaint"
    ),
    "doctor": "look at devices, memory, load, disk and driver, and say what to do",
    "package": "write a submission tree from logs",
    "compare": "compare our results with published ones, or two sets of runs",
    "published": "results of published rounds and articles",
    "report": (
        "tables of time to target, throughput and speedup from logs, as text or as a page with"
        " figures"
    ),
    "export": "bring runs into TensorBoard, MLflow or Weights & Biases",
    "advise": "what to run on how many devices",
    "scaling": "predict time on more devices; validate the prediction on published rows",
    "tables": "tables 1-7 of the DGX-1 scaling article for our results",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code.

    The exit code is 2 for a user error, which is reported in a single line on standard error.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    process.prepare()
    try:
        if arguments[:1] != ["run"]:  # `suite run` prints the notice about an installed copy itself
            print_copy_notice("suite")
        code = _main(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        process.print_no_more()
        return 0
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("suite", "workloads"):
            raise
        print(f"suite: {error.name} is not installed for {sys.executable}. {_HOW}", file=sys.stderr)
        return 2


_LONGEST_MESSAGE = 4_000
_HOW = (
    "In a checkout, run make demo once, then .venv/bin/suite …. Elsewhere, run pip install -e ."
    " in it"
)


def _main(arguments: list[str]) -> int:
    if arguments[:1] == ["run"]:
        from suite.control.start import main as run

        return run(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="suite", description="A training-benchmark suite people can check."
    )
    parser.add_argument("--version", action="version", version=f"suite {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    asked = next((word for word in arguments if not word.startswith("-")), None)
    if asked is not None and asked not in COMMANDS:
        from suite.common.registry import suggestion

        meant = (
            " (did you mean 'run'?)"
            if asked in ("train", "fit", "benchmark")
            else suggestion(asked, COMMANDS)
        )
        print(
            f"suite {asked}: no such command; there are {', '.join(COMMANDS)}{meant}",
            file=sys.stderr,
        )
        return 2
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary)
        if name == asked and name != "run":
            module = importlib.import_module(f"suite.commands.{name}")
            module.configure(sub)
            sub.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    try:
        return _on_its_machines(parsed, arguments)
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        from suite.results.text import clean

        # The error message may contain text from a log, which is not trusted.
        message = clean(localize_commands(str(error)), _LONGEST_MESSAGE)
        print(f"suite {parsed.command}: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"suite {parsed.command}: interrupted", file=sys.stderr)
        return 130


def _on_its_machines(parsed: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run a subcommand on this machine, or on the machines that its arguments select."""
    from suite.commands.arguments import launch_of, without_machines

    launch = launch_of(parsed)
    if launch is None:
        return int(parsed.run(parsed))
    from suite.control.hosts.commands import run_on_hosts

    return run_on_hosts(without_machines(arguments, parsed), launch, _say)


def _say(line: str) -> None:
    print(clean_lines(localize_commands(line)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
