"""Find places where code decides by the words of a text that was written for people.

A text is an attribute or a variable with a name such as `reason`, `note` or `label`, or a variable
that is derived from such a text or iterates over several. A decision searches a text for a string
constant, compares it with a constant, matches it with a regular expression, or splits it. A
comparison with the empty string is allowed: it only checks whether the text is empty.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ATTRIBUTES = {
    *(
        "reason",
        "reasons",
        "text",
        "title",
        "note",
        "notes",
        "label",
        "labels",
        "message",
        "messages",
        "deviations",
    ),
    *("machine_condition", "score_notes", "above", "below", "detail", "sentence"),
}
"""Attributes that contain texts."""
VARIABLES = {
    *(
        "reason",
        "reasons",
        "title",
        "titles",
        "note",
        "notes",
        "label",
        "labels",
        "deviation",
        "deviations",
        "why",
    ),
    "sentence",
}
"""Variables that contain texts."""
AMBIGUOUS = {"text", "texts", "message", "words"}
"""Variables that often contain the input of a program.

Only constants with several words count as decisions about them.
"""
FUNCTIONS = {"labels", "merged_labels", "shared_labels", "condition_text"}
"""Functions that return texts."""
_UNCHANGED = {
    "str",
    "clean",
    "lower",
    "upper",
    "strip",
    "casefold",
    "list",
    "tuple",
    "set",
    "sorted",
}
"""Functions that return the same text or texts."""
_METHODS = {
    "startswith",
    "endswith",
    "partition",
    "rpartition",
    "split",
    "removeprefix",
    "removesuffix",
}
_SEARCHES = {"find", "index", "count"}
"""Methods of strings and lists that decide by words only if they search for a constant."""
_MATCHING = {"match", "search", "fullmatch", "findall", "finditer"}


class Place(NamedTuple):
    """A place in a file."""

    line: int
    code: str


def find_decisions(source: str) -> list[Place]:
    """Return the places in a Python file where code decides by the words of a text."""
    tree = ast.parse(source)
    functions = [
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    inner = {
        id(node) for function in functions for child in function.body for node in ast.walk(child)
    }
    places = set(_decisions([node for node in ast.walk(tree) if id(node) not in inner]))
    for function in functions:
        places.update(_decisions([node for child in function.body for node in ast.walk(child)]))
    return sorted(places)


def find_decisions_below(folder: Path) -> dict[str, Place]:
    """Return `path: code` to the place of each decision in the Python files below a folder."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        for place in find_decisions(path.read_text(encoding="utf-8")):
            found[f"{path.relative_to(folder.parent).as_posix()}: {place.code}"] = place
    return found


def _decisions(nodes: list[ast.AST]) -> Iterator[Place]:
    """Yield the decisions among the nodes of one function, or of a module without its functions."""
    texts = _Texts(nodes)
    for node in nodes:
        if isinstance(node, ast.Call) and texts.decides_by_call(node):
            yield Place(node.lineno, ast.unparse(node))
        if isinstance(node, ast.Compare) and texts.decides_by_comparison(node):
            yield Place(node.lineno, ast.unparse(node))
        if isinstance(node, ast.Match) and texts.is_text(node.subject):
            yield Place(node.lineno, f"match {ast.unparse(node.subject)}")


class _Texts:
    """The expressions of a function that are texts, or collections of texts."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self._text_names: set[str] = set()
        count = -1
        # A variable may be derived from a variable that is found later.
        while len(self._text_names) > count:
            count = len(self._text_names)
            for node in nodes:
                self._text_names.update(self._derived_names(node))

    def _derived_names(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, (ast.For, ast.comprehension)):
            pairs = [(node.target, node.iter)]
        elif isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.NamedExpr):
            pairs = [(node.target, node.value)]
        else:
            return
        for target, value in pairs:
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            values = (
                value.elts
                if isinstance(value, ast.Tuple) and len(value.elts) == len(targets)
                else [value]
            )
            if len(values) == len(targets):
                for name, item in zip(targets, values, strict=True):
                    if isinstance(name, ast.Name) and self.is_text(item):
                        yield name.id

    def is_text(self, node: ast.expr) -> bool:
        """Return whether an expression is a text or a collection of texts."""
        match node:
            case ast.Attribute(attr=name):
                return name in ATTRIBUTES
            case ast.Name(id=name):
                return name in VARIABLES or name in self._text_names
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS | _UNCHANGED:
                return name in FUNCTIONS or any(map(self.is_text, arguments))
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in _UNCHANGED:
                return self.is_text(value)
            case ast.BoolOp(values=values):
                return any(map(self.is_text, values))
            case ast.IfExp(body=body, orelse=otherwise):
                return self.is_text(body) or self.is_text(otherwise)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return any(map(self.is_text, items))
            case (
                ast.Starred(value=value)
                | ast.Subscript(value=value, slice=ast.Slice() | ast.Constant(value=int()))
            ):
                return self.is_text(value)
            case ast.ListComp(elt=item) | ast.SetComp(elt=item) | ast.GeneratorExp(elt=item):
                return self.is_text(item)
        return False

    def decides_by_call(self, call: ast.Call) -> bool:
        """Return whether a call searches a text for words or matches a regular expression."""
        if not isinstance(call.func, ast.Attribute):
            return False
        method, owner = call.func.attr, call.func.value
        if method in _MATCHING:
            return any(self.is_text(item) or _is_message(item) for item in call.args)
        if method in _SEARCHES:
            return self.is_text(owner) and any(map(_is_constant, call.args))
        if method not in _METHODS:
            return False
        begins = method in ("startswith", "endswith") and _is_message(owner)
        return (
            begins
            or self.is_text(owner)
            or (_is_ambiguous(owner) and any(map(_has_words, call.args)))
        )

    def decides_by_comparison(self, comparison: ast.Compare) -> bool:
        """Return whether a comparison with a constant uses `in`, `not in`, `==` or `!=`."""
        operands = [comparison.left, *comparison.comparators]
        for operator, left, right in zip(comparison.ops, operands, operands[1:], strict=False):
            sides = [(left, right)] if isinstance(operator, (ast.In, ast.NotIn)) else []
            if isinstance(operator, (ast.Eq, ast.NotEq)):
                sides = [(left, right), (right, left)]
            for constant, text in sides:
                if _is_constant(constant) and self.is_text(text):
                    return True
                if _has_words(constant) and (_is_ambiguous(text) or _is_message(text)):
                    return True
        return False


def _is_message(node: ast.expr) -> bool:
    """Return whether an expression is a variable `message` or the text of an exception."""
    match node:
        case (
            ast.Name(id="message")
            | ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="error" | "exception")])
        ):
            return True
    return False


def _is_ambiguous(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in AMBIGUOUS


def _is_constant(node: ast.expr) -> bool:
    """Return whether an expression is a string that is not empty, or a name in capital letters."""
    match node:
        case ast.Constant(value=str() as value):
            return value != ""
        case ast.JoinedStr():
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper() and len(name) > 1
    return False


def _has_words(node: ast.expr) -> bool:
    """Return whether an expression is a string with several words."""
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip()
    )
