"""`suite env`: create, list, check, and remove framework environments."""

import argparse
import sys
from pathlib import Path

from packaging.utils import canonicalize_name

from suite.commands.arguments import add, add_machines
from suite.common.command_text import localize_commands
from suite.common.paths import env_root
from suite.common.registry import allowed_text
from suite.common.terminal import clean_lines
from suite.environments import locks, venvs
from suite.environments.check_environment import check_environment, damage, installed
from suite.environments.locks import Lock


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and options of `suite env`."""
    subcommands = parser.add_subparsers(
        dest="subcommand", metavar="create|list|check|remove", required=True
    )
    create = subcommands.add_parser(
        "create", help="create an environment from its lock file, or update it"
    )
    add(
        create,
        "names NAME",
        "environments to create: torch tensorflow-cpu mxnet-cpu jax",
        nargs="+",
    )
    add(create, "--recreate", "delete the environment first")
    add(
        create,
        "--python FILE",
        "Python interpreter to use (default: a version that the lock supports)",
    )
    subcommands.add_parser(
        "list",
        help="list the environments with state, Python, framework, and whether the lock was tested",
    )
    check = subcommands.add_parser(
        "check", help="import the framework, compare versions, and find the trainers"
    )
    check.add_argument("name", metavar="NAME")
    for subcommand_parser in (create, check):
        add_machines(subcommand_parser)
    remove = subcommands.add_parser("remove", help="delete an environment")
    remove.add_argument("name", metavar="NAME")


def run(args: argparse.Namespace) -> int:
    """Run a subcommand of `suite env` and return its exit code.

    The exit code is 1 if a check or an installation failed, otherwise 0. Raises ValueError for a
    user error.
    """
    if args.subcommand == "list":
        print(clean_lines(_table()))
        return 0
    if args.subcommand == "remove":
        venvs.remove(args.name, print_line=_print_line)
        return 0
    names = [args.name] if args.subcommand == "check" else args.names
    for name in names:
        _require_lock(name)
    if args.subcommand == "check":
        return _check(args.name)
    return max(_create(name, args.recreate, args.python) for name in names)


def _create(name: str, recreate: bool, python: str | None) -> int:
    """Create a framework environment. Return 1 if the creation failed, otherwise 0.

    Raises:
        ValueError: The environment is damaged, and the user did not agree to recreate it.
    """
    problem = "" if recreate else damage(venvs.status(name))
    if problem and not _confirm(
        f"Environment {name} is damaged: {problem}. Delete and recreate it? [y/N] "
    ):
        raise ValueError(
            f"environment {name} is damaged: {problem}. Run: suite env create {name} --recreate, "
            f"or to delete it: suite env remove {name}"
        )
    try:
        venvs.create(
            name, recreate=recreate or bool(problem), python=python, print_line=_print_line
        )
    except venvs.CommandFailed as error:
        print(clean_lines(f"{name}: {error}"), file=sys.stderr)
        return 1
    return 0


def _confirm(question: str) -> bool:
    """Ask the user a yes-or-no question, and return whether the answer is yes.

    Without a terminal, the function returns False and prints no question.
    """
    return sys.stdin.isatty() and input(question).strip().lower() in ("y", "yes")


def _print_line(line: str) -> None:
    # A single write call keeps lines intact if several environments are created at the same time.
    sys.stdout.write(f"{clean_lines(localize_commands(line))}\n")
    sys.stdout.flush()


def _require_lock(name: str) -> None:
    """Raise ValueError if an environment has no lock file."""
    names = list(locks.framework_locks())
    if name not in names:
        raise ValueError(f"environment {name} has no lock file, {allowed_text(names, name)}")


def _check(name: str) -> int:
    results = check_environment(name)
    for result in results:
        _print_line(f"{name}: {'ok  ' if result.passed else 'FAIL'} {result.text}")
    return 0 if all(result.passed for result in results) else 1


def _table() -> str:
    """Return the table of environments.

    Environments with a lock file are listed before user-created environments without a lock file.
    """
    locked = list(locks.framework_locks())
    rows = [("NAME", "STATE", "PYTHON", "FRAMEWORK", "LOCK")]
    for name in dict.fromkeys([*locked, *venvs.existing(env_root())]):
        status = venvs.status(name)
        mark = status.lock.mark if status.lock else "none"
        rows.append(
            (
                name,
                status.shown,
                status.python_version or "-",
                _framework(status.folder, status.lock),
                mark,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([f"environments in {env_root()}", *lines])


def _framework(folder: Path, lock: Lock | None) -> str:
    """Return the name and version of the framework that is installed in an environment."""
    if lock is None:
        return "-"
    distribution = installed(folder).get(canonicalize_name(lock.framework))
    return f"{lock.framework} {distribution.version}" if distribution else "-"
