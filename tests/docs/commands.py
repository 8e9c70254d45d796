"""The commands in the documentation.

Commands are in code blocks of type `sh`, one per line. A comment that starts with `needs data`,
`needs GPUs`, `needs several machines`, …, or `takes minutes` keeps a test from running the command.
All remaining commands are run unchanged.
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
"""A command in an indented block, which no test would run."""
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
        """Return the program, such as `suite`, `run_suite.py`, `make`, or the name of a script.

        `suite run` is returned as `run_suite.py`.
        """
        first = self.words[0].removeprefix(".venv/bin/")
        if (first, *self.words[1:2]) == ("suite", "run"):
            return "run_suite.py"
        if first != "python":
            return first
        return self.words[2] if self.words[1] == "-m" else self.words[1]

    @property
    def arguments(self):
        """Return the arguments of the program."""
        if self.words[0].endswith("python") and self.words[1] == "-m":
            return self.words[3:]
        return (
            self.words[2:]
            if self.words[0].endswith("python") or self.words[1:2] == ("run",)
            else self.words[1:]
        )

    @property
    def runs(self):
        """Return whether the comment allows a test to run the command."""
        return not NOT_RUN.match(self.comment)


def commands_of(page):
    """Yield every command of a page, with continued lines joined."""
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
    """Return the command that `srun` or `mpirun` starts."""
    launched = words[0] in ("srun", "mpirun") and "python" in words
    return tuple(words[words.index("python") :] if launched else words)
