"""The commands that the documentation shows.

They stand in blocks of `sh`, one a line. A line's comment may begin with what keeps a test from
running it: `needs data`, `needs GPUs`, `needs several machines`, …, or `takes minutes`. All others
are run as they stand.
"""

import re
import shlex
from dataclasses import dataclass

from tests.helpers import PROJECT

PAGES = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
]
NOT_RUN = re.compile(r"(needs|takes|sends|changes) ")
UNMARKED = re.compile(r"^ {4}(\S*python|\S*suite|make|pip|curl) ", re.MULTILINE)
"""A command in an indented block: no test sees it."""
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    page: str
    line: int
    words: tuple[str, ...]
    comment: str

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def program(self):
        """`suite`, `run_suite.py`, `make`, a script, or whatever else the line starts; `suite run`
        is `run_suite.py`.
        """
        first = self.words[0].removeprefix(".venv/bin/")
        if (first, *self.words[1:2]) == ("suite", "run"):
            return "run_suite.py"
        if first != "python":
            return first
        return self.words[2] if self.words[1] == "-m" else self.words[1]

    @property
    def arguments(self):
        """The words after the program."""
        if self.words[0].endswith("python") and self.words[1] == "-m":
            return self.words[3:]
        return (
            self.words[2:]
            if self.words[0].endswith("python") or self.words[1:2] == ("run",)
            else self.words[1:]
        )

    @property
    def runs(self):
        """False where the comment says what is missing here."""
        return not NOT_RUN.match(self.comment)


def commands_of(page):
    """Every command of a page, lines that end in a backslash joined."""
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(PROJECT))
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1)) + 1
        lines = block.group(1).split("\n")
        joined = ""
        for number, line in enumerate(lines, first):
            joined += line.removesuffix("\\")
            if line.endswith("\\"):
                continue
            code, _, comment = joined.partition(" #")
            joined = ""
            if code.strip() and not code.startswith("#"):
                yield Command(name, number, _without_launcher(shlex.split(code)), comment.strip())


def _without_launcher(words):
    """What `srun` or `mpirun` starts."""
    launched = words[0] in ("srun", "mpirun") and "python" in words
    return tuple(words[words.index("python") :] if launched else words)
