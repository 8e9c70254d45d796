"""Identifiers are nouns and verbs of the field, not pronouns or participles.

A name such as `one`, `given` or `said` does not tell a reader what a variable contains.
"""

import ast
import re
import subprocess
from collections.abc import Iterator

from tests.helpers import PROJECT

_PRONOUNS = ("one", "own", "other", "others", "those", "there")
_PARTICIPLES = ("known", "said", "told", "typed", "made", "given")
FORBIDDEN = frozenset({*_PRONOUNS, *_PARTICIPLES, "aside", "beside"})
"""Words that may not be an identifier, with or without leading and trailing underscores."""
FORBIDDEN_PARTS = frozenset(["own", "said", "told", "typed", "aside", "beside", "made"])
"""Words that may not be a part of an identifier."""
ALLOWED = {
    "OTHER": "member of enumerations for all remaining kinds",
    "other": "part of a time to target, which gives the column seconds_other its name",
}
"""Identifier to the reason why it is allowed."""


def defined_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each identifier that a module defines or imports."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) if not name.startswith("test_"):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def is_forbidden(name: str) -> bool:
    """Return whether an identifier is a forbidden word, or contains a forbidden part."""
    words = re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower())
    return name.strip("_").lower() in FORBIDDEN or not FORBIDDEN_PARTS.isdisjoint(words)


def test_no_identifier_is_a_forbidden_word():
    command = ["git", "-C", str(PROJECT), "ls-files", "*.py"]
    paths = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [
        f"{path}:{line}: {name}"
        for path in paths
        for line, name in defined_names(ast.parse((PROJECT / path).read_text(encoding="utf-8")))
        if is_forbidden(name) and name not in ALLOWED
    ]
    assert not found, f"{len(found)} identifiers:\n" + "\n".join(found)


def test_forbidden_words_are_found():
    module = "def told(one, *others):\n    own_row = one\n    for self.made in others: pass\n"
    names = [name for _, name in defined_names(ast.parse(module)) if is_forbidden(name)]
    assert sorted(names) == ["made", "one", "others", "own_row", "told"]
    assert not any(map(is_forbidden, ("one_hot", "other_row", "known_rounds", "down", "shown")))


def test_the_allowlist_is_short():
    assert len(ALLOWED) <= 20
