"""PYTHONPATH for processes that read hyperparameter sets in a framework's environment.

Worker processes do not read hyperparameter sets, so they do not need this PYTHONPATH.
"""

import contextlib
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parent.parent


def with_yaml() -> str:
    """Return a PYTHONPATH with this checkout and the controller's PyYAML.

    The frameworks' environments do not contain PyYAML. Its C extension is not used.
    """
    folder = PROJECT / "build" / "python_path"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "yaml").symlink_to(Path(yaml.__file__).parent)
    return f"{PROJECT}:{folder}"
