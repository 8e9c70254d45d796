"""Install the suite's package into environments.

If the suite runs from a checkout, the checkout is installed in editable mode. If the suite runs
from an installed package, the package is copied.
"""

from __future__ import annotations

import configparser
import shutil
from importlib import metadata
from pathlib import Path

from suite.common.paths import IN_CHECKOUT, PROJECT

DISTRIBUTION = "time-to-target"


def is_checkout(project: Path) -> bool:
    """Check whether `project` is a checkout, which can be installed in editable mode.

    Returns False for the site-packages folder into which this package was installed.
    """
    return IN_CHECKOUT or project != PROJECT


def fingerprint(project: Path) -> bytes:
    """Return bytes that change whenever the package must be installed again."""
    if is_checkout(project):
        metadata_file = project / "setup.cfg"
        return metadata_file.read_bytes() if metadata_file.exists() else b""
    return (metadata.distribution(DISTRIBUTION).read_text("RECORD") or "").encode()


def copy_into(site_packages: Path) -> None:
    """Install the running package into another environment by copying its files.

    Copying is sufficient because the package is pure Python.
    """
    for name in ("suite", "workloads"):
        shutil.rmtree(site_packages / name, ignore_errors=True)
    for old in site_packages.glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info"):
        shutil.rmtree(old)
    for file in metadata.distribution(DISTRIBUTION).files or ():
        # A file outside site-packages is a console script, which only this environment needs.
        if file.parts[0] != ".." and file.suffix != ".pyc":
            target = site_packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(str(file.locate())), target)


def entry_points(project: Path) -> set[str]:
    """Return the entry points that the suite's package declares.

    All declared entry points must be visible in an environment.

    Returns:
        Group and name of each entry point, such as `suite.trainers ncf.pytorch`.
    """
    if is_checkout(project):
        declared = configparser.ConfigParser(delimiters=("=",))
        declared.read(project / "setup.cfg", encoding="utf-8")
        groups = (
            declared["options.entry_points"] if declared.has_section("options.entry_points") else {}
        )
        lines = (
            (group, line)
            for group, text in groups.items()
            for line in text.splitlines()
            if "=" in line
        )
        points = [(group, line.partition("=")[0].strip()) for group, line in lines]
    else:
        points = [
            (point.group, point.name) for point in metadata.distribution(DISTRIBUTION).entry_points
        ]
    return {f"{group} {name}" for group, name in points if group.startswith("suite.")}
