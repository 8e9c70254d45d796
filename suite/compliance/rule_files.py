"""mlperf-logging's checkers, restricted to certain rule files.

Allowed are the rule files of that package and of folders that the caller names. Its rule files are
code, and some choose the next rule file by a value in the log. Every use of that checker goes
through this module, so that text of a log cannot name a file in a different folder.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from logging.handlers import BufferingHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

NO_RULES_MESSAGE = "Could not find config file:"
"""Beginning of the message about a log that needs rules that do not exist.

The text is that of mlperf-logging's checker.
"""
_PARSERS = "mlperf_logging.compliance_checker.mlp_parser"


@functools.lru_cache(maxsize=64)
def parse_rules(text: str) -> Any:
    """Return a rule file as lists, objects, and texts, for reading only. Raises yaml.YAMLError.

    The result is cached: parsing in Python takes 0.1 s, ten times as long as checking a log.
    """
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


_CACHED_YAML = SimpleNamespace(
    BaseLoader=yaml.BaseLoader, load=lambda stream, Loader: parse_rules(stream.read())
)
"""Replaces the module `yaml` in the checker, which would parse a rule file again for every log."""


def restricted_checker(
    ruleset: str, folders: Sequence[Path] = (), quiet: bool = False, werror: bool = False
) -> Any:
    """Return a compliance checker that opens only rule files of mlperf-logging and in `folders`.

    A rule file may continue with a rule file of a different ruleset:
    `training_4.0.0/closed_resnet.yaml` names files of `training_3.1.0`. Every rule file in the
    installed package is therefore allowed.

    Args:
        ruleset: Ruleset of mlperf-logging, such as `0.7.0`. It selects the parser's line type.
        folders: Further folders of rule files, as resolved paths.
        quiet: Drop warnings.
        werror: Treat warnings as errors.
    """
    from mlperf_logging.compliance_checker import mlp_compliance

    package_folder = Path(mlp_compliance.__file__).resolve().parent
    mlp_compliance.yaml = _CACHED_YAML
    mlp_compliance.enqueued_configs.clear()  # A check that stopped early does not clear its queue.

    class Checker(mlp_compliance.ComplianceChecker):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self.missing_rules_messages: list[str] = []
            """Messages about rules that the log needs and that do not exist."""
            super().__init__(*arguments, **options)

        def configured_checks(self, loglines: Sequence[Any], config_file: str) -> None:
            file = Path(config_file).resolve()
            is_packaged = file.parent.parent == package_folder and file.suffix == ".yaml"
            if (is_packaged or file.parent in folders) and file.is_file():
                super().configured_checks(loglines, str(file))
            else:
                message = f"{NO_RULES_MESSAGE} {file.name}"
                self.missing_rules_messages.append(message)
                self.put_message(message)

    return Checker("training", ruleset, quiet=quiet, werror=werror)


@functools.cache
def line_type(ruleset: str) -> Any:
    """Return the type of the lines that a ruleset's rule files receive.

    It is a tuple up to 3.0.0, and a dataclass from 3.1.0 on.
    """
    return importlib.import_module(f"{_PARSERS}.ruleset_{ruleset.replace('.', '')}").LogLine


@contextlib.contextmanager
def restricted_package_checker() -> Iterator[Any]:
    """Context with mlperf-logging's package checker, which uses restricted compliance checkers."""
    from mlperf_logging.compliance_checker import mlp_compliance
    from mlperf_logging.package_checker import package_checker

    def make(usage: str, ruleset: str, quiet: bool, werror: bool) -> Any:
        return restricted_checker(ruleset, quiet=quiet, werror=werror)

    original: Callable[..., Any] = mlp_compliance.make_checker
    mlp_compliance.make_checker = make
    try:
        yield package_checker
    finally:
        mlp_compliance.make_checker = original


@contextlib.contextmanager
def captured_messages() -> Iterator[list[logging.LogRecord]]:
    """Context that collects the checkers' warnings and errors.

    Without a handler, the root logger would print them.
    """
    root, handler = logging.getLogger(), BufferingHandler(capacity=sys.maxsize)
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
    try:
        yield handler.buffer
    finally:
        root.removeHandler(handler)
