"""Which state of the code a run used."""

from __future__ import annotations

import subprocess
from functools import lru_cache

from suite.common.paths import IN_CHECKOUT, PROJECT
from workloads.api import Json


@lru_cache(maxsize=1)
def git_state() -> dict[str, Json]:
    """Commit and whether files differ from it; None where git does not say, as outside a checkout."""
    commit, changed = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changed is None else bool(changed)}


def _git(*arguments: str) -> str | None:
    if not IN_CHECKOUT:  # site-packages may lie in a repository of the user's
        return None
    try:
        done = subprocess.run(["git", "-C", str(PROJECT), *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
