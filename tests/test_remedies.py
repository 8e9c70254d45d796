"""Remedies in messages name keys and commands that exist.

A message ends with `Set KEY=VALUE` or `Run: COMMAND`. The tests read all messages from the syntax
trees of the code.
"""

import ast
import importlib
import re
from pathlib import Path

import pytest

from suite.cli import COMMANDS
from suite.common import registry
from suite.config.key_suggestions import GROUPS, SHORT, suite_keys
from tests.helpers import PROJECT
from workloads.api import option_keys

CODE = ("suite", "workloads")
SET = re.compile(r"\b[Ss]et ([a-z_]+(?:\.[A-Za-z_0-9{}]+)*)=")
RUN = re.compile(r"\b[Rr]un:? (suite [a-z][^.;,)\n]*)")
PLACEHOLDER = "{}"


def text_of(node):
    """Return the text of a string literal, with `{}` for each computed part."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else PLACEHOLDER
    if isinstance(node, ast.JoinedStr):
        return "".join(
            value.value if isinstance(value, ast.Constant) else PLACEHOLDER for value in node.values
        )
    return ""


def literals():
    """Yield path, line, and text of each string in the code, without docstrings."""
    for folder in CODE:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            inner = {
                id(value)
                for node in ast.walk(tree)
                if isinstance(node, ast.JoinedStr)
                for value in node.values
            }
            for node in ast.walk(tree):
                if id(node) in skipped | inner or not isinstance(
                    node, ast.Constant | ast.JoinedStr
                ):
                    continue
                yield Path(path).relative_to(PROJECT), node.lineno, text_of(node)


LITERALS = list(literals())


def keys():
    """Return all keys of the command line, with those of each workload."""
    return {
        *suite_keys(),
        *GROUPS,
        "study",
        *SHORT,
        *(
            key
            for name in registry.names(registry.WORKLOADS)
            for key in option_keys(registry.load_workload(name).Options)
        ),
    }


def has_option(command, option):
    """Check whether the module of a command of `suite`, or its shared arguments, has an option."""
    modules = (f"suite.commands.{command}", "suite.commands.arguments")
    paths = (Path(str(importlib.import_module(name).__file__)) for name in modules)
    return any(re.search(rf'"{option}[ "]', path.read_text(encoding="utf-8")) for path in paths)


def unknown_keys(messages):
    """Return the places of messages that propose a key that does not exist."""
    allowed = keys()
    return [
        (str(path), line, match[1])
        for path, line, text in messages
        for match in SET.finditer(text)
        if match[1] not in allowed and PLACEHOLDER not in match[1]
    ]


def unknown_commands(messages):
    """Return the places of messages that propose a command or an option that does not exist."""
    found = []
    for path, line, text in messages:
        for match in RUN.finditer(text):
            _, command, *words = match[1].split()
            options = [word for word in words if word.startswith("--")]
            if command not in COMMANDS or any(
                not has_option(command, option) for option in options
            ):
                found.append((str(path), line, match[1]))
    return found


def test_set_names_keys_that_exist():
    assert sum(len(SET.findall(text)) for _, _, text in LITERALS) > 100
    assert unknown_keys(LITERALS) == []


def test_run_names_commands_and_options_that_exist():
    assert sum(len(RUN.findall(text)) for _, _, text in LITERALS) > 10
    assert unknown_commands(LITERALS) == []


@pytest.mark.parametrize(
    ("message", "find"),
    [
        ("gpus=9 needs 9 GPUs. Set gpu=8", unknown_keys),
        ("no data. Run: suite dta prepare NAME", unknown_commands),
        ("no environment. Run: suite env create torch --anew", unknown_commands),
    ],
)
def test_a_wrong_remedy_is_found(message, find):
    assert len(find([(Path("module.py"), 1, message)])) == 1
