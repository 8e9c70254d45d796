"""The tables of docs/rules.md from the code: `python -m tests.workloads.rules_page` writes them anew, between its marks."""

from __future__ import annotations

from pathlib import Path

from tests.workloads.gnmt import test_gnmt_rules
from tests.workloads.maskrcnn import test_maskrcnn_rules
from tests.workloads.ncf import test_ncf_rules
from tests.workloads.resnet50 import test_resnet_rules
from tests.workloads.ssd import test_ssd_rules
from tests.workloads.transformer import test_transformer_rules
from workloads.api import Rule, Workload
from workloads.common import rules
from workloads.gnmt.workload import GNMT
from workloads.maskrcnn.workload import MaskRCNN
from workloads.ncf.workload import NCF
from workloads.resnet50.workload import ResNet50
from workloads.ssd.workload import SSD
from workloads.transformer.workload import Transformer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
WORKLOADS = {
    NCF: test_ncf_rules.LAXER,
    ResNet50: test_resnet_rules.LAXER,
    SSD: test_ssd_rules.LAXER,
    MaskRCNN: test_maskrcnn_rules.LAXER,
    GNMT: test_gnmt_rules.LAXER,
    Transformer: test_transformer_rules.LAXER,
}
"""Workload to what the checker does not see."""
SHARED = (*rules.EVERY_V05, *rules.EVERY_V07, *rules.IMAGES)


def table(rows: tuple[Rule, ...]) -> list[str]:
    """Rows in Markdown."""
    lines = ["| setting | allowed | where | source |", "|---|---|---|---|"]
    for row in rows:
        names = ", ".join(f"`{name}`" for name in row.names)
        conditions = ", ".join(f"`{name}` {allowed}" for name, allowed in row.when.items())
        lines.append(f"| {names} | {row.allowed} | {conditions} | {row.source} |")
    return lines


def of_workload(workload: type[Workload], laxer: dict[str, str]) -> list[str]:
    """A workload's own rows for each round, and what the checker does not see."""
    lines = []
    for name, found in workload.rules.items():
        own = tuple(row for row in found.rows if row not in SHARED)
        lines += [f"## {workload.name}, {name}", "", *table(own), ""]
        for optimizer, frameworks in found.listed_optimizers.items():
            listed = ", ".join(sorted(frameworks))
            lines += [f"Frameworks for which v0.7 lists an implementation of `{optimizer}`: {listed}.", ""]
    lines += [f"## {workload.name}: what leaves the rules and the checker passes", ""]
    return [*lines, "| setting | why |", "|---|---|", *(f"| `{name}` | {why} |" for name, why in laxer.items()), ""]


def tables() -> str:
    """All of them."""
    lines = ["## Every workload, v0.5", "", *table(rules.EVERY_V05), ""]
    lines += ["## Every workload, v0.7", "", *table(rules.EVERY_V07), ""]
    lines += ["## Every workload that reads images, both rounds", "", *table(rules.IMAGES), ""]
    for workload, laxer in WORKLOADS.items():
        lines += of_workload(workload, laxer)
    return "\n".join(lines)


def page(text: str) -> str:
    """A page's text with the tables between its marks made anew."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
