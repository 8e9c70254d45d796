"""Parser for values that are almost valid JSON.

Examples: 'single quotes', bare words, None and True, (tuples), 75.9%.

Some programs of rounds v0.6 and v0.7 logged printed Python objects. The parser has a fixed grammar
of tokens and never evaluates the text. All deviations from JSON are reported.
"""

from __future__ import annotations

import json
import re

from workloads.api import Json

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<mark>[{}\[\](),:])
    | (?P<single>'(?:[^'\\]|\\.)*')
    | (?P<double>"(?:[^"\\]|\\.)*")
    | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)
      (?P<percent>%?)(?![\w.%])
    | (?P<word>[A-Za-z_][\w./+-]*)(?=(?P<colon>\s*:)?)
    )""",
    re.VERBOSE,
)
_BARE_WORDS: dict[str, Json] = {
    "null": None,
    "None": None,
    "true": True,
    "True": True,
    "false": False,
    "False": False,
}
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


def read_lenient_json(text: str, start: int) -> tuple[Json, int, str]:
    """Parse the value at `start`.

    Returns:
        The value, the position after the value, and a description of the deviations from JSON.

    Raises:
        ValueError: The text is neither JSON nor Python notation.
    """
    position = start
    parts: list[str] = []  # tokens, converted to JSON
    closing: list[str] = []  # stack of expected closing brackets
    tolerated: dict[str, None] = {}
    while closing or not parts:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"neither JSON nor Python notation at character {position + 1}")
        position, mark = match.end(), match["mark"]
        if not mark:
            item = _scalar(match, tolerated)
            parts.append(json.dumps(str(item) if closing and match["colon"] else item))
        elif mark in _CLOSING:
            closing.append(_CLOSING[mark])
            if len(closing) > 20:
                raise ValueError("nested too deeply")
            if mark == "(":
                tolerated["round brackets"] = None
            parts.append("{" if mark == "{" else "[")
        elif closing and mark == closing[-1]:
            if parts[-1] == "," and parts[-2] not in (
                "{",
                "[",
            ):  # the comma before a closing bracket is optional
                parts.pop()
            parts.append("}" if closing.pop() == "}" else "]")
        else:
            parts.append(mark)
    return (
        json.loads(" ".join(parts)),
        position,
        "not JSON: " + ", ".join(tolerated or {"its own notation": None}),
    )


def _scalar(match: re.Match[str], tolerated: dict[str, None]) -> Json:
    if (number := match["number"]) is not None:
        if len(number) > 40:
            raise ValueError(f"a number of {len(number)} characters")
        if match["percent"]:
            tolerated["percent as a fraction"] = None
            return float(number) / 100.0
        return int(number) if re.fullmatch(r"[+-]?[0-9]+", number) else float(number)
    if (word := match["word"]) is not None:
        if word not in ("null", "true", "false"):
            tolerated["words without quotes"] = None
        return _BARE_WORDS.get(word, word)
    if match["single"]:
        tolerated["single quotes"] = None
    quoted: str = match["single"] or match["double"]
    return _ESCAPE.sub(lambda match: _ESCAPED_LETTERS.get(match[1], match[1]), quoted[1:-1])
