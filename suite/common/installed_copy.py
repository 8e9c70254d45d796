"""Warn users who run an installed copy of the suite while they work in a checkout.

`pip install .` copies the package to site-packages. Edits in the checkout then have no effect on
the installed commands. The installed copy also uses the data, logs, and environments in the working
directory instead of the checkout.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from suite.common.paths import IN_CHECKOUT, PROJECT, data_root, env_root, log_root

DISTRIBUTION = "time-to-target"


def copy_notice() -> str:
    """Return the warning if the suite runs from an installed copy of a checkout.

    The string is empty if the suite runs from a checkout, or if no checkout was found.
    """
    if IN_CHECKOUT:
        return ""
    checkout = _checkout_of_installation() or _checkout_above(Path.cwd())
    if checkout is None:
        return ""
    try:
        places = f"data in {data_root()}, logs in {log_root()}, and environments in {env_root()}"
    # An environment variable is invalid. The command itself reports the error later.
    except ValueError:
        places = "data, logs, and environments in the working directory"
    return (
        f"this is a copy of {checkout} in {PROJECT}. Edits of the checkout have no effect. The copy"
        f" uses {places}. To use the checkout, run: {shlex.quote(sys.executable)} -m pip install"
        f" --no-deps -e {shlex.quote(str(checkout))}"
    )


def print_copy_notice(program: str) -> None:
    """Print the warning from `copy_notice` to standard error, unless it is empty."""
    notice = copy_notice()
    if notice:
        print(f"{program}: {notice}", file=sys.stderr, flush=True)


def _checkout_of_installation() -> Path | None:
    """Return the checkout from which pip installed this package.

    Returns None if pip recorded no source folder, or if the source folder is not a checkout.
    """
    try:
        recorded = distribution(DISTRIBUTION).read_text("direct_url.json")
        url = urlsplit(str(json.loads(recorded or "")["url"]))
    except (PackageNotFoundError, ValueError, KeyError, TypeError, OSError):
        return None
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and _is_checkout(folder) else None


def _checkout_above(folder: Path) -> Path | None:
    """Return the nearest checkout that contains `folder`, or None if there is no checkout."""
    return next((above for above in (folder, *folder.parents) if _is_checkout(above)), None)


def _is_checkout(folder: Path) -> bool:
    parts = ("setup.cfg", "conf/config.yaml", "suite/cli.py", "workloads/__init__.py")
    return all((folder / part).is_file() for part in parts)
