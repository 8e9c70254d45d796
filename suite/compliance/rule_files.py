"""mlperf-logging's checker, kept to rule files of known folders.

Its rule files are code, and some name the next rule file after a value of the log. So that text of a log can name no file
elsewhere, every use of that checker goes through here.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import yaml

NO_RULES = "Could not find config file:"
"""How the checker's message begins when a log asks for rules that do not exist."""


@functools.lru_cache(maxsize=64)
def parse_rules(text: str) -> Any:
    """A rule file as plain lists, objects and texts, for reading only. Raises yaml.YAMLError.

    Parsed once: in Python that takes 0.1 s, ten times as long as to check a log by the rules.
    """
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


class _Yaml:
    """Stands for the module `yaml` in the checker, which parses each rule file again for every log."""

    BaseLoader = yaml.BaseLoader

    @staticmethod
    def load(stream: IO[str], Loader: object) -> Any:
        """What is in a rule file."""
        return parse_rules(stream.read())


def checker(ruleset: str, folders: Sequence[Path] = (), quiet: bool = False, werror: bool = False) -> Any:
    """A compliance checker that opens rule files of its own ruleset's folder and of `folders` (resolved) alone."""
    from mlperf_logging.compliance_checker import mlp_compliance

    allowed = [Path(mlp_compliance.__file__).resolve().parent / f"training_{ruleset}", *folders]
    mlp_compliance.yaml = _Yaml
    mlp_compliance.enqueued_configs.clear()  # a check that stopped early leaves its queue behind

    class Checker(mlp_compliance.ComplianceChecker):  # type: ignore[misc]
        def configured_checks(self, loglines: Sequence[Any], config_file: str) -> None:
            file = Path(config_file).resolve()
            if file.parent in allowed and file.is_file():
                super().configured_checks(loglines, str(file))
            else:
                self.put_message(f"{NO_RULES} {file.name}")

    return Checker("training", ruleset, quiet=quiet, werror=werror)


@contextlib.contextmanager
def guarded_package_checker() -> Iterator[Any]:
    """The module `mlperf_logging.package_checker.package_checker`; inside, the checkers that it makes are ours."""
    from mlperf_logging.compliance_checker import mlp_compliance
    from mlperf_logging.package_checker import package_checker

    def make(usage: str, ruleset: str, quiet: bool, werror: bool) -> Any:
        return checker(ruleset, quiet=quiet, werror=werror)

    original: Callable[..., Any] = mlp_compliance.make_checker
    mlp_compliance.make_checker = make
    try:
        yield package_checker
    finally:
        mlp_compliance.make_checker = original


class _Keeper(logging.Handler):
    """Keeps what is logged from warnings on, and prints nothing."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        self.records.append(record)


@contextlib.contextmanager
def kept_messages() -> Iterator[list[logging.LogRecord]]:
    """What the checkers log from warnings on; without a handler their use of the root logger would install one that prints."""
    root, keeper = logging.getLogger(), _Keeper()
    root.addHandler(keeper)
    try:
        yield keeper.records
    finally:
        root.removeHandler(keeper)
