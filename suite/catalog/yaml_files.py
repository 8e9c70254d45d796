"""Read YAML files of users: settings, hyperparameter sets, studies, and systems.

PyYAML's safe loader reads the files and builds only plain values. The size of a file is limited.
The loader also rejects duplicate keys, and aliases that expand to very large content. Error
messages contain the file name and the line number. PyYAML is only imported when the first file is
read, because workers do not need PyYAML.
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
"""Maximum size of a file in bytes. PyYAML's pure-Python loader reads a file of this size in a few
seconds.
"""
MAX_ALIASED = 10_000
"""Maximum number of additional values to which the aliases in a file may expand.

Each alias (`*NAME`) repeats a whole list or mapping but needs only a few bytes in the file. The
sizes of nested aliases multiply. Without `MAX_ALIASED`, 1 kB of YAML could expand to billions of
values when the content is copied, for example by OmegaConf.
"""
_MAX_SHOWN = 40
"""Maximum number of characters of an invalid value that an error message shows."""
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
r"""Control characters that YAML escapes such as `"\e"` can put into a string. Printed control
characters would control the terminal.
"""


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file, or None if the file is empty.

    Raises:
        ValueError: The file is not UTF-8 or not YAML. The message has the form `FILE: line N:
            PROBLEM`.
        OSError: The file cannot be read, or is larger than `MAX_BYTES`.
    """
    return parse_yaml(read_text(path), path)


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises ValueError if the file is not UTF-8. Raises OSError if the file is unreadable or too
    large.
    """
    return files.read_text(path, limit_bytes=MAX_BYTES)


def parse_yaml(text: str, path: Path, allow_duplicate_keys: bool = False) -> Any:
    """Return the content of a YAML text, or None if the text is empty.

    Error messages contain the name of the file `path`.

    Raises:
        ValueError: The text is not YAML. The message has the form `FILE: line N: PROBLEM`.
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
    """Convert a string such as `1e-8` to a float, and return all other values unchanged.

    YAML 1.1 reads `1e-8` as a string.
    """
    return (
        float(value)
        if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value)
        else value
    )


@functools.cache
def _loader(allow_duplicate_keys: bool) -> type[yaml.SafeLoader]:
    """Return the YAML loader class.

    The class is based on PyYAML's pure-Python loader, because the C loader crashes on 100,000
    nested lists.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML's safe loader with a line number in every error message.

        The loader rejects duplicate keys and control characters.
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
    """Raise MarkedYAMLError if aliases below a node add more than `MAX_ALIASED` values.

    MarkedYAMLError is also raised for an alias that contains itself.
    """
    import yaml

    sizes: dict[int, int | None] = {}
    """Maps the id of each list or mapping node to its number of values, with aliases expanded.

    None marks a node whose values are still being counted.
    """
    written = 0
    """Number of values that were visited, without expanding aliases."""

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
    """Format a YAML parser error as a single line.

    The line contains the line number, the problem, and the number of the line on which the
    unfinished list, mapping, or string begins.
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
