"""Parser for values that are almost JSON: 'single quotes', bare words, None and True, (tuples), 75.9%.

Some writers of rounds v0.6 and v0.7 printed Python objects. Their text is read by a fixed grammar of tokens; nothing
is evaluated, and every deviation from JSON is reported.
"""

from __future__ import annotations

import re

from workloads.api import Json

_LENIENT_TOKEN = re.compile(
    r"""\s*(?:
      (?P<mark>[{}\[\](),:])
    | (?P<single>'(?:[^'\\]|\\.)*')
    | (?P<double>"(?:[^"\\]|\\.)*")
    | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)(?P<percent>%?)(?![\w.%])
    | (?P<word>[A-Za-z_][\w./+-]*)
    )""",
    re.VERBOSE,
)
_BARE_WORDS: dict[str, Json] = {"null": None, "None": None, "true": True, "True": True, "false": False, "False": False}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}
_MAX_DEPTH = 20
_MAX_DIGITS = 40


class _LenientParser:
    """The position in a text, and the deviations from JSON tolerated so far."""

    def __init__(self, text: str, position: int) -> None:
        self.text, self.position = text, position
        self.tolerated: dict[str, None] = {}

    def next(self) -> re.Match[str]:
        match = _LENIENT_TOKEN.match(self.text, self.position)
        if match is None:
            raise ValueError(f"neither JSON nor Python notation at character {self.position + 1}")
        self.position = match.end()
        return match

    def peek(self) -> str:
        """The next punctuation mark; empty if something else comes next."""
        match = _LENIENT_TOKEN.match(self.text, self.position)
        return (match["mark"] or "") if match else ""

    def value(self, depth: int = 0) -> Json:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        match = self.next()
        if match["mark"] == "{":
            return self.mapping(depth)
        if match["mark"] in ("[", "("):
            if match["mark"] == "(":
                self.tolerated["round brackets"] = None
            return self.sequence("]" if match["mark"] == "[" else ")", depth)
        if match["mark"]:
            raise ValueError(f"a stray {match['mark']} at character {match.end()}")
        return self.scalar(match)

    def scalar(self, match: re.Match[str]) -> Json:
        if match["number"]:
            return self.number(match["number"], bool(match["percent"]))
        if match["word"]:
            word = match["word"]
            if word in ("None", "True", "False") or word not in _BARE_WORDS:
                self.tolerated["words without quotes"] = None
            return _BARE_WORDS.get(word, word)
        quoted: str = match["single"] or match["double"]
        if match["single"]:
            self.tolerated["single quotes"] = None
        return _ESCAPE.sub(lambda match: _ESCAPED_LETTERS.get(match[1], match[1]), quoted[1:-1])

    def number(self, text: str, percent: bool) -> Json:
        if len(text) > _MAX_DIGITS:
            raise ValueError(f"a number of {len(text)} characters")
        if percent:
            self.tolerated["percent as a fraction"] = None
            return float(text) / 100.0
        return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else float(text)

    def mapping(self, depth: int) -> Json:
        members: dict[str, Json] = {}
        while self.peek() != "}":
            name = self.next()
            if name["mark"] or name["number"]:
                raise ValueError(f"no name at character {name.end()}")
            key = self.scalar(name)
            if self.next()["mark"] != ":":
                raise ValueError(f"no colon at character {self.position}")
            members[str(key)] = self.value(depth + 1)
            self.separate("}")
        self.next()
        return members

    def sequence(self, closing: str, depth: int) -> Json:
        items: list[Json] = []
        while self.peek() != closing:
            items.append(self.value(depth + 1))
            self.separate(closing)
        self.next()
        return items

    def separate(self, closing: str) -> None:
        """Consume a comma; before `closing` it is optional."""
        if self.peek() != closing and self.next()["mark"] != ",":
            raise ValueError(f"no comma at character {self.position}")


def read_lenient_json(text: str, start: int) -> tuple[Json, int, str]:
    """(value at `start`, position after it, what was tolerated). Raises ValueError (one line) for anything else."""
    reader = _LenientParser(text, start)
    value = reader.value()
    return value, reader.position, "not JSON: " + ", ".join(reader.tolerated or {"its own notation": None})
