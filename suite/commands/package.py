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
    add(parser, "out OUT", "folder to write; must not exist", type=Path)
    add(parser, "--submitter ORG", "organization (default: submission_org of the logs)", default="")
    add(parser, "--system NAME", "name of the system; needed for logs of others", default="")
    text = "auto: the division of the logs; any other is refused"
    add(parser, "--division", text, choices=("auto", "closed", "open"), default="auto")
    statuses = ("auto", "cloud", "onprem", "preview", "research")
    text = "availability of the system; auto: submission_status of the logs"
    add(parser, "--status", text, choices=statuses, default="auto")
    add(parser, "--code DIR", "the code that ran, for logs that the suite did not write", type=Path)
    add(parser, "--explain TEXT", "why runs of a job are missing; it stands in the package", default="")


def run(args: argparse.Namespace) -> int:
    """Write the tree, print its content and the fields to fill in. Raises ValueError for what cannot be submitted."""
    from suite.common.typed import as_typed
    from suite.packaging.write import PackageOptions, package

    options = PackageOptions(
        submitter=args.submitter,
        system=args.system,
        division="" if args.division == "auto" else args.division,
        status="" if args.status == "auto" else args.status,
        code=args.code,
        explanation=args.explain.strip(),
    )
    print(clean_lines(as_typed("\n".join(lines(package(args.logs, args.out, options))))))
    return 0


def lines(packaged: Packaged) -> list[str]:
    """Return the lines to print: the files that were written, notes, and the fields to fill in."""
    from suite.packaging.description import FIELDS
    from suite.results.text import clean

    out = packaged.folder
    texts = [f"wrote {clean(str(out), 500)}"]
    texts += [f"  results/{system}/{benchmark}: {count} logs" for system, benchmark, count in packaged.sets]
    texts += [f"note: {clean(note, 400)}" for note in packaged.notes]
    texts += [f"warning: {clean(warning, 400)}" for warning in packaged.warnings]
    for path, fields in packaged.unknown:
        if fields:
            count = f"{len(fields)} of {len(FIELDS)} fields are empty"
            texts.append(f"warning: {count}. Fill in the fields that the runs do not have, in {clean(path, 500)}:")
            texts += textwrap.wrap(
                ", ".join(fields), 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
            )
    texts.append(f"check again with: suite check {clean(str(out), 500)}")
    texts.append("Not verified by MLCommons Association")
    return texts
