"""Compare runs and results by the settings that identify an experiment.

Two runs belong to the same experiment if their settings and logged hyperparameters are equal. Seeds
and bookkeeping keys are ignored.

`same` compares two runs or results, `differences` returns the settings that differ, and
`suite.results.settings_difference` compares any number of results.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from suite.catalog.deviations import DeviationCode
from suite.launch.recorded_env import identifying_variables
from suite.results.columns import HEADINGS, Columns
from suite.results.logs.keys import BOOKKEEPING
from suite.results.logs.record import RunSettings
from suite.results.names import UNKNOWN_ROUND, workload_name
from suite.results.targets import same_targets, target_text
from suite.results.text import clean
from workloads.api import LoggedSettings, field_names

_OF_OTHERS = ("round", "submitter", "division", "folder")
"""Columns that, in addition to the settings, identify an experiment of another program."""
FIELDS = (*field_names(RunSettings, experiment_key=True), *_OF_OTHERS)
DERIVED = ("labels", "deviations", "data_fingerprint")
"""Fields that are derived from settings.

Experiments are different if a derived field differs. However, derived fields are listed as
differences only if all settings are equal.
"""
_BOOKKEEPING_PREFIXES = ("submission_", "suite_", "power_")

HYPERPARAMETERS, ENVIRONMENT_VARIABLES = "hyperparameters", "environment_variables"
_WITH_DEVICES = (
    *(item.name for item in fields(LoggedSettings) if item.metadata["scales_with_devices"]),
    HYPERPARAMETERS,
)
_FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "gpus": _WITH_DEVICES,
    "nodes": _WITH_DEVICES,
    "batch": ("global_batch_size", "hyperparameter_set", HYPERPARAMETERS),
    "lr_scaling": (HYPERPARAMETERS,),
    "device": (
        "device_name", "cores_per_device", "threads_per_device", "linear_backend", "graphs",
        "kernels", "framework_version",
        "thread_waiting", "devices", "global_batch_size", HYPERPARAMETERS,
    ),
    "cpu.cores_per_device": ("cores_per_device", "device_name", "thread_waiting"),
    "framework": (
        "framework_version", "linear_backend", "graphs", "kernels", "thread_waiting",
        HYPERPARAMETERS,
    ),
    "precision": ("linear_backend",),
    "mode": ("targets", "stop", "max_epochs"),
    "workload.hyperparameter_set": ("global_batch_size", HYPERPARAMETERS),
    "workload.model": (
        "variant", "dataset", "hyperparameter_set", "data_fingerprint", "targets", "lr_scaling",
        "max_epochs",
        HYPERPARAMETERS,
    ),
    "workload.image_size": ("variant", "data_fingerprint", HYPERPARAMETERS),
    "workload": (
        "dataset", "hyperparameter_set", "data_fingerprint", "targets", "sample_unit", "batch_unit",
        "rules",
        "clock", "linear_backend", "graphs", "kernels", "variant", "global_batch_size",
        "lr_scaling", "thread_waiting",
        "max_epochs",
        HYPERPARAMETERS,
    ),
}  # fmt: skip
"""Maps each command-line setting to additional fields that change with the setting.

The field of the setting itself is not listed.
"""
_OF_SIZE = ("system", "folder", "framework_version")
"""Fields in the results of other programs that change with the number of devices.

