"""Tab completion for the commands of `suite`, the keys of a run, and the values of a key.

`eval "$(python run_suite.py -sc install=bash)"` enables it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from suite.common import conf, registry
from suite.common.command_text import COMMANDS, run_command
from suite.config import keys

INSTALL = """_suite() {{
  case "$COMP_LINE" in
    *run_suite.py\\ *|*suite\\ run\\ *) COMPREPLY=($(COMP_LINE="${{COMP_LINE:0:$COMP_POINT}}" {command} -sc query=bash)) ;;
    *suite\\ *\\ *) COMPREPLY=() ;;
    suite\\ *|.venv/bin/suite\\ *) COMPREPLY=($(COMP_LINE="${{COMP_LINE:0:$COMP_POINT}}" {command} -sc query=bash)) ;;
    *) COMPREPLY=() ;;
  esac
}}
COMP_WORDBREAKS=${{COMP_WORDBREAKS//=}}
complete -o nospace -o default -o bashdefault -F _suite python python3 run_suite.py suite"""
"""Script that bash evaluates to enable completion. If the suite offers no completion, bash completes file names."""


def completion(asked: Sequence[str]) -> str:
    """Return the text that `--shell-completion` prints.

    Args:
        asked: `install=bash` for the script that enables completion, or `query=bash`, which that script calls.

    Raises:
        ValueError: The arguments are different from these.
    """
    if list(asked) == ["query=bash"]:
        return " ".join(completions())
    if list(asked) == ["install=bash"]:
        return INSTALL.format(command=run_command())
    raise ValueError(
        '--shell-completion: run: eval "$(python run_suite.py -sc install=bash)". In zsh, run bashcompinit first'
    )


def completions(env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the completions of the last word of the line in bash's variable COMP_LINE."""
    words = env.get("COMP_LINE", "").split(" ")
    if len(words) == 2 and Path(words[0]).name == "suite":
        return [name for name in COMMANDS.split("|") if name.startswith(words[1])]
    folder = next((Path(after) for word, after in pairwise(words) if word == "--config-dir"), None)
    if folder is not None and folder.is_dir():
        conf.search([folder])
    chosen = dict(word.partition("=")[::2] for word in words if "=" in word)
    workload = chosen.get("workload", "")
    available_keys: dict[str, Any] = keys.suite_keys() | {"workload.hyperparameter_set": None, "workload.dataset": None}
    if workload in registry.names(registry.WORKLOADS):
        available_keys = keys.suite_keys() | keys.workload_keys(workload)
    else:
        workload = ""
    names = [*keys.GROUPS, "study", "study.size", *available_keys]
    key, equals, _ = words[-1].partition("=")
    offered = [f"{key}={value}" for value in keys.choices(key, available_keys.get(key), workload)] if equals else []
    offered = offered or [f"{name}=" for name in names if not equals]
    return [word for word in offered if word.startswith(words[-1])]
