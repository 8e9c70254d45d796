"""Find the rules for `suite check --rules`, and open the rules for the compliance checker."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite.catalog.yaml_files import parse_yaml, read_text
from suite.common.paths import expand_user, real_path
from suite.compliance import generated_rules, rule_files, rulesets
from suite.compliance.rulesets import Ruleset

RULESET = rulesets.DEFAULT


def find_rules(name: str) -> Ruleset:
    """Return the rules that `--rules` selects.

    `name` is a ruleset, the name of generated rules, or the path of a rule file.

    Raises:
        ValueError: The rules do not exist, or the file is not a rule file.
    """
    ruleset = name.removeprefix("training_").removeprefix("v")
    if ruleset in rulesets.installed():
        return Ruleset(ruleset)
    if name in generated_rules.NAMES:
        return Ruleset(RULESET, generated=name)
    path = real_path(expand_user(name))
    if not path.is_file():
        names = ", ".join([*generated_rules.NAMES, *rulesets.installed()])
        raise ValueError(
            f"--rules {name}: no such rules, allowed: {names}, or the path of a rule file"
        )
    rule_entries(path)
    return Ruleset(RULESET, path)


@contextlib.contextmanager
def open_rules(rules: Ruleset) -> Iterator[Path]:
    """Provide the path of the rule file for the compliance checker.

    Generated rules are written to a temporary folder that only the current user can change. The
    temporary folder is removed at the end of the `with` block.
    """
    if not rules.generated:
        yield rules.file or Path(f"training_{rules.ruleset}", "common.yaml")
        return
    with tempfile.TemporaryDirectory(prefix="suite_rules_") as folder:
        path = real_path(Path(folder)) / f"{rules.generated}.yaml"
        path.write_text(generated_rules.rule_text(rules.generated), encoding="utf-8")
        yield path


def hints(rules: Ruleset) -> dict[str, Mapping[str, Any]]:
    """Map each log key to its rule, which may contain NEEDS and DO.

    The mapping is empty for rules of mlperf-logging.
    """
    entries: Sequence[Mapping[str, Any]] = rule_entries(rules.file) if rules.file else ()
    if rules.generated:
        entries = generated_rules.rule_entries(rules.generated)
    return {entry["KEY"]["NAME"]: entry["KEY"] for entry in entries if "KEY" in entry}


def rule_entries(path: Path) -> list[Mapping[str, Any]]:
    """Return the entries of a YAML rule file as strings.

    Only the checker executes the Python code in a rule file.
    """
    try:
        text = read_text(path)
        # some published rule files contain duplicate keys
        parse_yaml(text, path, allow_duplicate_keys=True)
        entries = rule_files.parse_rules(text)
        listed = isinstance(entries, list) and all(
            isinstance(entry, dict) and len(entry) == 1 for entry in entries
        )
        keys = [entry["KEY"] for entry in entries if "KEY" in entry] if listed else []
        if (
            not listed
            or not entries
            or not all(isinstance(key, dict) and "NAME" in key for key in keys)
        ):
            raise ValueError("expected a list of BEGIN, KEY and END")
    except (OSError, ValueError) as error:
        first = str(error).removeprefix(f"{path}: ")
        command = "python -m suite.compliance.generated_rules ncf_reference"
        raise ValueError(
            f"{path} is not a rule file: {first}. Start with the output of: {command}"
        ) from error
    return list(entries)
