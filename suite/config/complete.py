"""Tab completion for `suite` commands, configuration keys, and values of keys.

The command `eval "$(python run_suite.py -sc install=bash)"` enables tab completion.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from suite.common import conf, registry
from suite.common.command_text import COMMANDS, run_command
from suite.config import key_suggestions

INSTALL = """_suite() {{
  case "$COMP_LINE" in
    *run_suite.py\\ *|*suite\\ run\\ *)
      COMPREPLY=($(COMP_LINE="${{COMP_LINE:0:$COMP_POINT}}" {command} -sc query=bash)) ;;
    *suite\\ *\\ *) COMPREPLY=() ;;
    suite\\ *|.venv/bin/suite\\ *)
      COMPREPLY=($(COMP_LINE="${{COMP_LINE:0:$COMP_POINT}}" {command} -sc query=bash)) ;;
    *) COMPREPLY=() ;;
  esac
}}
COMP_WORDBREAKS=${{COMP_WORDBREAKS//=}}
complete -o nospace -o default -o bashdefault -F _suite python python3 run_suite.py suite"""
"""Script that bash evaluates to enable tab completion.

If the suite returns no completions, bash completes file names.
"""


def completion(asked: Sequence[str]) -> str:
    """Return the text that `--shell-completion` prints.

    Args:
        asked: `install=bash` for the script that enables completion, or `query=bash`, with which
            the script requests completions.

    Raises:
        ValueError: The arguments are neither `install=bash` nor `query=bash`.
    """
    if list(asked) == ["query=bash"]:
        return " ".join(completions())
    if list(asked) == ["install=bash"]:
        return INSTALL.format(command=run_command())
    raise ValueError(
        '--shell-completion: run: eval "$(python run_suite.py -sc install=bash)". In zsh, run'
        " bashcompinit first"
    )


def completions(env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the completions of the last word in COMP_LINE, bash's current command line."""
    arguments = env.get("COMP_LINE", "").split(" ")
    if len(arguments) == 2 and Path(arguments[0]).name == "suite":
        return [name for name in COMMANDS.split("|") if name.startswith(arguments[1])]
    folder = next(
        (Path(after) for word, after in pairwise(arguments) if word == "--config-dir"), None
    )
    if folder is not None and folder.is_dir():
        conf.search([folder])
    chosen = dict(word.partition("=")[::2] for word in arguments if "=" in word)
    workload = chosen.get("workload", "")
    available_keys: dict[str, Any] = key_suggestions.suite_keys() | {
        "workload.hyperparameter_set": None,
        "workload.dataset": None,
    }
    if workload in registry.names(registry.WORKLOADS):
        available_keys = key_suggestions.suite_keys() | key_suggestions.workload_keys(workload)
    else:
        workload = ""
    names = [*key_suggestions.GROUPS, "study", "study.size", *available_keys]
    key, equals, _ = arguments[-1].partition("=")
    offered = (
        [
            f"{key}={value}"
            for value in key_suggestions.choices(key, available_keys.get(key), workload)
        ]
        if equals
        else []
    )
    offered = offered or [f"{name}=" for name in names if not equals]
    return [word for word in offered if word.startswith(arguments[-1])]
