"""mlperf-logging's checkers, restricted to allowed rule files.

The allowed rule files are the rule files of mlperf-logging and the rule files in folders that the
caller names. Rule files of mlperf-logging contain code, and some rule files select the next rule
file by a value in the log. Every use of the checkers must go through this module, so that a log
cannot select a file in any other folder.
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
"""Beginning of the checker's message about a log for which no rules exist.

The string is copied from mlperf-logging's checker.
"""
_PARSERS = "mlperf_logging.compliance_checker.mlp_parser"


@functools.lru_cache(maxsize=64)
def parse_rules(text: str) -> Any:
    """Parse a rule file to lists, objects, and strings. Raise yaml.YAMLError if invalid.

    Callers must not modify the returned object, because it is cached. Parsing a rule file takes 0.1
    s in Python, ten times as long as checking a log.
    """
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


_CACHED_YAML = SimpleNamespace(
    BaseLoader=yaml.BaseLoader, load=lambda stream, Loader: parse_rules(stream.read())
)
"""Replacement for the `yaml` module in the checker. Without the replacement, the checker would
parse a rule file again for every log.
"""


def restricted_checker(
    ruleset: str, folders: Sequence[Path] = (), quiet: bool = False, werror: bool = False
) -> Any:
    """Return a compliance checker that opens only allowed rule files.

    Allowed are all rule files of the installed mlperf-logging and the rule files in `folders`. A
    rule file may include rule files of other rulesets. For example,
    `training_4.0.0/closed_resnet.yaml` names files of `training_3.1.0`.

    Args:
        ruleset: Ruleset of mlperf-logging, such as `0.7.0`. The ruleset determines the class of the
            parsed log lines.
        folders: Additional folders of rule files, as resolved paths.
        quiet: Drop warnings.
        werror: Treat warnings as errors.
    """
    from mlperf_logging.compliance_checker import mlp_compliance

    package_folder = Path(mlp_compliance.__file__).resolve().parent
    mlp_compliance.yaml = _CACHED_YAML
    # Clear the queue first, because a check that stopped with an error leaves rule files in the
    # queue.
    mlp_compliance.enqueued_configs.clear()

    class Checker(mlp_compliance.ComplianceChecker):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self.missing_rules_messages: list[str] = []
            """Messages about rules that the checker needs for the log but that do not exist."""
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
    """Return the type of log lines in a ruleset's rule files.

    The type is a tuple class in rulesets up to 3.0.0, and a dataclass in later rulesets.
    """
    return importlib.import_module(f"{_PARSERS}.ruleset_{ruleset.replace('.', '')}").LogLine


@contextlib.contextmanager
def restricted_package_checker() -> Iterator[Any]:
    """Provide mlperf-logging's submission package checker with restricted compliance checkers."""
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
    """Collect the checkers' warnings and errors in a list.

    Without this logging handler, the root logger would print the warnings and errors.
    """
    root, handler = logging.getLogger(), BufferingHandler(capacity=sys.maxsize)
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
    try:
        yield handler.buffer
    finally:
        root.removeHandler(handler)
