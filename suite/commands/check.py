"""`suite check DIR|FILE…`: check logs, run folders, and submissions against the MLPerf rules."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import add
from suite.common.terminal import clean_lines

if TYPE_CHECKING:
    from suite.compliance.check_log import Verdict
    from suite.results.logs.record import RunRecord


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite check`."""
    add(
        parser,
        "files DIR|FILE",
        "a log, a folder of runs, or a submission tree",
        nargs="+",
        type=Path,
    )
    add(
        parser,
        "--werror",
        "treat warnings as errors; a key that is logged twice with the same value is a warning",
    )
    text = (
        "rules to use instead of the rules of the log's round: 0.6.0 to 6.1.0 of the installed"
        " checker, ncf_demo, ncf_reference, llama31_8b_open, or a rule file (not for submission"
        " trees)"
    )
    add(parser, "--rules NAME|PATH", text)


def run(args: argparse.Namespace) -> int:
    """Print a verdict for each log, and for each checked file or folder of a submission tree.

    The exit code is 1 if any verdict is FAIL, otherwise 0.

    Unfinished runs, and logs without a ruleset, are not checked.

    Raises:
        ValueError: A path does not exist, or the rules cannot be used.
    """
    from suite.compliance.find_rules import find_rules
    from suite.packaging.layout import is_tree

    for path in args.files:
        if not path.is_file() and not path.is_dir():
            raise ValueError(
                f"{path}: no such file or folder. Expected a log, a folder of runs, or a submission"
                " tree"
            )
        if args.rules is not None and path.is_dir() and is_tree(path):
            raise ValueError(
                f"--rules cannot be used on {path}: a submission tree is checked against the rules"
                " of its round. Leave out --rules"
            )
    if args.rules is not None:
        # Check `--rules` first, so that an unknown ruleset raises ValueError before any output is
        # printed.
        find_rules(args.rules)
    passed, unjudged = [], 0
    for path in args.files:
        for verdict in _verdicts(path, args.rules, args.werror):
            print(clean_lines("\n".join(lines(verdict))))
            if verdict.judged:
                passed.append(verdict.passed)
            else:
                unjudged += 1
    if len(passed) + unjudged > 1:
        not_judged = f", {unjudged} not judged" if unjudged else ""
        print(
            f"{sum(passed)} of {len(passed)} pass{not_judged} (not verified by MLCommons"
            " Association)"
        )
    return 0 if all(passed) else 1


def _verdicts(path: Path, rules: str | None, werror: bool) -> Iterator[Verdict]:
    """Yield the verdicts for a path.

    The path is a log, a folder of runs, or a submission tree.
    """
    from suite.compliance.check_log import Verdict, check_file, not_ended
    from suite.compliance.convergence_points import check_convergence
    from suite.packaging.layout import is_tree
    from suite.packaging.tree import check_tree
    from suite.results.logs.collect import collect

    if path.is_file():
        yield check_file(path, rules, werror)
    elif is_tree(path):
        yield from check_tree(path, werror)
    else:
        results: dict[Path, list[RunRecord]] = {}
        """Records of each job's runs, by the folder of the job."""
        for item in collect([path]):
            job = (item.path.parent if item.has_log else item.path).parent
            results.setdefault(job, []).append(item)
            if item.running:
                yield not_ended(item.path)
            elif not item.has_log:
                yield Verdict(
                    item.path,
                    False,
                    f"the run has no log: {item.status}, {item.reason}",
                    "none",
                    (),
                )
            else:
                yield check_file(item.path, rules, werror)
        if rules is None:
            for job, records in results.items():
                if (convergence := check_convergence(job, records, werror)) is not None:
                    yield convergence


def lines(verdict: Verdict) -> list[str]:
    """Return the lines of text for a verdict.

    The lines contain the verdict, the reason for the chosen ruleset, four lines per rule violation,
    and a line per remark.
    """
    from suite.results.text import clean

    outcome = ("PASS" if verdict.passed else "FAIL") if verdict.judged else "not judged"
    texts = [
        f"{outcome}  {clean(str(verdict.path), 500)}: {clean(verdict.text, 500)} (rules:"
        f" {clean(verdict.rules_name, 500)})"
    ]
    if verdict.why_rules:
        texts.append(f"  rules:  {verdict.why_rules}")
    for complaint in verdict.complaints:
        key = clean(complaint.key, 100) or "log"
        place = f", line {complaint.line}" if complaint.line else ""
        texts.append(f"  {'warning: ' if complaint.warning else ''}{key}{place}")
        texts.append(f"    found:  {clean(complaint.found)}")
        texts.append(f"    needed: {clean(complaint.needed)}")
        texts.append(f"    do:     {clean(complaint.do)}")
    return [*texts, *(f"  remark: {clean(remark)}" for remark in verdict.remarks)]
