"""Import contract for workloads that applies to new workloads automatically.

The contracts of import-linter itself would have to list every workload.
"""

from collections.abc import Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "jax")
PACKAGES = ("torch", "torchvision", "tensorflow", "mxnet", "jax", "jaxlib")
SHARED_PACKAGES = (
    "api",
    "common",
    "entry_points",
    "files",
    "frameworks",
    "held_folder",
    "process_identity",
)
"""Packages and modules below workloads/ that are not a workload."""


def workload(module: str) -> str:
    """Return `workloads.NAME` if the module belongs to a workload, else an empty string."""
    parts = module.split(".")
    return (
        ".".join(parts[:2])
        if parts[0] == "workloads" and len(parts) > 1 and parts[1] not in SHARED_PACKAGES
        else ""
    )


def is_trainer(module: str) -> bool:
    """Return whether a module is in workloads/frameworks, or is named after a framework."""
    parts = module.split(".")
    return parts[0] == "workloads" and (parts[1:2] == ["frameworks"] or parts[-1] in FRAMEWORKS)


class WorkloadsContract(Contract):
    """Only a workload's modules import the workload, and only trainers import frameworks.

    Only trainers import trainers.
    """

    type_name = "workloads"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check whether all imports are allowed."""
        wrong = sorted(f"{importer} -> {imported}" for importer, imported in _wrong(graph))
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print a line per forbidden import."""
        for line in check.metadata["wrong"]:
            output.print_error(f"- {line}")


def _wrong(graph: ImportGraph) -> Iterator[tuple[str, str]]:
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            owner = workload(imported)
            framework = imported.split(".")[0] in PACKAGES or is_trainer(imported)
            if (owner and workload(importer) != owner) or (framework and not is_trainer(importer)):
                yield importer, imported
