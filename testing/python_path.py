"""The Python path for processes that read hyperparameter sets in a framework's environment.

Workers of a run do not read the sets.
"""

import contextlib
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parent.parent


def with_yaml() -> str:
    """Return a path with this checkout and the controller's PyYAML.

    PyYAML is used as pure Python. The lock files of the environments do not contain it.
    """
    folder = PROJECT / "build" / "python_path"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "yaml").symlink_to(Path(yaml.__file__).parent)
    return f"{PROJECT}:{folder}"
