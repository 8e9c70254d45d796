"""Answer command lines that only print text, without importing Hydra.

Importing Hydra takes half of the start-up time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from suite.common.command_text import localize_commands

_WORD = re.compile(r"(workload|framework|profile)=([\w-]+)")
"""Pattern of an override that changes the help text, such as `workload=ncf`."""


def answer(arguments: Sequence[str]) -> str | None:
    """Return the text for tab completion or `--help`.

    `--help` may be combined with overrides that match `_WORD`.

    Returns:
        The text, or None if the command line needs Hydra.

    Raises:
        ValueError: The arguments of `--shell-completion` are invalid.
    """
    if len(arguments) == 2 and arguments[0] in ("-sc", "--shell-completion"):
        from suite.config.complete import completion

        return completion(arguments[1:])
    matches = [_WORD.fullmatch(word) for word in arguments if word not in ("--help", "-h")]
    if len(matches) == len(arguments) or not all(matches) or _plugins_of_the_file():
        return None
    from suite.config.help import help_text

    return localize_commands(help_text({word[1]: (word[2],) for word in matches if word}))


def _plugins_of_the_file() -> bool:
    """Check whether conf/config.yaml lists plugins, because plugins may define workloads."""
    from suite.catalog.yaml_files import read_yaml
    from suite.common.conf import CONF

    return bool(read_yaml(CONF / "config.yaml").get("plugins"))
