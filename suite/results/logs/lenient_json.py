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

    def comes(self, mark: str) -> bool:
        """Whether this punctuation mark comes next."""
        match = _LENIENT_TOKEN.match(self.text, self.position)
        return match is not None and match["mark"] == mark

    def value(self, depth: int = 0) -> Json:
        if depth > 20:
            raise ValueError("nested too deeply")
        match = self.next()
        mark = match["mark"]
        if not mark:
            return self.scalar(match)
        if mark not in "{[(":
            raise ValueError(f"a stray {mark} at character {match.end()}")
        if mark == "(":
            self.tolerated["round brackets"] = None
        closing = {"{": "}", "[": "]", "(": ")"}[mark]
        names: list[str] = []
        items: list[Json] = []
        while not self.comes(closing):
            if mark == "{":
                names.append(self.name())
            items.append(self.value(depth + 1))
            if not self.comes(closing) and self.next()["mark"] != ",":  # before the closing bracket it is optional
                raise ValueError(f"no comma at character {self.position}")
        self.next()
        return dict(zip(names, items, strict=True)) if mark == "{" else items

    def name(self) -> str:
        """The name of a member and its colon."""
        match = self.next()
        if match["mark"] or match["number"]:
            raise ValueError(f"no name at character {match.end()}")
        name = str(self.scalar(match))
        if self.next()["mark"] != ":":
            raise ValueError(f"no colon at character {self.position}")
        return name

    def scalar(self, match: re.Match[str]) -> Json:
        if (number := match["number"]) is not None:
            if len(number) > 40:
                raise ValueError(f"a number of {len(number)} characters")
            if match["percent"]:
                self.tolerated["percent as a fraction"] = None
                return float(number) / 100.0
            return int(number) if re.fullmatch(r"[+-]?[0-9]+", number) else float(number)
        if (word := match["word"]) is not None:
            if word not in ("null", "true", "false"):
                self.tolerated["words without quotes"] = None
            return _BARE_WORDS.get(word, word)
        if match["single"]:
            self.tolerated["single quotes"] = None
        quoted: str = match["single"] or match["double"]
        return _ESCAPE.sub(lambda match: _ESCAPED_LETTERS.get(match[1], match[1]), quoted[1:-1])


def read_lenient_json(text: str, start: int) -> tuple[Json, int, str]:
    """(value at `start`, position after it, what was tolerated). Raises ValueError (one line) for anything else."""
    reader = _LenientParser(text, start)
    value = reader.value()
    return value, reader.position, "not JSON: " + ", ".join(reader.tolerated or {"its own notation": None})
