"""What installs packages: uv, in a fifth of pip's time (docs/environments.md), by pip's own settings.

python -m suite.environments.installer WORDS        installs what they name into this Python, and nothing else
"""

from __future__ import annotations

import ast
import os
import sys

import uv

from suite.environments.answers import answer

INDEXES = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
VARIABLES = {
    "find-links": "UV_FIND_LINKS", "trusted-host": "UV_INSECURE_HOST", "cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
}  # fmt: skip
"""uv's, by pip's settings, of which uv reads none (docs.astral.sh/uv/pip/compatibility). Both list several with spaces, but
for links."""


def install(python: str, *words: str) -> tuple[list[str], dict[str, str]]:
    """The command that installs into a Python what the words name, without what that depends on, and its variables: what pip
    is told in its files and in `PIP_…`, where uv's own say nothing else."""
    told = _settings()
    closed = told.get("no-index", "").lower() in ("1", "true", "yes", "on")
    handed = VARIABLES if closed else {**VARIABLES, **INDEXES}
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # the best of all indexes, as pip has it
    for name in handed.keys() & told.keys():
        found[handed[name]] = ("," if name == "find-links" else " ").join(told[name].split())
    options = ["--quiet", "--no-deps", *(["--no-index"] if closed else [])]
    command = [uv.find_uv_bin(), "pip", "install", "--python", python, *options, *words]
    return command, {name: value for name, value in found.items() if name not in os.environ}


def _settings() -> dict[str, str]:
    """pip's, by name; variables before its files, `[install]` there before `[global]`."""
    said = answer([sys.executable, "-m", "pip", "config", "list"]).out.splitlines()
    lines = [line.partition("=") for line in said]
    return {
        name.removeprefix(kind): ast.literal_eval(value)
        for kind in ("global.", "install.", ":env:.")
        for name, _, value in lines
        if name.startswith(kind)
    }


def main() -> None:
    """Become uv."""
    command, variables = install(sys.executable, *sys.argv[1:])
    os.execve(command[0], command, {**os.environ, **variables})


if __name__ == "__main__":
    main()