For example, the names of clusters often include the number of devices.
"""
OF_SIZE_LOGGED = ("model_bn_span", "input_pairs_left_out")
"""Logged keys that are computed from the number of devices and the global batch size. The user does
not choose these values.
"""
_FIELD_OF_SETTING = {
    item.metadata["cli_key"]: item.name
    for item in fields(LoggedSettings)
    if item.metadata["cli_key"]
}
_LABELS = {
    "global_batch_size": "global batch",
    "batch_rule": "batch",
    "device_name": "hardware",
    "sample_unit": "samples are",
    "framework_version": "version",
    "hyperparameter_set": "hyperparameters",
    "data_fingerprint": "data",
    "thread_waiting": "threads wait",
    "targets": "target",
    "rules": "round",
    "clock": "clock rule",
    "lr_scaling": "learning-rate scaling",
    "dataset": "data set",
    "base_learning_rate": "learning rate",
    "timing_each": "timed by",
    "opt_name": "optimizer",
}


def facts(row: Columns) -> dict[str, Any]:
    """Return the settings that identify an experiment.

    The settings are columns, environment variables, and logged hyperparameters.
    """
    values = {
        name: getattr(row, name)
        for name in FIELDS
        if name != ENVIRONMENT_VARIABLES
        # For other programs, `round` already contains the rules.
        and (name != "rules" or row.profile)
    }
    if row.profile:
        env = identifying_variables(row.environment_variables or {})
        values |= {f"{ENVIRONMENT_VARIABLES}.{name}": value for name, value in env.items()}
    logged = getattr(row, HYPERPARAMETERS) or {}
    return values | {
        f"{HYPERPARAMETERS}.{key}": value
        for key, value in logged.items()
        if not _is_bookkeeping(key)
    }


def key(row: Columns, *ignored: str) -> tuple[Any, ...]:
    """Return a key that is equal for runs and results of the same experiment.

    Args:
        row: A run or a result.
        ignored: Command-line settings (`gpus`, `batch`) that may differ. Fields that depend on
            these settings may differ, too.
    """
    out = left_out(row, ignored)
    return tuple(
        (name, comparable_value(value))
        for name, value in sorted(facts(row).items())
        if not _is_out(name, out)
    )


def experiment(row: Columns) -> tuple[Any, ...]:
    """Return a key that is equal for all runs of a result.

    For a submission, the key is the folder, even if the logged settings of the runs differ. For all
    other runs, the function returns `key(row)`.
    """
    if row.is_submission:
        return row.folder, row.workload
    return key(row, "batch") if row.folder else key(row)


def varying(rows: Sequence[Columns]) -> dict[str, list[Any]]:
    """Return the settings that differ between runs or results, with their distinct values.

    For a run or result without the setting, the value is None.
    """
    every = [facts(row) for row in rows]
    found = {}
    for name in dict.fromkeys(name for settings in every for name in settings):
        distinct = {comparable_value(settings.get(name)): settings.get(name) for settings in every}
        if len(distinct) > 1:
            found[name] = list(distinct.values())
    return found


def same(row: Columns, compared: Columns, *ignored: str) -> bool:
    """Check whether two runs or results belong to the same experiment.

    The settings `ignored` may differ.
    """
    return key(row, *ignored) == key(compared, *ignored)


def differences(
    row: Columns, compared: Columns, *ignored: str, only_known: bool = False
) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ between two runs or results, with both values.

    The value of a setting that was not logged is None.

    Args:
        row: A run or a result.
        compared: A run or a result.
        ignored: Command-line settings that may differ. Fields that depend on these settings may
            differ, too.
        only_known: Omit settings that are missing in `row` or `compared`. A run may fail before all
            settings are logged.
    """
    out = left_out(row, ignored) | left_out(compared, ignored)
    first, second = facts(row), facts(compared)
    if only_known and not (row.hyperparameters and compared.hyperparameters):
        out.add(HYPERPARAMETERS)
    pairs = {
        name: (first.get(name), second.get(name))
        for name in first | second
        if not _is_out(name, out)
        and comparable_value(first.get(name)) != comparable_value(second.get(name))
    }
    if only_known:
        pairs = {
            name: pair
            for name, pair in pairs.items()
            if name.startswith(
                f"{ENVIRONMENT_VARIABLES}."
            )  # The first lines of a log contain the environment variables, so none is missing.
            or not any(value in (None, "", (), {}) for value in pair)
        }
    return {name: pair for name, pair in pairs.items() if name not in DERIVED} or pairs


TIME, EPOCH_TIME, EPOCHS, THROUGHPUT = (
    "time to target",
    "time per epoch",
    "epochs to target",
    "throughput",
)
"""Metrics by which two results are compared."""


class RefusalCode(enum.Enum):
    """Code of the reason why the ratio of two results is meaningless."""

    MODE = enum.auto()
    FIXED_LENGTH = enum.auto()
    DATASET = enum.auto()
    TARGET = enum.auto()
    SAMPLE_UNIT = enum.auto()


class Refusal(NamedTuple):
    """A reason why the ratio of two results is meaningless, and the affected metrics."""

    quantities: tuple[str, ...]
    code: RefusalCode
    text: str
    """The reason why the ratio is meaningless, and the comparison that is possible instead."""


