"""What the Tab key offers: the commands of `suite`, keys of a run, and for a key its values.

`eval "$(python run_suite.py -sc install=bash)"` switches it on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from suite.common import conf, registry
from suite.common.typed import COMMANDS, run_command
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
"""What bash evaluates once; files where nothing is offered."""


def completion(asked: Sequence[str]) -> str:
    """What `--shell-completion` prints for `install=bash`, or for the `query=bash` of what that installs."""
    if list(asked) == ["query=bash"]:
        return " ".join(completions())
    if list(asked) == ["install=bash"]:
        return INSTALL.format(command=run_command())
    raise ValueError(
        '--shell-completion: type eval "$(python run_suite.py -sc install=bash)"; zsh: bashcompinit before it'
    )


def completions(variables: Mapping[str, str] = os.environ) -> list[str]:
    """The words that the last one of bash's COMP_LINE may become."""
    words = variables.get("COMP_LINE", "").split(" ")
    if len(words) == 2 and Path(words[0]).name == "suite":
        return [name for name in COMMANDS.split("|") if name.startswith(words[1])]
    folder = next((Path(after) for word, after in pairwise(words) if word == "--config-dir"), None)
    if folder is not None and folder.is_dir():
        conf.search([folder])
    chosen = dict(word.partition("=")[::2] for word in words if "=" in word)
    workload = chosen.get("workload", "")
    known: dict[str, Any] = keys.suite_keys() | {"workload.hyperparameter_set": None, "workload.dataset": None}
    if workload in registry.names(registry.WORKLOADS):
        known = keys.suite_keys() | keys.workload_keys(workload)
    else:
        workload = ""
    names = [*keys.GROUPS, "study", "study.size", *known]
    key, equals, _ = words[-1].partition("=")
    offered = [f"{key}={value}" for value in keys.choices(key, known.get(key), workload)] if equals else []
    offered = offered or [f"{name}=" for name in names if not equals]
    return [word for word in offered if word.startswith(words[-1])]
