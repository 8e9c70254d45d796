"""What a command line asks to be printed, where nothing has to be composed: Hydra is half of the time of a start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from suite.common.typed import as_typed

_WORD = re.compile(r"(workload|framework|profile)=([\w-]+)")
"""Beside `--help` alone: what changes the text, with one name as its value."""


def answer(arguments: Sequence[str]) -> str | None:
    """The text for the Tab key, or for `--help` with nothing but names beside it; None: compose. Raises ValueError."""
    if len(arguments) == 2 and arguments[0] in ("-sc", "--shell-completion"):
        from suite.config.complete import completion

        return completion(arguments[1:])
    words = [_WORD.fullmatch(word) for word in arguments if word not in ("--help", "-h")]
    if len(words) == len(arguments) or not all(words) or _plugins_of_the_file():
        return None
    from suite.config.help import help_text

    return as_typed(help_text({word[1]: (word[2],) for word in words if word}))


def _plugins_of_the_file() -> bool:
    """Whether conf/config.yaml names plugins, which bring workloads."""
    from suite.common.conf import CONF
    from workloads.api.yaml_files import read_yaml

    return bool(read_yaml(CONF / "config.yaml").get("plugins"))
