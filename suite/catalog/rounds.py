"""Read rounds from YAML files `rounds/NAME.yaml` in `conf/` or in a user's folder.

The format is described in docs/dev/add_a_round.md. An example:

    setup_is_timed: false
    first_epoch: 1
    bleu_scale: 0.01
    ruleset: 4.1.0
    # {settings} in a source is replaced by this phrase, {round} by the name of the round.
    phrases: {settings: "v4.1, Hyperparameters"}
    rows: [every, {precision: {one_of: [fp32, bf16]}, source: "{round}, Numerical formats"}]
    workloads:
      resnet50:
        sets: {reference: closed_v0.7, synthetic: reference_1gpu}
        rows: [images, {targets: {at_targets: {top1: 0.759}}, source: "{round}, Benchmarks"}]

Each element of the list `rows` is a rule or a string. A string names a list of rules in
`rounds/shared/rows.yaml`, which replaces the string. A rule maps settings to their allowed values
(`suite.catalog.rules.allowed`). Each rule has a source and an optional condition, `when`. Each file
is read only once, when its round is first used. Workers cannot read YAML, so they use the values in
run.json (`Round.figures`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path

from suite.catalog.rules import ClosedRound, Rule, allowed
from suite.catalog.sets import SHIPPED, content_of, folders
from workloads.api import Json, Settings, Workload, allowed_text, suggestion

Kinds = Mapping[str, type | tuple[type, ...]]
_FIGURES: Kinds = {
    "setup_is_timed": bool,
    "first_epoch": int,
    "bleu_scale": (int, float),
    "ruleset": str,
}
_OF_FILE: Kinds = {**_FIGURES, "phrases": dict, "rows": list, "workloads": dict}
_OF_WORKLOAD: Kinds = {
    "rows": list, "sets": dict, "unsupported_reason": str,
    **dict.fromkeys(("default_set_by_framework", "listed_optimizers", "evaluations"), dict),
}  # fmt: skip
_PROFILES = ("reference", "synthetic")
RULE_INPUTS = (
    "seed_source", "cache_clear", "repeated_share", "left_out_share",
    "warmup_samples", "first_decay_samples", "run_samples",
)  # fmt: skip
"""Additional names that rules may use, alongside settings and options. The names are the keys of
the `rule_inputs` of `suite.catalog.division.find_deviations`.
"""


def files() -> dict[str, Path]:
    """Map the name of each round to its file. The files are not read.

    Raises ValueError if two files have the same name.
    """
    return _files(folders())


@functools.cache
def _files(in_folders: tuple[Path, ...]) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for folder in in_folders:
        for path in sorted((folder / "rounds").glob("*.yaml")):
            if path.stem in paths:
                raise ValueError(
                    f"{path}: the round {path.stem} exists already ({paths[path.stem]}). Rename the"
                    " file"
                )
            paths[path.stem] = path
    return paths


def is_user_defined(name: str) -> bool:
    """Return True if the round `name` comes from a user's file."""
    return name in (paths := files()) and not paths[name].is_relative_to(SHIPPED)


def workload_names(name: str) -> list[str]:
    """Return the names of the workloads that a round's file lists, in the order of the file.

    Raises:
        ValueError: The round does not exist, or its file is invalid.
    """
    paths = files()
    if name not in paths:
        raise ValueError(f"rules={name}: {allowed_text(paths, name)}")
    return list(_content(paths[name])["workloads"])


def find_round(name: str, workload: type[Workload] | None = None) -> ClosedRound | None:
    """Return a round by name, or None if the round or its workload is missing.

    Args:
        name: Name of the round, such as `v0.7`.
        workload: Workload whose rules and hyperparameter sets the round contains. The round has no
            rules if the workload is None or no shipped round lists the workload.

    Returns:
        The round, or None. The function returns None if the round does not exist, or if a shipped
        round lists the workload but this round does not.

    Raises:
        ValueError: The file has an error. The message names the file and the rule.
    """
    path = files().get(name)
    if path is None:
        return None
    if workload is None:
        return _round(path)
    if workload.name in _content(path)["workloads"]:
        return _of_workload(path, workload)
    shipped = (file for file in files().values() if file.is_relative_to(SHIPPED))
    return (
        None
        if any(workload.name in _content(file)["workloads"] for file in shipped)
        else _round(path)
    )


def get_round(name: str, workload: type[Workload]) -> ClosedRound:
    """Return a round by name for a workload.

    Raises:
        ValueError: The round does not include the workload. No other round is used instead, because
            targets and timing rules differ between rounds.
    """
    closed = find_round(name, workload)
    if closed is not None:
        return closed
    available = " or ".join(f"rules={item}" for item in workload_rounds(workload))
    has_target = any(item.name == "target" for item in fields(workload.Options))
    remedy = ", and workload.target=X for a different target" if has_target else ""
    raise ValueError(
        f"rules={name}: {workload.name} has no such round, which defines target, clock and rules."
        f" Set {available}{remedy}"
    )


def workload_rounds(workload: type[Workload]) -> dict[str, ClosedRound]:
    """Return all rounds that include a workload, by name.

    If no shipped round lists the workload, every round is returned, without rules.
    """
    by_name = {name: find_round(name, workload) for name in files()}
    return {name: closed for name, closed in by_name.items() if closed is not None}


