"""No module of the suite imports more than fifteen modules of this project.

A module with many imports has several responsibilities.
"""

import ast

from tests.helpers import PROJECT

MAX_IMPORTS = 15
MAX_IMPORTS_OF_CONTROLLER = 12


def imported_modules(path):
    """Return the modules of this project that a file imports, also inside of functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {
                alias.name
                for alias in node.names
                if alias.name.split(".")[0] in ("suite", "workloads")
            }
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
            "suite",
            "workloads",
        ):
            for alias in node.names:
                below = PROJECT / f"{node.module}.{alias.name}".replace(".", "/")
                is_module = below.is_dir() or below.with_suffix(".py").is_file()
                found.add(f"{node.module}.{alias.name}" if is_module else node.module)
    return found


def test_no_module_imports_more_than_fifteen_modules():
    counts = {
        path.relative_to(PROJECT): len(imported_modules(path))
        for path in (PROJECT / "suite").rglob("*.py")
    }
    assert len(counts) > 300
    assert {str(path): count for path, count in counts.items() if count > MAX_IMPORTS} == {}


def test_the_controller_and_its_targets_import_few_modules():
    control = PROJECT / "suite" / "control"
    names = ("controller", "command", "planning", "folders", "sweep", "summary")
    paths = [*(control / f"{name}.py" for name in names), *(control / "targets").glob("*.py")]
    assert {
        path.name: count
        for path in paths
        if (count := len(imported_modules(path))) > MAX_IMPORTS_OF_CONTROLLER
    } == {}


def test_imports_are_counted(tmp_path):
    path = tmp_path / "module.py"
    text = (
        "import numpy\nimport suite.cli\nfrom suite import results\ndef f():\n    from"
        " suite.common.paths import a, b\n"
    )
    path.write_text(text)
    assert imported_modules(path) == {"suite.cli", "suite.results", "suite.common.paths"}
