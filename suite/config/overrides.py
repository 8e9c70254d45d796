"""Checks the command line before Hydra sees it, so that a mistake gets one line instead of Hydra's own errors."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from suite.common import registry
from suite.common.paths import shipped
from suite.common.registry import nearest, not_allowed
from suite.config.options import SuiteConfig, known_fields, subgroup
from workloads.api import OPTION_GROUPS, check_value, option_keys

CONF = shipped("conf")
_PLACE = "Hydra's folders are not used; type output=FOLDER for the runs of this command, or set SUITE_LOG_DIR"
UNUSED = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.output_subdir", "hydra.job.chdir")
"""Keys of Hydra's that would be ignored without a word."""
NOT_OFFERED = {
    "framework.kvstore": "MXNet's processes meet at a dist_sync store, and nothing else is offered (Horovod would be faster on "
    "real networks: docs/several_machines.md); leave it out"
}
"""Keys that one may look for, and what there is instead."""
SHORT = {"timing": "timing.each", "launch": "launch.by", "update": "update.kind"}
"""Groups that may be typed with the value of one of their keys."""
GROUPS = ("workload", "framework", "profile", "rules", "environment", "system")


def group_choices(group: str) -> list[str]:
    """What `group=` may be: the files below conf/, and what installed packages bring."""
    found = {path.stem for path in (CONF / group).glob("*.yaml")}
    if group in ("workload", "framework"):
        found |= set(registry.names(registry.WORKLOADS if group == "workload" else registry.FRAMEWORKS))
    return sorted(found)


def quoted(argument: str) -> str:
    """`timing=steps`, `launch=ssh` and `update=async` in full.

    `output=PATH`, `backbone.weights=PATH`, `plugins=[PATH,…]`, `launch.hosts=…` and `launch.sbatch=…` with every item quoted:
    Hydra's grammar knows no spaces at the ends, commas, brackets or non-ASCII letters.
    """
    key, _, value = argument.partition("=")
    if key in SHORT:
        return f"{SHORT[key]}={value}"
    if key in ("launch.hosts", "launch.sbatch") and value and not set(value) & set("'\""):
        inner = value[1:-1] if value[0] == "[" and value[-1] == "]" else value
        items = re.split(r",(?![^\[]*\])", inner)  # not between the brackets of node[1,3]
        return f"{key}=[{','.join(_quote(item.strip()) for item in items if item.strip())}]"
    if key in ("output", "backbone.weights", "launch.hostfile") and value and value[0] not in "'\"":
        return f"{key}={_quote(value)}"
    if key == "plugins" and value not in ("", "null") and not set(value) & set("'\""):
        if value.startswith("[") and value.endswith("]"):
            items = [item.strip() for item in value[1:-1].split(",")]
            return f"plugins=[{','.join(_quote(item) for item in items if item)}]"
        if "," not in value or Path(value).exists():
            return f"plugins=[{_quote(value)}]"
    return argument


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def check_form(arguments: Sequence[str]) -> None:
    """Raise ValueError, with what to type, for a setting that is typed like a flag: `--workload=ncf`, `--gpus 2`."""
    for argument, following in itertools.zip_longest(arguments, arguments[1:], fillvalue=""):
        key, equals, value = argument.lstrip("-").partition("=")
        if not argument.startswith("-") or key.partition(".")[0] not in known_fields(SuiteConfig):
            continue
        meant = value if equals else following if following and "=" not in following else "VALUE"
        raise ValueError(f"{argument}: settings are typed without dashes; type {key}={meant}")


def _meant(word: str) -> str:
    """`; type workload=ncf` for a bare word that is what a setting may be, else an empty text."""
    for group in GROUPS:
        if word in group_choices(group):
            return f"; type {group}={word}"
    if word in known_fields(SuiteConfig):
        return f"; type {word}=VALUE"
    close = difflib.get_close_matches(word, group_choices("workload"), n=1, cutoff=0.6)
    return f"; type workload={close[0]}" if close else ""


def only_value(argument: str) -> Any:
    """The value of a key that cannot be swept over. Raises ValueError in one line."""
    override = _parse(argument)
    if override.is_sweep_override():
        key, _, value = argument.partition("=")
        raise ValueError(f"{argument}: one list for the whole command; type {key}=[{value}]")
    return override.value()


def check(arguments: Sequence[str], multirun: bool) -> None:
    """Raise ValueError with one line for the first override that cannot be right."""
    overrides = [_parse(argument) for argument in arguments]
    chosen = _chosen(overrides)
    for override in overrides:
        key = override.key_or_group
        if key in UNUSED:
            raise ValueError(f"{override.input_line}: {_PLACE}")
        if key in NOT_OFFERED:
            raise ValueError(f"{override.input_line}: {NOT_OFFERED[key]}")
        if key == "hydra" or key.startswith("hydra."):
            continue
        if override.is_add() or override.is_delete() or override.is_force_add():
            raise ValueError(f"{override.input_line}: keys can be neither added nor removed; type {key}=VALUE")
        values = _values(override, multirun)
        if key in GROUPS:
            for value in values:
                if str(value) not in group_choices(key):
                    raise not_allowed(key, value, group_choices(key))
        else:
            _check_key(key, values, chosen)
    if not chosen["workload"]:
        raise ValueError(
            f"no workload given: type workload=NAME with NAME one of {', '.join(group_choices('workload'))}, "
            f"for example: python run_suite.py workload=ncf profile=demo"
        )


def words(arguments: Sequence[str]) -> dict[str, list[Any]]:
    """Key to the values that the command line gives it. Raises ValueError for what is no override."""
    overrides = [_parse(argument) for argument in arguments]
    return {item.key_or_group: _values(item, multirun=True) for item in overrides if not item.is_delete()}