def incomparable_reasons(
    row: Columns, compared: Columns, names: tuple[str, str] = ("the first", "the second")
) -> Iterator[Refusal]:
    """Yield the reasons why ratios of two results are meaningless.

    The most important reason comes first.

    Args:
        row: A result.
        compared: A result of the same workload.
        names: Names of the two results in the messages.
    """
    training = (TIME, EPOCHS, EPOCH_TIME)
    if row.mode != compared.mode:
        reason = (
            f"mode {row.mode} and mode {compared.mode} do different work, so only runs of the same"
            " mode can be compared"
        )
        yield Refusal((*training, THROUGHPUT), RefusalCode.MODE, reason)
    if not (row.to_target and compared.to_target):
        fixed = " and ".join(
            name
            for name, result in zip(names, (row, compared), strict=True)
            if not result.to_target
        )
        verb = "have" if row.to_target == compared.to_target else "has"
        reason = f"{fixed} {verb} a fixed length and no target, so only throughput can be compared"
        yield Refusal(training, RefusalCode.FIXED_LENGTH, reason)
    deviates = any(map(_trained_on_other_data, (row, compared)))
    if row.dataset != compared.dataset and (deviates or (row.dataset and compared.dataset)):
        both = " and ".join(
            result.dataset or "the data set of the rules" for result in (row, compared)
        )
        reason = f"trained on different data sets ({both}), so only throughput can be compared"
        yield Refusal(training, RefusalCode.DATASET, reason)
    if same_targets(row.targets, compared.targets, row.workload) is False:
        both = " and ".join(
            value_text("targets", result.targets, result) for result in (row, compared)
        )
        reason = (
            f"trained to different targets ({both}), so only time per epoch and throughput can be"
            " compared"
        )
        yield Refusal((TIME, EPOCHS), RefusalCode.TARGET, reason)
    if ("token" in row.sample_unit) != ("token" in compared.sample_unit):
        reason = (
            f"throughput counts {row.sample_unit} and {compared.sample_unit}, so only times and"
            " epochs can be compared"
        )
        yield Refusal((THROUGHPUT,), RefusalCode.SAMPLE_UNIT, reason)


def _trained_on_other_data(row: Columns) -> bool:
    """Check whether a run is in the open division because of its data set.

    The reason is a name or fingerprint of the data set that deviates from the rules.
    """
    return any(
        deviation.setting == "dataset" or deviation.code is DeviationCode.DATA_NOT_VERIFIED
        for deviation in row.parsed_deviations
    )


def label(name: str) -> str:
    """Return the display name of a setting, such as `global batch`.

    Prefixes such as `opt_` are removed from logged keys.
    """
    if name.startswith(f"{ENVIRONMENT_VARIABLES}."):
        return clean(name.removeprefix(f"{ENVIRONMENT_VARIABLES}."), 60)
    name = name.removeprefix(f"{HYPERPARAMETERS}.")
    if name != "opt_name":
        name = re.sub("^(sgd_opt|lars_opt|opt_hp|opt|model_hp|model|input_hp)_", "", name)
    return _LABELS.get(name, clean(name, 40).replace("_", " "))


def heading(name: str) -> str:
    """Return the heading of a column, such as `time per epoch` or `samples/s`."""
    rate = name.removesuffix("_per_second")
    return HEADINGS.get(name) or (label(name) if rate == name else f"{label(rate)}/s")


def value_text(name: str, value: Any, row: Columns | None = None, limit: int = 80) -> str:
    """Format a value of a setting with at most `limit` characters.

    Examples: `8,192`, `BLEU ≥ 24`, and `none` for an unknown value.
    """
    if value is None or value in ("", (), [], {}):
        return "none"
    if name == "targets":
        return clean(
            target_text(
                value,
                workload_name(row.workload) if row is not None else "",
                row.falling_metrics if row is not None else (),
            ),
            limit,
        )
    if name == "data_fingerprint":
        return clean(value, 12)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if name in FIELDS else str(value)
    if isinstance(value, (tuple, list)):
        return clean("; ".join(map(str, value)), limit)
    return clean(f"{value:.6g}" if isinstance(value, float) else str(value), limit)


def follows(ignored: Iterable[str]) -> set[str]:
    """Return the fields that change with the command-line settings `ignored`."""
    names: set[str] = set()
    for setting in ignored:
        names |= {_FIELD_OF_SETTING.get(setting, HYPERPARAMETERS), *_FOLLOWS.get(setting, ())}
    if names:
        names |= {"labels", "deviations"}
    return names


def left_out(row: Columns, ignored: Collection[str]) -> set[str]:
    """Return the fields that change with the settings in `ignored`.

    In results of other programs, the system may also change with the number of devices.
    """
    scales_with_devices = set(
        _OF_SIZE if not row.profile and {"gpus", "nodes"} & set(ignored) else ()
    )
    # If the round of the folders is unknown, the folders may belong to different rounds.
    if row.round == UNKNOWN_ROUND:
        scales_with_devices.discard("folder")
    return follows(ignored) | scales_with_devices


def _is_out(name: str, out: Collection[str]) -> bool:
    return name.partition(".")[0] in out


def _is_bookkeeping(key: str) -> bool:
    return key in BOOKKEEPING or key.startswith(_BOOKKEEPING_PREFIXES)


def comparable_value(value: Any) -> Any:
    """Return a hashable form of a value.

    Values that are equal but have different types, such as lists and tuples, have the same form.
    """
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), comparable_value(item)) for name, item in value.items()))
    return tuple(map(comparable_value, value)) if isinstance(value, (tuple, list)) else value