@functools.cache
def _content(path: Path) -> Mapping[str, Json]:
    """Return the content of a round's file, with defaults for missing keys.

    Raises ValueError if the file is invalid.
    """
    content = {"phrases": {}, "rows": [], "workloads": {}, **content_of(path)}
    _check_keys(f"{path}", content, _OF_FILE, required=tuple(_FIGURES))
    return content


@functools.cache
def _shared() -> Mapping[str, Json]:
    """Return `phrases` and the lists of rules that several rounds use."""
    return content_of(SHIPPED / "rounds" / "shared" / "rows.yaml")


@functools.cache
def _round(path: Path) -> ClosedRound:
    """Return the round in a file, without the rules of any workload."""
    return ClosedRound(path.stem, **{name: _content(path)[name] for name in _FIGURES})


@functools.cache
def _of_workload(path: Path, workload: type[Workload]) -> ClosedRound:
    """Return the round in a file, with the rules and hyperparameter sets of a workload."""
    content, where = _content(path), f"{path}: {workload.name}"
    entry = content["workloads"][workload.name]
    _check_keys(where, entry, _OF_WORKLOAD, required=("rows", "sets"))
    _check_keys(f"{where}: sets", entry["sets"], dict.fromkeys(_PROFILES, str), required=_PROFILES)
    for key in ("listed_optimizers", "evaluations"):
        _check_keys(
            f"{where}: {key}", entry.get(key, {}), dict.fromkeys(entry.get(key, {}), list), ()
        )
    shared = {name: listed for name, listed in _shared().items() if name != "phrases"}
    phrases = {**_shared()["phrases"], "round": path.stem, **content["phrases"]}
    every_row = (
        *_all_rows(f"{path}", content["rows"], shared),
        *_all_rows(where, entry["rows"], shared),
    )
    rows = tuple(rule for where, row in every_row for rule in _rules(where, row, phrases, workload))
    listed = {
        name: frozenset(frameworks)
        for name, frameworks in entry.get("listed_optimizers", {}).items()
    }
    closed = replace(_round(path), **{**entry, "rows": rows, "listed_optimizers": listed})
    dataset, targets = (
        str(closed.listed_values("dataset", [""])[0]),
        closed.listed_values("targets", {}),
    )
    return replace(closed, dataset=dataset, targets=targets)


def _check_keys(where: str, content: Json, kinds: Kinds, required: tuple[str, ...]) -> None:
    """Raise ValueError for an unknown key, a missing key, or a value with a wrong type."""
    if not isinstance(content, dict):
        raise ValueError(f"{where}: expected lines of the form KEY: VALUE, got {str(content)[:80]}")
    for name, value in content.items():
        if name not in kinds:
            raise ValueError(f"{where}: {name}: unknown key, {allowed_text(kinds, name)}")
        if not isinstance(value, kinds[name]):
            raise ValueError(
                f"{where}: {name}: {str(value)[:80]} has the wrong type. See"
                " docs/dev/add_a_round.md"
            )
    missing = [name for name in required if name not in content]
    if missing:
        raise ValueError(f"{where}: {missing[0]}: missing")


def _all_rows(
    where: str, rows: list[Json], shared: Mapping[str, Json]
) -> Iterator[tuple[str, Json]]:
    """Yield the location (for error messages) and the content of each rule.

    A string in `rows`, which names a shared list, is replaced by the rules in the shared list.
    """
    for number, row in enumerate(rows, 1):
        here = f"{where}: row {number}"
        if not isinstance(row, str):
            yield here, row
        elif row in shared:
            remaining = {name: listed for name, listed in shared.items() if name != row}
            yield from _all_rows(f"{here}: {row}", shared[row], remaining)
        else:
            raise ValueError(f"{here}: {row}: unknown list, {allowed_text(shared, row)}")


def _rules(
    where: str, row: Json, phrases: Mapping[str, str], workload: type[Workload]
) -> Iterator[Rule]:
    """Yield the rules in an element of the list `rows`. Each key of `row` defines a rule.

    A key is the name of a setting, or the names of several settings separated by spaces.
    """
    is_row = (
        isinstance(row, dict)
        and isinstance(row.get("source"), str)
        and isinstance(row.get("when", {}), dict)
    )
    if not is_row or not row["source"]:
        raise ValueError(
            f"{where}: expected {{SETTING: ALLOWED, source: TEXT}}, got {str(row)[:80]}"
        )
    try:
        source = row["source"].format(**phrases)
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"{where}: source: {{{error}}}: unknown phrase, {allowed_text(phrases)}"
        ) from None
    names = {
        *(item.name for kind in (Settings, workload.Options) for item in fields(kind)),
        *RULE_INPUTS,
    }
    conditions = row.get("when", {})
    for name in [
        *conditions,
        *(name for key in row if key not in ("source", "when") for name in str(key).split()),
    ]:
        if name not in names:
            raise ValueError(
                f"{where}: {name}: {workload.name} has no such setting{suggestion(name, names)}"
            )
    try:
        when = {
            name: allowed(entry, workload.reference_model) for name, entry in conditions.items()
        }
        for key, entry in row.items():
            if key not in ("source", "when"):
                yield Rule(
                    tuple(key.split()), allowed(entry, workload.reference_model), source, when
                )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
