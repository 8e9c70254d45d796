"""`suite env`: create, list, check and remove framework environments."""

import argparse
import sys
from pathlib import Path

from packaging.utils import canonicalize_name

from suite.commands.arguments import add, add_machines
from suite.common.paths import env_root
from suite.common.registry import nearest
from suite.common.terminal import clean_lines
from suite.common.typed import as_typed
from suite.environments import locks, venvs
from suite.environments.check import check_environment, damage, installed
from suite.environments.locks import Lock


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and options of `suite env`."""
    subcommands = parser.add_subparsers(dest="subcommand", metavar="create|list|check|remove", required=True)
    create = subcommands.add_parser("create", help="make an environment from its lock, or bring it up to date")
    add(create, "names NAME", "one or several: torch tensorflow-cpu mxnet-cpu", nargs="+")
    add(create, "--recreate", "start from an empty folder")
    add(create, "--python FILE", "the Python to build on (default: one that the lock supports)")
    subcommands.add_parser("list", help="every environment: state, Python, framework, tried or not")
    check = subcommands.add_parser("check", help="import the framework, compare versions, look for the trainers")
    check.add_argument("name", metavar="NAME")
    for everywhere in (create, check):
        add_machines(everywhere)
    remove = subcommands.add_parser("remove", help="delete an environment")
    remove.add_argument("name", metavar="NAME")


def run(args: argparse.Namespace) -> int:
    """Run a subcommand. Returns 1 if a check or an installation failed. Raises ValueError for a user's mistake."""
    if args.subcommand == "list":
        print(clean_lines(_table()))
        return 0
    if args.subcommand == "remove":
        venvs.remove(args.name, say=_say)
        return 0
    names = [args.name] if args.subcommand == "check" else args.names
    for name in names:
        _known(name)
    if args.subcommand == "check":
        return _check(args.name)
    return max(_create(name, args.recreate, args.python) for name in names)


def _create(name: str, recreate: bool, python: str | None) -> int:
    """Make one environment; 1 if that failed. Raises ValueError for a damaged one that is not to be made again."""
    why = "" if recreate else damage(venvs.status(name))
    if why and not _agreed(f"{name}: damaged: {why}. Remove it and make it again? [y/N] "):
        raise ValueError(
            f"environment {name} is damaged: {why}; to make it again type: suite env create {name} --recreate, "
            f"to remove it: suite env remove {name}"
        )
    try:
        venvs.create(name, recreate=recreate or bool(why), python=python, say=_say)
    except venvs.CommandFailed as error:
        print(clean_lines(f"{name}: {error}"), file=sys.stderr)
        return 1
    return 0


def _agreed(question: str) -> bool:
    """Return the user's answer; False without a terminal."""
    return sys.stdin.isatty() and input(question).strip().lower() in ("y", "yes")


def _say(line: str) -> None:
    # One write, so that lines of environments that are made side by side do not mix.
    sys.stdout.write(f"{clean_lines(as_typed(line))}\n")
    sys.stdout.flush()


def _known(name: str) -> None:
    """Refuse a name without a lock."""
    names = list(locks.framework_locks())
    if name not in names:
        raise ValueError(f"environment {name} has no lock. Allowed: {', '.join(names)}{nearest(name, names)}")


def _check(name: str) -> int:
    results = check_environment(name)
    for result in results:
        _say(f"{name}: {'ok  ' if result.passed else 'FAIL'} {result.text}")
    return 0 if all(result.passed for result in results) else 1


def _table() -> str:
    """Return a row for each lock and for each environment without a lock."""
    known = locks.framework_locks()
    rows = [("NAME", "STATE", "PYTHON", "FRAMEWORK", "LOCK")]
    for name in [*known, *(name for name in venvs.existing(env_root()) if name not in known)]:
        now = venvs.status(name)
        mark = now.lock.mark if now.lock else "none"
        rows.append((name, now.shown, now.python_version or "-", _framework(now.folder, now.lock), mark))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"environments in {env_root()}", *lines])


def _framework(folder: Path, lock: Lock | None) -> str:
    """Return the installed version of the framework. It is read from the folder, and Python is not started."""
    if lock is None:
        return "-"
    distribution = installed(folder).get(canonicalize_name(lock.framework))
    return f"{lock.framework} {distribution.version}" if distribution else "-"
