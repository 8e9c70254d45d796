"""The Python path of processes in a framework's environment that read hyperparameter sets, as no
worker of a run does.
"""

import contextlib
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parent.parent


def with_yaml() -> str:
    """This checkout, and the controller's PyYAML: plain Python, which the locks of the environments
    do without.
    """
    folder = PROJECT / "build" / "python_path"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "yaml").symlink_to(Path(yaml.__file__).parent)
    return f"{PROJECT}:{folder}"
