"""Finds the rules that `suite check --rules` names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suite.common.paths import expand_user, real_path
from suite.compliance import rule_files, rulesets
from suite.compliance.rulesets import RULES_FOLDER, Ruleset
from workloads.api.yaml_files import parse_yaml, read_text

RULESET = rulesets.DEFAULT


def find_rules(name: str) -> Ruleset:
    """The rules that `--rules` names: a ruleset, a rule file of ours, or a path. Raises ValueError if there are none."""
    ruleset = name.removeprefix("training_").removeprefix("v")
    if ruleset in rulesets.installed():
        return Ruleset(ruleset)
    names = sorted(file.stem for file in RULES_FOLDER.glob("*.yaml"))
    path = RULES_FOLDER / f"{name}.yaml" if name in names else real_path(expand_user(name))
    if not path.is_file():
        raise ValueError(
            f"--rules {name}: no such rules; choose one of {', '.join([*names, *rulesets.installed()])} "
            f"or give the path of a rule file"
        )
    rule_entries(path)
    return Ruleset(RULESET, path)


def rule_entries(path: Path) -> list[Mapping[str, Any]]:
    """The entries of a rule file, as text: code in it is run only by the checker."""
    try:
        text = read_text(path)
        parse_yaml(text, path, allow_duplicate_keys=True)  # published rule files repeat keys
        entries = rule_files.parse_rules(text)
        listed = isinstance(entries, list) and all(isinstance(entry, dict) and len(entry) == 1 for entry in entries)
        keys = [entry["KEY"] for entry in entries if "KEY" in entry] if listed else []
        if not listed or not entries or not all(isinstance(key, dict) and "NAME" in key for key in keys):
            raise ValueError("a list of BEGIN, KEY and END")
    except (OSError, ValueError) as error:
        first, example = str(error).removeprefix(f"{path}: "), RULES_FOLDER / "ncf_reference.yaml"
        raise ValueError(f"{path} is no rule file: {first}; start from {example}") from error
    return list(entries)
