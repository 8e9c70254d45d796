"""What workloads may import, for each that there is: import-linter's own contracts would list them
by name.
"""

from collections.abc import Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "jax")
PACKAGES = ("torch", "torchvision", "tensorflow", "mxnet", "jax", "jaxlib")
ROOMS = ("api", "common", "entry_points", "files", "frameworks", "held_folder", "process_identity")
"""What lies below workloads/ and is none."""


def workload(module: str) -> str:
    """`workloads.ncf` of a module in that folder, else an empty text."""
    parts = module.split(".")
    return (
        ".".join(parts[:2])
        if parts[0] == "workloads" and len(parts) > 1 and parts[1] not in ROOMS
        else ""
    )


def is_trainer(module: str) -> bool:
    """A module that needs a framework: in workloads/frameworks, or named after one."""
    parts = module.split(".")
    return parts[0] == "workloads" and (parts[1:2] == ["frameworks"] or parts[-1] in FRAMEWORKS)


class WorkloadsContract(Contract):
    """Only a workload's own modules import it; only trainers import frameworks, and only trainers
    import trainers.
    """

    type_name = "workloads"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Kept where no import is wrong."""
        wrong = sorted(f"{importer} -> {imported}" for importer, imported in _wrong(graph))
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """A line for each import."""
        for line in check.metadata["wrong"]:
            output.print_error(f"- {line}")


def _wrong(graph: ImportGraph) -> Iterator[tuple[str, str]]:
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            owner = workload(imported)
            framework = imported.split(".")[0] in PACKAGES or is_trainer(imported)
            if (owner and workload(importer) != owner) or (framework and not is_trainer(importer)):
                yield importer, imported
