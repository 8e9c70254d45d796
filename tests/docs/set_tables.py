"""Tables of hyperparameter sets and of precisions in docs/, generated from the code.

`python -m tests.docs.set_tables` updates all tables. The mark of a table of sets names the workload
and the columns: `<!-- sets: ncf global_batch_size learning_rate -->`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path

from suite.catalog.sets import HyperparameterSet, named_sets
from suite.common import registry
from workloads.api import Json, TrainerInfo
from workloads.common.networks import layer_lists
from workloads.zoo.networks import KINDS, build

DOCS = Path(__file__).resolve().parents[2] / "docs"
MARKS = {"published": "", "derived": "ᵈ", "presumed": "ᵖ"}
LEGEND = (
    "ᵈ derived, ᵖ presumed, without a mark: published. [Sources](../how-to/configure_a_run.md)."
)
MARKED = re.compile(r"<!-- sets: (\w+) ([\w ]+) -->\n.*?<!-- sets: end -->", re.DOTALL)

PRECISIONS = re.compile(r"<!-- precisions -->\n.*?<!-- precisions: end -->", re.DOTALL)

NETWORKS = re.compile(r"<!-- networks -->\n.*?<!-- networks: end -->", re.DOTALL)
STOCK = {
    **dict.fromkeys(("alexnet", "vgg11", "inception_v3", "resnet18", "resnet34"), "PyTorch, MXNet"),
    **dict.fromkeys(("vgg16", "vgg19"), "all"),
    **dict.fromkeys(("resnet50", "resnet101", "resnet152"), "PyTorch"),
}
"""Frameworks that contain the same network (`workload.implementation=stock`)."""


def networks_table() -> str:
    """Return the table of the zoo's networks, at their original image size."""
    rows = []
    for name, kind in KINDS.items():
        network = build(name, kind.image_size, kind.classes)
        size = f"{layer_lists.parameter_count(network):,}"
        gigas = f"{layer_lists.multiply_adds(network) / 1e9:.3g}"
        rows.append(f"| {name} | {kind.image_size} | {size} | {gigas} | {STOCK.get(name, '–')} |")
    head = "| model | px | parameters | GMAC | stock in |\n|---|---:|---:|---:|---|"
    return "\n".join([head, *rows])


def precisions_table() -> str:
    """Return the table of the precisions of each workload in each framework."""
    workloads = {name: trainers_of(name) for name in registry.names(registry.WORKLOADS)}
    frameworks = sorted({name for trainers in workloads.values() for name in trainers})
    rows = [
        [
            workload,
            *(
                ", ".join(trainers[name].precisions) if name in trainers else "–"
                for name in frameworks
            ),
        ]
        for workload, trainers in workloads.items()
    ]
    lines = (f"| {' | '.join(row)} |" for row in [["workload", *frameworks], *rows])
    first, *rest = lines
    return "\n".join([first, "|---|" + "---|" * len(frameworks), *rest])


def trainers_of(workload: str) -> Mapping[str, TrainerInfo]:
    """Return the trainers that a shipped workload declares, by framework."""
    module = importlib.import_module(f"workloads.{workload}.trainers")
    trainers: Mapping[str, TrainerInfo] = module.TRAINERS
    return trainers


def table(workload: str, keys: list[str]) -> str:
    """Return the table of a workload's sets, with one row per set."""
    sets = named_sets(registry.load_workload(workload))
    cells = [[name, *(cell(found, key) for key in keys)] for name, found in sets.items()]
    first, *rows = (
        f"| {' | '.join(row)} |" for row in [["set", *(f"`{key}`" for key in keys)], *cells]
    )
    return "\n".join([first, "|---|" + "---:|" * len(keys), *rows, "", LEGEND])


def cell(found: HyperparameterSet, key: str) -> str:
    """Return a value, with a mark if its source is not a publication."""
    if key not in found:
        return "–"
    kind = found[key].source.partition(":")[0]
    return _shown(found[key].value) + MARKS.get(kind, f" ({kind})")


def _shown(value: Json) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:.6g}"
        if isinstance(value, float)
        else str(value)
    )


def page(text: str) -> str:
    """Return the text of a page with updated tables."""

    def updated(mark: re.Match[str]) -> str:
        begin = mark[0].partition("\n")[0]
        return f"{begin}\n\n{table(mark[1], mark[2].split())}\n\n<!-- sets: end -->"

    precisions = f"<!-- precisions -->\n\n{precisions_table()}\n\n<!-- precisions: end -->"
    networks = f"<!-- networks -->\n\n{networks_table()}\n\n<!-- networks: end -->"
    text = NETWORKS.sub(lambda _: networks, MARKED.sub(updated, text))
    return PRECISIONS.sub(lambda _: precisions, text)


if __name__ == "__main__":
    for path in DOCS.rglob("*.md"):
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
