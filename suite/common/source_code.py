"""Compute digests of the source code that a run imports.

The controller computes the expected digest. Each worker computes the digest of the code that it has
loaded. The input of a digest are paths and git blob ids, so a digest can be computed from a
checkout or from a commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from suite.catalog.deviations import Deviation, DeviationCode
from suite.common import registry
from suite.common.git_state import committed_blobs, git_state
from suite.common.paths import PROJECT

_SUITE_FOLDERS = ("agent", "catalog", "common", "launch", "machine", "worker")
"""Subfolders of `suite` from which workers import modules (pyproject.toml, import contracts)."""
_SHARED = ("workloads/api", "workloads/common", "workloads/frameworks")
_PACKAGE_FILE = "suite/__init__.py"
_PACKAGES = ("suite", "workloads")
_PLUGIN = "plugin:"
"""Prefix of the names of plugin files in a digest."""


@dataclass(frozen=True)
class LoadedCode:
    """Digest and folder of the source code that a worker process has loaded."""

    digest: str
    root: str
    """Folder that contains the loaded `suite` package."""


def code_folders(workload: str, framework: str) -> tuple[str, ...]:
    """Return the folders from which a run of a workload and framework imports code.

    The folders are relative to the checkout, and their subfolders are included. `suite/__init__.py`
    and the files directly in `workloads`, which a run also imports, are not in the returned tuple.
    """
    folders = [f"suite/{folder}" for folder in _SUITE_FOLDERS]
    return (*folders, *_SHARED, *sorted(_workload_folders(workload, framework)))


def _is_code(path: str, folders: Sequence[str]) -> bool:
    """Check whether a file belongs to the code of a run.

    `path` is relative to the checkout. `folders` is the result of `code_folders`.
    """
    if not path.endswith(".py"):
        return False
    in_folder = any(path.startswith(f"{folder}/") for folder in folders)
    return in_folder or path == _PACKAGE_FILE or os.path.dirname(path) == "workloads"


@lru_cache(maxsize=64)
def expected_digest(workload: str, framework: str) -> str:
    """Return the digest of the code that workers import from the checkout of this process.

    The digest is computed once and cached.
    """
    return _digest(_blobs(_listed_files(str(PROJECT), workload, framework)))


def loaded_code(workload: str, framework: str) -> LoadedCode:
    """Return the digest of the code that this process has loaded.

    The digest includes the imported modules and all files in `code_folders` of the checkout from
    which they were imported. A module that was loaded from a different folder is included with its
    full path, so the module changes the digest.
    """
    root = os.path.dirname(sys.modules["suite"].__path__[0])
    files = _listed_files(root, workload, framework)
    packages = {*_PACKAGES, *_plugin_packages(workload, framework)}
    listed = set(files.values())
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None) or getattr(
            module, "__file__", None
        )
        if name.partition(".")[0] in packages and isinstance(origin, str) and origin not in listed:
            files[origin] = origin
    return LoadedCode(_digest(_blobs(files)), root)


def digest_below(root: Path, workload: str, framework: str) -> str:
    """Return the digest of the code in a copy of a checkout.

    An example of a copy is the folder `source` of a submission package.
    """
    return _digest(_blobs(_listed_files(str(root), workload, framework)))


def files_unlike_commit(workload: str, framework: str) -> list[str]:
    """Return the files of a run's code that differ between this checkout and its commit.

    The list includes added and missing files. The list is empty if git is not available. Files of
    plugins are not compared, because plugins do not belong to this repository.
    """
    commit = git_state()["commit"]
    committed = committed_blobs(commit, _PACKAGES) if isinstance(commit, str) else None
    if committed is None:
        return []
    folders = code_folders(workload, framework)
    committed = {path: blob for path, blob in committed.items() if _is_code(path, folders)}
    algorithm = "sha256" if any(len(blob) == 64 for blob in committed.values()) else "sha1"
    files = _listed_files(str(PROJECT), workload, framework)
    present = {
        name: blob
        for name, blob in _blobs(files, algorithm).items()
        if not name.startswith(_PLUGIN)
    }
    return sorted(
        name for name in {*committed, *present} if committed.get(name) != present.get(name)
    )


def code_deviations(workload: str, framework: str) -> tuple[Deviation, ...]:
    """Return a deviation if the code in this checkout differs from its commit."""
    changed = files_unlike_commit(workload, framework)
    if not changed:
        return ()
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return (
        Deviation(DeviationCode.CHANGED_CODE, detail=f"code unlike its commit: {changed[0]}{more}"),
    )


def blob_id(content: bytes, algorithm: str = "sha1") -> str:
    """Return the git blob id of a file's content."""
    return hashlib.new(
        algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False
    ).hexdigest()


def uses_plugin(workload: str, framework: str) -> bool:
    """Return True if this workload and framework need code from outside this repository."""
    return bool(_plugin_packages(workload, framework))


def _modules(workload: str, framework: str) -> list[str]:
    """Return the modules that define a workload, a framework, and their trainer.

    The modules of the framework are not imported.
    """
    modules = (
        registry.module_of(registry.WORKLOADS, workload),
        registry.module_of(registry.FRAMEWORKS, framework),
        registry.trainer_module(workload, framework),
    )
    return [module for module in modules if module]


def _workload_folders(workload: str, framework: str) -> set[str]:
    """Return the subfolders of `workloads` that define the workload and its trainer."""
    parts = [module.split(".") for module in _modules(workload, framework)]
    return {
        f"workloads/{names[1]}" for names in parts if names[0] == "workloads" and len(names) > 1
    }


def _plugin_packages(workload: str, framework: str) -> set[str]:
    return {module.partition(".")[0] for module in _modules(workload, framework)} - set(_PACKAGES)


def _listed_files(root: str, workload: str, framework: str) -> dict[str, str]:
    """Map the name of each Python file in a run's code to the file's path.

    The files are in the checkout at `root` and in installed plugins.
    """
    paths = [os.path.join(root, _PACKAGE_FILE), *_files_in(os.path.join(root, "workloads"))]
    for folder in code_folders(workload, framework):
        paths += _python_files(os.path.join(root, folder))
    found = {path[len(root) + 1 :]: path for path in paths if os.path.isfile(path)}
    for package in sorted(_plugin_packages(workload, framework)):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            found |= {
                f"{_PLUGIN}{package}{path[len(folder) :]}": path for path in _python_files(folder)
            }
        if spec is not None and spec.submodule_search_locations is None and spec.origin:
            # the plugin is a single file instead of a package folder
            found[f"{_PLUGIN}{package}"] = spec.origin
    return found


def _files_in(folder: str) -> list[str]:
    """Return the Python files directly in a folder."""
    with contextlib.suppress(OSError):
        return [entry.path for entry in os.scandir(folder) if entry.name.endswith(".py")]
    return []


def _python_files(path: str) -> Iterator[str]:
    """Yield the Python files in a folder and its subfolders."""
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def _blobs(files: Mapping[str, str], algorithm: str = "sha1") -> dict[str, str]:
    """Map file names to blob ids. A file that cannot be read has the id `unreadable`."""
    blobs = {}
    for name, path in files.items():
        try:
            with open(path, "rb") as stream:
                blobs[name] = blob_id(stream.read(), algorithm)
        except OSError:
            blobs[name] = "unreadable"
    return blobs


def _digest(blobs: Mapping[str, str]) -> str:
    text = "".join(f"{path} {blob}\n" for path, blob in sorted(blobs.items()))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]
