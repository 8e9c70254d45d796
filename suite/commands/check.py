"""`suite check FILE…`: check logs against the MLPerf rules."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.check import Verdict

SUMMARY = "check logs against the MLPerf rules and say what to do about each complaint"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite check`."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a log: result_0.txt")
    parser.add_argument("--werror", action="store_true", help="a warning (a key logged twice with one value) fails too")
    parser.add_argument(
        "--rules", metavar="NAME|PATH", help="rules instead of those that the log calls for: ncf_demo, …"
    )


def run(args: argparse.Namespace) -> int:
    """Print a verdict for each file; 0 only if all pass. Raises ValueError for a file that does not exist."""
    from suite.check import check_file, find_rules

    for path in args.files:
        if not path.is_file():
            hint = f"give the logs in it, such as {path}/result_0.txt" if path.is_dir() else "give the path of a log"
            raise ValueError(f"{path} is no file; {hint}")
    if args.rules is not None:
        find_rules(args.rules)  # a wrong name is said before anything is printed
    passed = True
    for path in args.files:
        verdict = check_file(path, args.rules, args.werror)
        print("\n".join(lines(verdict)))
        passed = passed and verdict.passed
    return 0 if passed else 1


def lines(verdict: Verdict) -> list[str]:
    """The verdict in one line, and four lines for each complaint."""
    from suite.results.text import clean

    word = "PASS" if verdict.passed else "FAIL"
    texts = [
        f"{word}  {clean(str(verdict.path), 500)}: {clean(verdict.text, 500)} (rules: {clean(verdict.rules, 500)})"
    ]
    for complaint in verdict.complaints:
        key = clean(complaint.key, 100) or "log"
        place = f", line {complaint.line}" if complaint.line else ""
        texts.append(f"  {'warning: ' if complaint.warning else ''}{key}{place}")
        texts.append(f"    found:  {clean(complaint.found)}")
        texts.append(f"    needed: {clean(complaint.needed)}")
        texts.append(f"    do:     {clean(complaint.do)}")
    return texts
