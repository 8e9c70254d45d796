"""The tables of named sets in docs/ from their files: `python -m tests.docs.set_tables` writes them anew, between their marks.

A mark names the workload and the columns: `<!-- sets: ncf batch_size_global learning_rate -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from suite.common import registry
from workloads.api import Hyperparameter, HyperparameterSet, Json

DOCS = Path(__file__).resolve().parents[2] / "docs"
MARKED = re.compile(r"<!-- sets: (\w+) ([\w ]+) -->\n.*?<!-- sets: end -->", re.DOTALL)


def table(workload: str, keys: list[str]) -> str:
    """The sets of a workload, a row each."""
    sets = registry.load_workload(workload).named_sets()
    rows = [["set", *(f"`{key}`" for key in keys), "what it is"], ["---", *["---:"] * len(keys), "---"]]
    rows += [[name, *(cell(found, key) for key in keys), found.sentence] for name, found in sets.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell(found: HyperparameterSet, key: str) -> str:
    """A value, and what its source says where that is less than the batch size's."""
    if key not in found:
        return "–"
    kind, of_set = (_kind(found[name]) for name in (key, "batch_size_global"))
    return _shown(found[key].value) + (f" ({kind})" if kind != of_set else "")


def _kind(item: Hyperparameter) -> str:
    return item.source.partition(":")[0]


def _shown(value: Json) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)


def page(text: str) -> str:
    """A page's text with its tables made anew."""

    def made(mark: re.Match[str]) -> str:
        begin = mark[0].partition("\n")[0]
        return f"{begin}\n\n{table(mark[1], mark[2].split())}\n\n<!-- sets: end -->"

    return MARKED.sub(made, text)


if __name__ == "__main__":
    for path in DOCS.glob("*.md"):
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
