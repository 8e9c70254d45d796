"""Determine the commit and the modified files of the code that a run uses.

Environment variables that begin with `GIT_` are not passed to git, because they could select a
different repository or index.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import lru_cache

from suite.common.paths import IN_CHECKOUT, PROJECT
from workloads.api import Json

GIT_SECONDS = 60.0


@lru_cache(maxsize=1)
def git_state() -> dict[str, Json]:
    """Return the commit, and whether `git status` reports modified tracked files.

    The commit and the status are None if no commit is found.

    `git status` skips files that are marked `assume-unchanged` or `skip-worktree`.
    `source_code.files_unlike_commit` also detects changes in such files.
    """
    commit, changed = (
        _text("rev-parse", "HEAD"),
        _text("status", "--porcelain", "--untracked-files=no"),
    )
    # If an archive of the suite was unpacked inside an unrelated repository, the commit is that of
    # the unrelated repository and does not contain `suite/__init__.py`.
    if commit is None or not committed_blobs(commit, ["suite/__init__.py"]):
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": None if changed is None else bool(changed)}


def run_git(*arguments: str) -> bytes | None:
    """Run git in this checkout, and return its standard output.

    Returns None if the code is not in a checkout, git is not installed, or git fails.
    """
    if not IN_CHECKOUT:  # site-packages may lie inside an unrelated repository
        return None
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        command = ["git", "-C", str(PROJECT), *arguments]
        return subprocess.run(
            command, capture_output=True, timeout=GIT_SECONDS, check=True, env=env
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def committed_blobs(commit: str, paths: Sequence[str]) -> dict[str, str] | None:
    """Return the path and blob id of each file of a commit below `paths`.

    Returns None if the git repository does not have the commit.
    """
    listed = run_git("ls-tree", "-r", "-z", commit, "--", *paths)
    if listed is None:
        return None
    blobs = {}
    for entry in filter(None, listed.split(b"\0")):
        facts, _, path = entry.partition(b"\t")
        blobs[os.fsdecode(path)] = facts.split()[2].decode()
    return blobs


def _text(*arguments: str) -> str | None:
    found = run_git(*arguments)
    return None if found is None else found.decode(errors="replace").strip()
