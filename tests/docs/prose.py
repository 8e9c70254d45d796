"""Rates of hard-to-read constructs in the project's text, compared with two other projects.

`python -m tests.docs.prose` prints the rates per 1,000 words for three kinds of text: the
documentation, the docstrings and comments of the code, and the messages to the user. The limit of a
rate is twice the rate in torchtitan and AlgoPerf, and at least `FLOOR`. `--show NAME` lists the
sentences with a construct, `--sample N` prints random sentences for a reader.

A text within all limits can still be hard to read. Ask somebody who does not know the code.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

KINDS = ("docs", "code", "messages")
DOCS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/")
CODE = ("suite/", "workloads/", "benchmarks/", "testing/", "tests/", "run_suite.py")
MESSAGES = ("suite/", "workloads/")
"""Folders whose f-strings are messages. Elsewhere only the arguments of `raise` are."""
FLOOR = 0.4
FACTOR = 2.0
OPENERS_LIMIT = 0.10
"""Largest share of function docstrings that do not begin with a verb."""


@dataclass(frozen=True)
class Construct:
    """A construct that makes a sentence hard to read."""

    pattern: str
    """Regular expression. Its case matters only if it begins with `^`."""
    rates: tuple[float, float, float]
    """Rate in torchtitan and AlgoPerf per 1,000 words of docs, code and messages."""
    remedy: str
    """Words to use instead."""

    def limit(self, kind: str) -> float:
        """Return the highest allowed rate per 1,000 words."""
        return max(FLOOR, FACTOR * self.rates[KINDS.index(kind)])

    def count(self, sentence: str) -> int:
        """Return how often a sentence has the construct."""
        flags = 0 if self.pattern.startswith("^") else re.IGNORECASE
        return len(re.findall(self.pattern, sentence, flags))


CONSTRUCTS: Mapping[str, Construct] = {
    "what": Construct(
        r"\bwhat (?:is|was|are|were|has|had|a|an|it|the|they|this|that|one|each|every|runs?|others?"
        r"|stands?|can|could|must|no|none|makes?|ends?|starts?|follows|belongs|trainers?|rules|all"
        r"|there|wants?)\b",
        (0.1, 0.1, 0.0),
        "a noun: `the parsed log`, not `what is read`",
    ),
    "says": Construct(
        r"\b(?:says?|said|tells?|told|asks?|asked|knows?)\b",
        (0.4, 0.2, 0.1),
        "the action: returns, specifies, prints, reports, checks",
    ),
    "stands": Construct(
        r"\bst(?:ands?|ood)\b(?! for)", (0.0, 0.0, 0.0), "is, appears, is listed, is stored"
    ),
    "own": Construct(
        r"\b(?:own|one's)\b",
        (0.5, 0.6, 0.1),
        "user-defined, local, separate, dedicated, or no adjective",
    ),
    "one": Construct(r"\bones?\b", (2.0, 2.6, 2.5), "the noun itself"),
    "goes on": Construct(
        r"\b(?:go|goes|went|going|gone) on\b", (0.0, 0.0, 0.0), "resume, continue"
    ),
    "is none": Construct(
        r"\b(?:is|are|was|were|be) (?:no|none)\b|\bnone\b",
        (0.4, 1.9, 1.2),
        "is not a, invalid, missing, no X is available",
    ),
    "nobody": Construct(
        r"\bnobody\b|\bnothing\b", (0.3, 0.6, 0.3), "a sentence about the thing that happens"
    ),
    "beside": Construct(
        r"\bbeside\b", (0.0, 0.0, 0.0), "next to, alongside, compared with, in addition to"
    ),
    "but for": Construct(
        r"\bbut for\b|, \w+ aside\b|\bas far as\b", (0.0, 0.0, 0.0), "except, excluding, if"
    ),
    "Of ...": Construct(
        r"^Of (?:the |a |an |such |[A-Z\d`]|others|what|it|all)",
        (0.0, 0.0, 0.0),
        "a full sentence with its subject first",
    ),
    "where": Construct(
        r"\bwhere (?:it|a|an|the|that|there|they|this|none|no|one|he|its|both|nothing|something"
        r"|every|each|all)\b",
        (0.3, 0.4, 0.1),
        "if, when, in which",
    ),
    "others": Construct(r"\b(?:another|others?)\b", (1.5, 0.8, 0.4), "the name of the thing"),
    "held against": Construct(
        r"\bheld against\b|\btaken for\b|\bgives way\b|\bcomes? of\b",
        (0.0, 0.0, 0.0),
        "compared with, checked against",
    ),
    "semicolon": Construct(r";", (2.2, 4.1, 5.3), "two sentences, or a list"),
}

NO_VERB = re.compile(
    r"(?:What|Where|Whether|Whose|How|Why|When|Which|Who|That|Of|In what|In which|As|From|Beside|By"
    r"|To|The|A|An|All|Each|Every|One|None|Its|Those|Any|Some|No)\b"
)
"""Matches the first words of docstrings that do not begin with a verb."""


@dataclass(frozen=True)
class Text:
    """A sentence of the project."""

    location: str
    """File and line, such as `suite/cli.py:12`."""
    sentence: str


def count_words(text: str) -> int:
    """Return the number of words in a text."""
    return len(re.findall(r"[A-Za-z][A-Za-z'’-]*", text))


def split_sentences(text: str) -> list[str]:
    """Return the sentences of at least three words in a text."""
    text = re.sub(r"\s+", " ", text).strip()
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[(\"'])", text)
    return [part for part in parts if count_words(part) >= 3]


def read_markdown(path: str, text: str) -> Iterator[Text]:
    """Yield the sentences of paragraphs and lists. Headings, tables and code blocks are skipped."""
    block, first_line, is_code = "", 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_fence = re.match(r"\s*(```|~~~)", line) is not None
        is_list_item = re.match(r"\s*([-*+]|\d+\.)\s", line) is not None
        is_text = bool(line.strip()) and not re.match(r"\s*(#|\||<|!\[|\[!|>|---|===|::: )", line)
        if is_fence or is_list_item or (not is_code and not is_text):
            for sentence in split_sentences(re.sub(r"^\s*(?:[-*+]|\d+\.)\s+", "", block)):
                yield Text(f"{path}:{first_line}", sentence)
            block = ""
        if is_fence:
            is_code = not is_code
        elif is_text and not is_code:
            first_line = first_line if block else number
            block = f"{block} {line.strip()}" if block else line


def read_python(path: str, text: str) -> Iterator[tuple[str, Text]]:
    """Yield sentences of a module with their kind: `code`, `messages`, or `opener`.

    An opener is the docstring of a function.
    """
    tree = ast.parse(text)
    raised: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else []:
            docstring = _literal_text(child.value) if isinstance(child, ast.Expr) else ""
            for sentence in split_sentences(docstring):
                yield "code", Text(f"{path}:{child.lineno}", sentence)
        if isinstance(node, ast.FunctionDef) and not _is_property(node) and ast.get_docstring(node):
            yield "opener", Text(f"{path}:{node.lineno}", ast.get_docstring(node) or "")
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                if count_words(message := _literal_text(argument)) >= 4:
                    raised.add(id(argument))
                    yield "messages", Text(f"{path}:{node.lineno}", " ".join(message.split()))
    if path.startswith(MESSAGES):
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) and id(node) not in raised:
                message = _literal_text(node)
                if count_words(message) >= 5 and "<" not in message:
                    yield "messages", Text(f"{path}:{node.lineno}", " ".join(message.split()))
    for first_line, comment in _comment_blocks(text):
        for sentence in split_sentences(comment):
            yield "code", Text(f"{path}:{first_line}", sentence)


def _is_property(function: ast.FunctionDef) -> bool:
    """Return whether a method is decorated as a property."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def _literal_text(node: ast.AST) -> str:
    """Return the literal parts of a string expression, with {} for each inserted value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = node.values
        return "".join(_literal_text(x) if isinstance(x, ast.Constant) else "{}" for x in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _literal_text(node.left) + _literal_text(node.right)
    return ""


def _comment_blocks(text: str) -> list[tuple[int, str]]:
    """Return the first line and the text of each block of comments."""
    blocks: list[tuple[int, str]] = []
    last_line = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or re.search("noqa|type:", token.string):
            continue
        comment = token.string.lstrip("#- ").strip()
        if token.start[0] == last_line + 1:
            first_line, block = blocks.pop()
            blocks.append((first_line, f"{block} {comment}"))
        else:
            blocks.append((token.start[0], comment))
        last_line = token.start[0]
    return blocks


def read_repository(root: Path) -> dict[str, list[Text]]:
    """Return the sentences of all files that git tracks, by kind."""
    command = ["git", "-C", str(root), "ls-files"]
    paths = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    texts: dict[str, list[Text]] = defaultdict(list)
    for path in paths:
        if path.endswith(".md") and path.startswith(DOCS) and (root / path).is_file():
            texts["docs"] += read_markdown(path, (root / path).read_text(encoding="utf-8"))
        elif path.endswith(".py") and path.startswith(CODE) and (root / path).is_file():
            for kind, text in read_python(path, (root / path).read_text(encoding="utf-8")):
                texts[kind].append(text)
    return texts


def rate(texts: list[Text], construct: Construct) -> float:
    """Return the number of occurrences of a construct per 1,000 words."""
    words = sum(count_words(text.sentence) for text in texts)
    return 1000 * sum(construct.count(text.sentence) for text in texts) / max(1, words)


def find_openers(texts: list[Text]) -> list[Text]:
    """Return the function docstrings that do not begin with a verb."""
    return [text for text in texts if NO_VERB.match(text.sentence)]


def main() -> int:
    """Print all rates. Returns 1 if a rate is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], metavar="PATH")
    parser.add_argument("--show", choices=CONSTRUCTS)
    parser.add_argument("--sample", type=int, default=0, metavar="N")
    options = parser.parse_args()
    texts = {
        kind: [text for text in kind_texts if text.location.startswith(tuple(options.only))]
        for kind, kind_texts in read_repository(Path(".")).items()
    }
    if options.sample:
        pool = [text for kind in KINDS for text in texts.get(kind, ())]
        for text in random.sample(pool, min(options.sample, len(pool))):
            print(f"{text.location}: {text.sentence}")
        return 0
    too_high = 0
    for name, construct in CONSTRUCTS.items():
        cells = []
        for kind in KINDS:
            value, limit = rate(texts.get(kind, []), construct), construct.limit(kind)
            too_high += value > limit
            cells.append(f"{kind} {value:5.1f} (limit {limit:4.1f})")
        print(f"{name:14}", *cells, construct.remedy, sep="  ")
        for text in [text for kind in KINDS for text in texts.get(kind, ())]:
            if options.show == name and construct.count(text.sentence):
                print(f"  {text.location}: {text.sentence[:200]}")
    openers = texts.get("opener", [])
    share = len(find_openers(openers)) / max(1, len(openers))
    print(f"function docstrings without a verb first: {share:.0%} (limit {OPENERS_LIMIT:.0%})")
    print(f"rates above their limits: {too_high + (share > OPENERS_LIMIT)}")
    return 1 if too_high or share > OPENERS_LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
