"""Install packages with uv, using the settings of pip.

uv needs 20 % of the time that pip needs (docs/how-to/install_and_environments.md).

`python -m suite.environments.installer ARGUMENTS` installs the packages in ARGUMENTS into the
current Python environment, without dependencies.
"""

from __future__ import annotations

import ast
import os
import sys

import uv

from suite.environments.captured_command import captured

INDEXES = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
VARIABLES = {
    "find-links": "UV_FIND_LINKS", "trusted-host": "UV_INSECURE_HOST", "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY", "timeout": "UV_HTTP_TIMEOUT",
}  # fmt: skip
"""Maps a setting of pip to the equivalent environment variable of uv. uv does not read pip's
settings (docs.astral.sh/uv/pip/compatibility). pip and uv separate several values by spaces,
except that uv separates links by commas.
"""


def install(python: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that installs packages without dependencies, and its variables.

    The environment variables contain the settings from pip's configuration files and from `PIP_…`
    variables. If the user has already set a variable of uv, the user's value takes precedence.

    Args:
        python: Interpreter into whose environment the packages are installed.
        arguments: Arguments of `uv pip install`: requirements, files, and options.

    Returns:
        The command line, and the environment variables to add.
    """
    settings = _settings()
    no_index = settings.get("no-index", "").lower() in ("1", "true", "yes", "on")
    variable_names = VARIABLES if no_index else {**VARIABLES, **INDEXES}
    # With this strategy, uv chooses the best version from all indexes, as pip does.
    env = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name in variable_names.keys() & settings.keys():
        env[variable_names[name]] = ("," if name == "find-links" else " ").join(
            settings[name].split()
        )
    options = ["--quiet", "--no-deps", *(["--no-index"] if no_index else [])]
    command = [uv.find_uv_bin(), "pip", "install", "--python", python, *options, *arguments]
    return command, {name: value for name, value in env.items() if name not in os.environ}


def _settings() -> dict[str, str]:
    """Return the settings of pip by name.

    Environment variables override configuration files. In a configuration file, the section
    `[install]` overrides `[global]`.
    """
    output = captured([sys.executable, "-m", "pip", "config", "list"]).out.splitlines()
    lines = [line.partition("=") for line in output]
    return {
        name.removeprefix(kind): ast.literal_eval(value)
        for kind in ("global.", "install.", ":env:.")
        for name, _, value in lines
        if name.startswith(kind)
    }


def main() -> None:
    """Replace this process with a uv process."""
    command, env = install(sys.executable, *sys.argv[1:])
    os.execve(command[0], command, {**os.environ, **env})


if __name__ == "__main__":
    main()
