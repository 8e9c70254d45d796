"""Folders of a results repository, from a work tree or from a git directory without one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from suite.results.entry import SCALING_FILE, is_submission_log


def is_git_directory(path: Path) -> bool:
    """Check whether a path is a git directory, such as a bare clone."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir()


def is_needed(path: PurePosixPath) -> bool:
    """Check whether a file is a log, a scaling factor, or a system description."""
    is_result = "results" in path.parts and (
        is_submission_log(path.name) or path.name == SCALING_FILE
    )
    return is_result or (path.parent.name == "systems" and path.suffix == ".json")


def write_files(git_directory: Path, folder: Path) -> list[str]:
    """Write the needed files of the newest commit below a folder.

    Returns:
        The paths of the files whose content the git directory does not hold.

    Raises:
        ValueError: git cannot read the directory.
    """
    listed = [(sha, path) for sha, path in _listed_files(git_directory) if is_needed(path)]
    missing = []
    with subprocess.Popen(
        ["git", "-C", str(git_directory), "cat-file", "--batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for sha, path in listed:
            process.stdin.write(f"{sha}\n".encode())
            process.stdin.flush()
            header = process.stdout.readline().split()
            if len(header) != 3:  # `SHA missing`
                missing.append(str(path))
                continue
            content = process.stdout.read(int(header[2]))
            process.stdout.read(1)  # the line end after the content
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        process.stdin.close()
    return missing


def _listed_files(git_directory: Path) -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the hash and the path of each file of the newest commit."""
    command = ["git", "-C", str(git_directory), "ls-tree", "-r", "-z", "HEAD"]
    done = subprocess.run(command, capture_output=True, env=_environment(), check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise ValueError(f"{git_directory}: git cannot list the files ({reason})")
    for line in done.stdout.decode(errors="surrogateescape").split("\0"):
        facts, tab, name = line.partition("\t")
        path = PurePosixPath(name)
        if tab and facts.split()[1] == "blob" and ".." not in path.parts:
            yield facts.split()[2], path


def _environment() -> dict[str, str]:
    """Return the environment of git: a partial clone must not fetch missing files."""
    return {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
