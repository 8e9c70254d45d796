"""Reads YAML files of the user: settings, hyperparameter sets, studies, descriptions of systems.

A file is limited in size and read by PyYAML's safe loader, which builds plain values only. In
addition, the loader refuses a key that occurs twice, and aliases that expand to a huge content.
Error messages name the file and the line. PyYAML is imported when the first file is read, because
workers do not use it.
"""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads import files

if TYPE_CHECKING:
    import yaml

MAX_BYTES = 1 << 18
"""Size limit of a file in bytes. PyYAML's loader in Python reads this in a few seconds."""
MAX_ALIASED = 10_000
"""Largest number of values that the aliases of a file may add to the values that are written out.

Each alias (`*NAME`) costs a few bytes, but repeats a whole list or mapping. Aliases of lists of
aliases multiply, so that 1 kB would expand to billions of values as soon as the content is copied,
for example by OmegaConf.
"""
_MAX_SHOWN = 40
"""Characters of a value that a message repeats."""
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that `"\\e"` and similar escapes put into a string, and that control a terminal."""


def read_yaml(path: Path) -> Any:
    """Return the content of a file, or None if it is empty.

    Raises:
        ValueError: The file is not UTF-8 or not YAML, as `FILE: line N: PROBLEM`.
        OSError: The file cannot be read, or is larger than `MAX_BYTES`.
    """
    return parse_yaml(read_text(path), path)


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises ValueError if it is not UTF-8, OSError if it is unreadable or too large.
    """
    return files.read_text(path, limit_bytes=MAX_BYTES)


def parse_yaml(text: str, path: Path, allow_duplicate_keys: bool = False) -> Any:
    """Return the content of a text, or None if it is empty. Messages name the file `path`.

    Raises:
        ValueError: The text is not YAML, as `FILE: line N: PROBLEM`.
    """
    import yaml

    if unprintable := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, unprintable.start()) + 1
        code = ord(unprintable.group())
        raise ValueError(f"{path}: line {line}: the character U+{code:04X} is not allowed in YAML")
    try:
        return yaml.load(text, Loader=_loader(allow_duplicate_keys))
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"{path}: {_error_text(error, text)}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"{path}: lists or mappings are nested too deeply") from None


def as_number(value: Any) -> Any:
    """Return `1e-8`, which is a string in YAML 1.1, as a float.

    Return any other value unchanged.
    """
    return (
        float(value)
        if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value)
        else value
    )


@functools.cache
def _loader(allow_duplicate_keys: bool) -> type[yaml.SafeLoader]:
    """Return the loader class.

    It uses the loader in Python, because the loader in C crashes on 100,000 nested lists.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML's safe loader, with a line number in every error.

        It refuses duplicate keys and control characters.
        """

        def get_single_node(self) -> yaml.Node | None:
            root = super().get_single_node()
            if root is not None:
                _check_aliases(root)
            return root

        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, OverflowError, LookupError) as error:  # `2001-02-31`, `!!int a`
                problem = f"{str(node.value)[:_MAX_SHOWN]}: {error}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None

        def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
            value = super().construct_scalar(node)
            if isinstance(value, str) and (control := _CONTROL_CHARACTER.search(value)):
                problem = (
                    f"the control character U+{ord(control.group()):04X} is not allowed in a string"
                )
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
            return value

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = set[str]()
            for key, _ in node.value:
                if (
                    isinstance(key, yaml.ScalarNode)
                    and key.value in keys
                    and not allow_duplicate_keys
                ):
                    problem = f"the key {key.value[:_MAX_SHOWN]} occurs twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                keys.add(str(key.value))
            return super().construct_mapping(node, deep)

    return Loader


def _check_aliases(root: yaml.Node) -> None:
    """Raise MarkedYAMLError if the aliases below a node add more than `MAX_ALIASED` values.

    An alias that contains itself raises the same error.
    """
    import yaml

    sizes: dict[int, int | None] = {}
    """Number of values in each list and mapping, aliases expanded, by the id of the node.

    None: the count is in progress.
    """
    written = 0
    """Number of values so far, aliases not expanded."""

    def expanded_size(node: yaml.Node) -> int:
        nonlocal written
        if not isinstance(node, yaml.CollectionNode):
            written += 1
            return 1
        if id(node) in sizes:
            counted_size = sizes[id(node)]
            if counted_size is None:
                raise yaml.MarkedYAMLError(
                    problem="an alias contains itself", problem_mark=node.start_mark
                )
            return counted_size
        sizes[id(node)] = None
        written += 1
        size = 1
        for item in (
            node.value
            if isinstance(node, yaml.SequenceNode)
            else itertools.chain.from_iterable(node.value)
        ):
            size += expanded_size(item)
            if size - written > MAX_ALIASED:
                problem = (
                    f"aliases (*NAME) repeat more than {MAX_ALIASED:,} values. Write fewer aliases"
                )
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        sizes[id(node)] = size
        return size

    expanded_size(root)


def _error_text(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return an error of the parser in one line.

    The text contains the line number, the problem, and the line where the unfinished part begins.
    """
    mark, start = error.problem_mark or error.context_mark, error.context_mark
    if mark is None:
        return " ".join(str(error).split())
    problem, lines = " ".join(str(error.problem or error.context).split()), text.splitlines()
    if mark.line < len(lines) and "\t" in lines[mark.line][: mark.column + 1]:
        problem = f"a tab; indent with spaces ({problem})"
    if start is not None and error.problem and error.context and start.line != mark.line:
        problem = f"{problem}, {error.context} that begins in line {start.line + 1}"
    return f"line {mark.line + 1}: {problem}"
