"""`suite package LOGS… OUT`: write a submission tree from logs."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import add, add_logs
from suite.common.terminal import clean_lines

if TYPE_CHECKING:
    from suite.packaging.write import Packaged


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite package`."""
    add_logs(parser, "logs LOGS")
    add(parser, "out OUT", "new folder to write", type=Path)
    add(
        parser,
        "--submitter ORG",
        "name of the organization (default: submission_org of the logs)",
        default="",
    )
    add(
        parser,
        "--system NAME",
        "name of the system, required for logs of other programs",
        default="",
    )
    text = (
        "division of the submission, which must be the division of the logs (default: that"
        " division)"
    )
    add(parser, "--division", text, choices=("auto", "closed", "open"), default="auto")
    statuses = ("auto", "cloud", "onprem", "preview", "research")
    text = "availability of the system (default: submission_status of the logs)"
    add(parser, "--status", text, choices=statuses, default="auto")
    add(parser, "--code DIR", "source code of the runs, for logs of other programs", type=Path)
    add(
        parser,
        "--explain TEXT",
        "reason for missing runs of a job, which the package will contain",
        default="",
    )


def run(args: argparse.Namespace) -> int:
    """Write the submission tree and return 0.

    The command prints the content of the tree and the fields that the user must fill in.

    Raises:
        ValueError: The logs cannot be submitted.
    """
    from suite.common.command_text import localize_commands
    from suite.packaging.write import PackageOptions, package

    options = PackageOptions(
        submitter=args.submitter,
        system=args.system,
        division="" if args.division == "auto" else args.division,
        status="" if args.status == "auto" else args.status,
        code=args.code,
        explanation=args.explain.strip(),
    )
    print(clean_lines(localize_commands("\n".join(lines(package(args.logs, args.out, options))))))
    return 0


def lines(packaged: Packaged) -> list[str]:
    """Return the lines that describe a written submission tree.

    The lines list the written folders, notes, warnings, and the fields that the user must fill in.
    """
    from suite.packaging.description import FIELDS
    from suite.results.text import clean

    out = packaged.folder
    texts = [f"wrote {clean(str(out), 500)}"]
    texts += [
        f"  results/{system}/{benchmark}: {count} logs"
        for system, benchmark, count in packaged.sets
    ]
    texts += [f"note: {clean(note, 400)}" for note in packaged.notes]
    texts += [f"warning: {clean(warning, 400)}" for warning in packaged.warnings]
    for path, fields in packaged.unknown:
        if fields:
            count = f"{len(fields)} of {len(FIELDS)} fields are empty"
            texts.append(
                f"warning: {count}. The logs do not contain these values. Enter them in"
                f" {clean(path, 500)}:"
            )
            texts += textwrap.wrap(
                ", ".join(fields),
                118,
                initial_indent="  ",
                subsequent_indent="  ",
                break_on_hyphens=False,
            )
    texts.append(f"To check the package again, run: suite check {clean(str(out), 500)}")
    texts.append("Not verified by MLCommons Association")
    return texts
