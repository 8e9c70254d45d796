"""What installs packages: uv, in a fifth of pip's time (docs/environments.md), by pip's own settings.

python -m suite.environments.installer WORDS        installs what they name into this Python, and nothing else
"""

from __future__ import annotations

import ast
import os
import sys

import uv

from suite.environments.answers import answer

VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS", "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST", "cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY", "timeout": "UV_HTTP_TIMEOUT",
}  # fmt: skip
"""uv's, by pip's settings, of which uv reads none (docs.astral.sh/uv/pip/compatibility). Both list several with spaces, but
for links."""


def command(python: str, *words: str) -> list[str]:
    """What installs into a Python what the words name, without what that depends on."""
    return [uv.find_uv_bin(), "pip", "install", "--python", python, "--quiet", "--no-deps", *words]


def variables() -> dict[str, str]:
    """Of uv: what pip is told in its files and in `PIP_…`, where uv's own say nothing else."""
    told = answer([sys.executable, "-m", "pip", "config", "list"]).out.splitlines()
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # the best of all indexes, as pip has it
    for kind in ("global.", "install.", ":env:."):
        for line in told:
            name, _, value = line.partition("=")
            if name.startswith(kind) and name.removeprefix(kind) in VARIABLES:
                several = ast.literal_eval(value).split()
                between = "," if name.endswith("find-links") else " "
                found[VARIABLES[name.removeprefix(kind)]] = between.join(several)
    return {name: value for name, value in found.items() if name not in os.environ}


def main() -> None:
    """Become uv."""
    words = command(sys.executable, *sys.argv[1:])
    os.execve(words[0], words, {**os.environ, **variables()})


if __name__ == "__main__":
    main()
