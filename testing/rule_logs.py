"""Build logs that pass the rule files of the installed mlperf-logging.

The logged values are chosen to satisfy the checks in the rule files.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from testing.fake_logs import line

_PHASES: tuple[tuple[int, str], ...] = (
    (60_000, "init_stop"),
    (60_000, "run_start"),
    (60_001, "block_start"),
    (60_002, "epoch_start"),
    (90_000, "epoch_stop"),
    (90_001, "eval_start"),
    (90_002, "eval_accuracy"),
    (90_003, "eval_stop"),
    (90_004, "block_stop"),
    (90_005, "run_stop"),
)
"""Records after the hyperparameters, as pairs (milliseconds after the log's first record, key)."""
_METADATA: Mapping[str, Any] = {
    "epoch_num": 1,
    "first_epoch_num": 1,
    "epoch_count": 1,
    "samples_count": 1_000_000,
    "step_num": 1,
    "status": "success",
    "method": "discard",
}
_TRIES: tuple[Any, ...] = (
    1,
    0.5,
    0.05,
    3.0,
    2.65,
    128,
    256,
    2048,
    1e-4,
    True,
    "x",
    [1],
    {"BBOX": 0.5, "SEGM": 0.5},
)


def compliance_folder() -> Path:
    """Return the folder of mlperf-logging's rule files."""
    from mlperf_logging import compliance_checker

    return Path(compliance_checker.__file__).resolve().parent


def rule_sets() -> Iterator[tuple[str, str, str]]:
    """Yield (ruleset, division, benchmark) of each rule file of ruleset 0.7.0 or later.

    The rule files of optimizers are skipped.
    """
    for folder in sorted(compliance_folder().glob("training_*.0")):
        ruleset = folder.name.removeprefix("training_")
        for file in sorted(folder.glob("*_*.yaml")):
            division, _, benchmark = file.stem.partition("_")
            if division in ("closed", "open") and benchmark not in (
                "common",
                "resnet_lars",
                "resnet_sgd",
            ):
                yield ruleset, division, benchmark


@functools.cache
def _entries(file: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = yaml.load(
        file.read_text(), Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    )
    return entries


def _code(file: Path, block: str, part: str) -> str:
    """Return the code of a BEGIN or END block in a rule file.

    The string is empty if the rule file has no such block.
    """
    return str(next((entry[block].get(part, "") for entry in _entries(file) if block in entry), ""))


def _files(ruleset: str, division: str, benchmark: str) -> Iterator[Path]:
    """Yield the rule files that the compliance checker applies to a log, in order."""
    folder = compliance_folder() / f"training_{ruleset}"
    yield folder / "common.yaml"
    yield folder / f"{division}_common.yaml"
    yield folder / f"{division}_{benchmark}.yaml"
    if benchmark == "resnet" and division == "closed":
        optimizers = (
            compliance_folder() / f"training_{name}" / "closed_resnet_sgd.yaml"
            for name in (ruleset, "3.1.0")
        )
        yield next(file for file in optimizers if file.is_file())


def _values(tests: list[str], names: dict[str, Any]) -> Iterator[Any]:
    """Yield candidate values that may satisfy the checks of a key.

    The candidates are the right-hand sides of comparisons in the checks, the constants in the
    checks, and common values.
    """
    text = " ".join(tests)
    for formula in re.findall(
        r"v\['value'\] == (.*)|abs\(v\['value'\] - (.*)\) <", "\n".join(tests)
    ):
        with contextlib.suppress(Exception):
            yield eval("".join(formula).strip(), names)
    for constant in re.findall(r"'[^']*'|[0-9][0-9_]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?", text):
        value = ast.literal_eval(constant)
        yield value
        if not isinstance(value, str):
            yield from (value + 1, value * 0.99, value * 1.001, int(value))
    yield from _TRIES


def _solve(tests: list[str], state: dict[str, Any], metadata: Mapping[str, Any]) -> Any:
    """Return a value that satisfies all checks of a key. Return 1 if no candidate does."""
    names = {"s": state, "math": math, "is_integer": lambda value: abs(round(value) - value) < 1e-5}
    record = SimpleNamespace(timestamp=60_000.0)
    for value in _values(tests, names):
        line_names = {"v": {"value": value, "metadata": metadata}, "ll": record}
        with contextlib.suppress(Exception):
            if all(eval(test.strip(), {**names, **line_names}) for test in tests):
                return value
    return 1


def _tests(rule: Mapping[str, Any]) -> list[str]:
    checks = rule.get("CHECK", [])
    at_least_once = rule.get("ATLEAST_ONE_CHECK")
    return [
        *([checks] if isinstance(checks, str) else checks),
        *([at_least_once] if at_least_once else []),
    ]


def rule_log(ruleset: str, division: str, benchmark: str, **changes: Any) -> list[str]:
    """Return the lines of a log that follows the rules, if the checks can be satisfied.

    Args:
        ruleset: Ruleset of mlperf-logging.
        division: `closed` or `open`.
        benchmark: Benchmark of the ruleset.
        changes: Maps keys to values that are logged instead of the chosen values. None omits a
            record after the hyperparameters.
    """
    files = list(_files(ruleset, division, benchmark))
    rules = {
        entry["KEY"]["NAME"]: entry["KEY"]
        for file in files
        for entry in _entries(file)
        if "KEY" in entry
    }
    state: dict[str, Any] = defaultdict(
        lambda: True, run_started=False, first_init_start=0.0, compile_time_mins=30
    )
    # In the initial state that common.yaml defines, the run has not started.
    for file in files[1:]:
        if "loglines" not in (begin := _code(file, "BEGIN", "CODE")):
            exec(begin, {"s": state, "math": math})
    state["init_stopped"] = False
    values: dict[str, Any] = {
        "submission_benchmark": benchmark,
        "submission_division": division,
        "submission_org": "Acme",
        "submission_status": "onprem",
        "submission_platform": "8xA100",
        "cache_clear": True,
        "init_start": None,
    }
    if benchmark == "resnet":
        values["opt_name"] = "sgd"
    names = {"s": state, "math": math, "enqueue_config": lambda file: None}
    of_phases = {*(key for _, key in _PHASES), "aggregated_eval_accuracy"}
    for key, rule in rules.items():
        if key in of_phases or rule.get("REQ", "OPTIONAL") == "OPTIONAL":
            continue
        if key not in values:
            values[key] = _solve(_tests(rule), state, _METADATA)
        with contextlib.suppress(Exception):
            exec(
                rule.get("POST", "").strip(),
                names,
                {"v": {"value": values[key], "metadata": _METADATA}},
            )
    samples = state.get("first_eval_samples") or state.get("next_validation_samples") or 1_000_000
    metadata = {**_METADATA, "samples_count": samples}
    values |= changes
    tensors = re.search(r"sorted\(\s*(\[.*?\])\s*\)", _code(files[-1], "END", "CHECK"), re.DOTALL)
    lines = [
        line(0, key, value, **metadata) for key, value in values.items() if key not in of_phases
    ]
    if tensors and "weights_initialization" in values:
        lines = [text for text in lines if '"weights_initialization"' not in text]
        names_of_tensors = ast.literal_eval(tensors[1])
        lines += [
            line(0, "weights_initialization", None, tensor=tensor) for tensor in names_of_tensors
        ]
    for milliseconds, key in _PHASES:
        if key in changes and changes[key] is None:
            continue
        if key != "eval_accuracy":
            lines.append(line(milliseconds, key, None, **metadata))
        elif "aggregated_eval_accuracy" in rules:
            for step in (1, 2):
                at = {**metadata, "samples_count": step * samples, "step_num": step}
                scores = {"FID": 80.0, "CLIP": 0.2}
                lines += [
                    line(milliseconds, key, changes.get(key, score), **at, metric=metric)
                    for metric, score in scores.items()
                ]
        else:
            accuracy = (
                changes[key] if key in changes else _solve(_tests(rules[key]), state, metadata)
            )
            lines.append(line(milliseconds, key, accuracy, **metadata))
    return lines
