"""Prints a notice if the suite runs from site-packages although the user works in a checkout.

`pip install .` copies the package. Edits of the checkout then have no effect on the commands. The
copy uses data, logs, and environments in the working directory instead of the checkout.
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
    """Return a line of text if the suite runs from a copy of a checkout.

    Empty in a checkout, and without any checkout.
    """
    if IN_CHECKOUT:
        return ""
    checkout = _checkout_of_installation() or _checkout_above(Path.cwd())
    if checkout is None:
        return ""
    try:
        places = f"data in {data_root()}, logs in {log_root()}, and environments in {env_root()}"
    except ValueError:  # an invalid environment variable, which the command reports
        places = "data, logs, and environments in the working directory"
    return (
        f"this is a copy of {checkout} in {PROJECT}. Edits of the checkout have no effect. The copy"
        f" uses {places}. To use the checkout, run: {shlex.quote(sys.executable)} -m pip install"
        f" --no-deps -e {shlex.quote(str(checkout))}"
    )


def print_copy_notice(program: str) -> None:
    """Print the notice of `copy_notice` on standard error, unless it is empty."""
    notice = copy_notice()
    if notice:
        print(f"{program}: {notice}", file=sys.stderr, flush=True)


def _checkout_of_installation() -> Path | None:
    """Return the checkout from which pip installed this package.

    None if pip recorded no source, or if the source is not a checkout.
    """
    try:
        recorded = distribution(DISTRIBUTION).read_text("direct_url.json")
        url = urlsplit(str(json.loads(recorded or "")["url"]))
    except (PackageNotFoundError, ValueError, KeyError, TypeError, OSError):
        return None
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and _is_checkout(folder) else None


def _checkout_above(folder: Path) -> Path | None:
    """Return the nearest checkout that contains `folder`, or None."""
    return next((above for above in (folder, *folder.parents) if _is_checkout(above)), None)


def _is_checkout(folder: Path) -> bool:
    parts = ("setup.cfg", "conf/config.yaml", "suite/cli.py", "workloads/__init__.py")
    return all((folder / part).is_file() for part in parts)