def chosen_workloads(arguments: Sequence[str]) -> list[str]:
    """The workloads that overrides name and that there are."""
    overrides = [_parse(argument) for argument in arguments]
    return [name for name in _chosen(overrides)["workload"] if name in registry.names(registry.WORKLOADS)]


def value_texts(argument: str) -> list[str]:
    """The values of an override as they are typed; several where it is a sweep."""
    override = _parse(argument)
    if not override.is_sweep_override():
        return [argument.partition("=")[2]]
    values: Any = override.sweep_iterator()
    return [str(value) for value in values]


def _parse(argument: str) -> Override:
    try:
        return OverridesParser.create().parse_override(argument)
    except HydraException:
        if re.fullmatch(r"[\w.-]+", argument) and (meant := _meant(argument)):
            raise ValueError(f"{argument}: not of the form key=value{meant}") from None
        if whole := _without_empty_values(argument):
            raise ValueError(f"{argument}: a comma with no value beside it; type {whole}") from None
        raise ValueError(f"{argument}: not of the form key=value; quote unusual text: key=\"'…'\"") from None


def _without_empty_values(argument: str) -> str:
    """`gpus=1,2` for `gpus=1,,2,`; empty where no comma is too many, or nothing is left."""
    key, _, value = argument.partition("=")
    items = value.split(",")
    kept = [item for item in items if item.strip()]
    return f"{key}={','.join(kept)}" if kept and len(kept) < len(items) else ""


def _chosen(overrides: Sequence[Override]) -> dict[str, list[str]]:
    """Group to the options that the command line names for it."""
    chosen: dict[str, list[str]] = {group: [] for group in GROUPS}
    for override in overrides:
        if override.key_or_group in GROUPS and not override.is_delete():
            chosen[override.key_or_group] = [str(value) for value in _values(override, multirun=True)]
    return chosen


def _values(override: Override, multirun: bool) -> list[Any]:
    if not override.is_sweep_override():
        value = override.value()
        return [getattr(value, "text", value)]
    if not multirun:
        raise ValueError(f"{override.input_line}: several values make a sweep: add -m")
    values: Any = override.sweep_iterator()
    parsed = [_parse(f"{override.key_or_group}={value}").value() for value in values]
    return [getattr(value, "text", value) for value in parsed]


def _check_key(key: str, values: list[Any], chosen: dict[str, list[str]]) -> None:
    parts = key.split(".")
    if parts[0] == "workload" and len(parts) > 1:
        for workload in chosen["workload"]:
            if workload in registry.names(registry.WORKLOADS):
                _check_path(key, parts[1:], registry.load_workload(workload).Options, values)
        return
    if parts[0] in OPTION_GROUPS and len(parts) > 1:
        _check_shared(key, values, chosen["workload"])
        return
    _check_path(key, parts, SuiteConfig, values)


def _check_shared(key: str, values: list[Any], workloads: list[str]) -> None:
    """A key such as `data.decode` that belongs to the workloads that have it. Raises ValueError for one that has it not."""
    for workload in workloads:
        if workload not in registry.names(registry.WORKLOADS):
            continue
        keys = option_keys(registry.load_workload(workload).Options)
        if key not in keys:
            shared = sorted(name for name in keys if not name.startswith("workload."))
            raise ValueError(
                f"{key}={values[0]}: workload={workload} has no such key; "
                f"allowed: {', '.join(shared) or 'none of these groups'}{nearest(key, shared)}"
            )
        for value in values:
            check_value(key, str(keys[key].type), keys[key].metadata, value)


def _check_path(key: str, parts: list[str], kind: Any, values: list[Any]) -> None:
    known = known_fields(kind)
    head, rest = parts[0], parts[1:]
    if head not in known:
        prefix = key[: len(key) - len(".".join(parts))]
        raise ValueError(
            f"{key}: there is no such key; allowed: {', '.join(prefix + name for name in known)}{nearest(head, known)}"
        )
    metrics = _metrics(known[head])
    if metrics:
        _check_target(key, rest, metrics, values)
        return
    below = subgroup(known[head])
    if rest and below is not None:
        _check_path(key, rest, below, values)
        return
    if rest and "dict" not in str(known[head].type).lower() and "Mapping" not in str(known[head].type):
        scalar = key[: len(key) - len(".".join(rest)) - 1]
        raise ValueError(f"{key}: there is no such key, {scalar} has no parts; type {scalar}=VALUE")
    for value in values:
        if below is not None:
            raise ValueError(f"{key}={value}: type one of {', '.join(f'{key}.{name}' for name in known_fields(below))}")
        check_value(key, str(known[head].type), known[head].metadata, value)


def _metrics(item: Field[Any]) -> tuple[str, ...]:
    """The names below a field whose default is a dictionary: the metrics of `workload.target`."""
    default = item.default_factory() if item.default_factory is not MISSING else None
    return tuple(default) if isinstance(default, dict) else ()


def _check_target(key: str, rest: list[str], metrics: tuple[str, ...], values: list[Any]) -> None:
    """Raise ValueError unless `key` names one of several metrics and gives it a number."""
    if not rest:
        raise ValueError(
            f"{key}={values[0]}: there are several; type one of {', '.join(f'{key}.{name}=…' for name in metrics)}"
        )
    if len(rest) > 1 or rest[0] not in metrics:
        raise not_allowed(key.partition(f".{rest[0]}")[0], rest[0], metrics)
    for value in values:
        check_value(key, "float", {"minimum": 0.0}, value)
