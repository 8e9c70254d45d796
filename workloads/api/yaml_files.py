"""YAML that somebody wrote by hand: read within bounds, and a mistake in it is one line that names the file and the line.

Looked at before anything is built of it: a list in 20,000 others, or ten aliases of ten aliases of …, cost nothing. PyYAML is
imported where a file is read: in the controller alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads import files

if TYPE_CHECKING:
    import yaml

MOST_BYTES = 1 << 18
"""Of a file: what Hydra's loader, which is pure Python, reads in a second or two."""
MOST_VALUES = 10_000
"""Of a file, with what its aliases repeat."""
DEEPEST = 50
"""Lists and mappings in each other."""
_SHOWN = 40
"""Characters of a word that a message repeats."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that `"\\e"` and similar escapes put into a string, and that a terminal obeys."""
_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map"))


def read_yaml(path: Path) -> Any:
    """The content of a file, None for an empty one. Raises ValueError, `FILE: line N: what is wrong`; OSError."""
    return parse_yaml(read_text(path), path)


def read_text(path: Path) -> str:
    """What is written in a file of settings. Raises ValueError for one that is not UTF-8; OSError, also for a long one."""
    return files.read_text(path, limit_bytes=MOST_BYTES)


def parse_yaml(text: str, path: Path, twice: bool = False) -> Any:
    """`read_yaml` of what was read. `twice`: a key may come again. Raises ValueError, `FILE: line N: what is wrong`."""
    import yaml

    try:
        if strange := yaml.reader.Reader.NON_PRINTABLE.search(text):
            what = f"the character U+{ord(strange.group()):04X} is not allowed in YAML"
            raise _Mistake(text.count("\n", 0, strange.start()) + 1, what)
        _Bounds(twice).check(yaml.parse(text, Loader=_loader()))
        return yaml.load(text, Loader=_loader())
    except _Mistake as mistake:
        raise ValueError(f"{path}: {mistake}") from None
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"{path}: {_said(error, text)}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML that can be read: {' '.join(str(error).split())}") from None


def as_number(value: Any) -> Any:
    """`1e-8`, a text in YAML 1.1, as the number that it is meant to be; all else as it is."""
    return float(value) if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value) else value


class _Mistake(ValueError):
    """What is wrong, and where."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")


@functools.cache
def _loader() -> Any:
    """The safe loader, which says the line of a value that is not what its form or its tag says: `2001-02-31`, `!!int a`."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, OverflowError, LookupError) as error:
                if isinstance(error, _Mistake):
                    raise
                raise _Mistake(node.start_mark.line + 1, f"{str(node.value)[:_SHOWN]}: {error}") from None

    return Loader


def _said(error: yaml.MarkedYAMLError, text: str) -> str:
    """What a parser says, in one line: where it stopped, and where what it could not end began."""
    mark, began = error.problem_mark or error.context_mark, error.context_mark
    if mark is None:
        return " ".join(str(error).split())
    problem, lines = str(error.problem or error.context), text.splitlines()
    if mark.line < len(lines) and "\t" in lines[mark.line][: mark.column + 1]:
        problem = f"a tab; indent with spaces ({problem})"
    if began is not None and error.problem and error.context and began.line != mark.line:
        problem = f"{problem}, {error.context} that begins in line {began.line + 1}"
    return f"line {mark.line + 1}: {problem}"


@dataclass
class _Open:
    """A list or a mapping whose end has not come yet."""

    anchor: str | None
    is_mapping: bool
    values: int = 1
    """It and what is in it so far."""
    keys: set[str] = field(default_factory=set)
    awaits_key: bool = True


class _Bounds:
    """Counts what a parser sees. Nothing is built, so that nothing is repeated."""

    def __init__(self, twice: bool) -> None:
        self._twice = twice
        self._opened: list[_Open] = []
        self._sizes: dict[str, int] = {}

    def check(self, events: Iterable[yaml.Event]) -> None:
        """Raises ValueError at the first event that leaves the bounds, or that YAML allows and no file here needs."""
        import yaml

        documents = 0
        for event in events:
            line = event.start_mark.line + 1 if event.start_mark else 0
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Mistake(line, "a second document; one is allowed, take away the ---")
            elif isinstance(event, yaml.CollectionEndEvent):
                ended = self._opened.pop()
                self._count(line, ended.anchor, ended.values)
            elif isinstance(event, yaml.AliasEvent):
                name = str(event.anchor)
                if name not in self._sizes:
                    raise _Mistake(line, f"*{name[:_SHOWN]}: there is no such anchor, or it stands inside of it")
                self._key(line, None)
                self._count(line, None, self._sizes[name])
            elif isinstance(event, yaml.NodeEvent):
                self._begin(line, event)

    def _begin(self, line: int, event: Any) -> None:
        """A word, or the beginning of a list or a mapping."""
        import yaml

        if event.tag is not None and event.tag not in _TAGS:
            raise _Mistake(line, f"the tag {event.tag[:_SHOWN]} is not known here; leave it out")
        is_word = isinstance(event, yaml.ScalarEvent)
        strange = _CONTROL.search(event.value) if is_word else None
        if strange is not None:
            raise _Mistake(line, f"the control character U+{ord(strange.group()):04X} is not allowed in a string")
        self._key(line, event.value if is_word else None)
        if is_word:
            self._count(line, event.anchor, 1)
            return
        if len(self._opened) == DEEPEST:
            raise _Mistake(line, f"more than {DEEPEST} lists or mappings in each other")
        self._sizes.pop(event.anchor, None)  # until it ends, nothing can repeat it
        self._opened.append(_Open(event.anchor, isinstance(event, yaml.MappingStartEvent)))

    def _key(self, line: int, word: str | None) -> None:
        """Note what may be a key: `word`, or None for what is none. A mapping's children are keys and values by turns."""
        around = self._opened[-1] if self._opened else None
        if around is None or not around.is_mapping:
            return
        if around.awaits_key:
            if word is None:
                raise _Mistake(line, "a key is one word; a list, a mapping or an alias cannot be one")
            if word in around.keys and not self._twice:
                raise _Mistake(line, f"{word[:_SHOWN]}: stands there twice; leave one out")
            around.keys.add(word)
        around.awaits_key = not around.awaits_key

    def _count(self, line: int, anchor: str | None, values: int) -> None:
        """Add what has ended to what it stands in."""
        if anchor is not None:
            self._sizes[anchor] = values
        if self._opened:
            self._opened[-1].values += values
            if self._opened[-1].values > MOST_VALUES:
                raise _Mistake(line, f"more than {MOST_VALUES:,} values, with what aliases repeat")
