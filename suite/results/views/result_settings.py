"""Settings of results in a report.

Settings that differ are shown as columns. Settings that are equal are shown as labeled lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from suite.launch.registered_frameworks import title_of
from suite.results.columns import OURS, Result
from suite.results.experiment_key import ENVIRONMENT_VARIABLES, HYPERPARAMETERS, label, value_text
from suite.results.logs.record import RunSettings
from suite.results.settings_difference import (
    SettingsDifference,
    distinct_labels,
    settings_difference,
)
from suite.results.targets import target_text
from suite.results.text import clean
from suite.results.views.overview import several_nodes

_MAX_SETTING_COLUMNS = 4
"""Maximum number of setting columns. If more settings differ, only the settings that distinguish
the results are shown.
"""

_NAMED_ELSEWHERE = (
    "profile", "workload", "framework", "framework_version", "device", "device_name", "devices",
    "nodes", "mode", "update",
    "labels", "deviations", "folder", "submitter", "division", "system", "targets", "dataset",
    "global_batch_size",
    "batch_unit", "sample_unit", "clock",
)  # fmt: skip
"""Settings that the title, the labeled lines, or a column of every table already show."""

_USUALLY_DEFAULT = (
    "rules", "batch_rule", "lr_scaling", "linear_backend", "thread_waiting", "cores_per_device",
    "threads_per_device",
    "data_fingerprint", "max_epochs", "hyperparameter_set", "graphs", "kernels", "variant", "stop",
)  # fmt: skip
"""Settings whose defaults depend on the workload, the framework, and the profile. They are shown
only with `--verbose`.
"""

_DEMO_LABELS = ("cpu", "demo", "synthetic")
"""Labels that the notice and the hardware line already contain."""


def setting_columns(
    table: Sequence[Result], difference: SettingsDifference
) -> dict[str, list[Any]]:
    """Return the columns that identify the rows of a table.

    The columns are framework, devices, nodes, and all settings that differ.
    """
    ours = bool(table[0].profile)
    columns: dict[str, list[Any]] = {}
    if not ours and len({result.system for result in table}) > 1:
        columns["system"] = [clean(result.system, 80) for result in table]
    if len({result.framework for result in table}) > 1:
        columns["framework"] = [title_of(result.framework) for result in table]
    columns["devices"] = [result.devices for result in table]
    columns["nodes"] = [several_nodes(result) for result in table]
    shown = {*columns, "labels", "deviations"}
    differing = difference.without((*shown, *_of_frameworks(table, difference))).without_derived()
    if len(differing.columns) > _MAX_SETTING_COLUMNS:
        names = list(zip(*columns.values(), strict=True))
        columns["settings"] = list(distinct_labels(table, names, shown))
        return columns
    for name, values in differing.columns.items():
        texts = differing.texts(name)
        columns[name] = [
            value if type(value) is int else text for value, text in zip(values, texts, strict=True)
        ]
    return columns


_WITH_FRAMEWORK = ("framework_version", "linear_backend", "graphs", "kernels", "thread_waiting")
"""Settings that usually depend on the framework."""


def _of_frameworks(table: Sequence[Result], difference: SettingsDifference) -> list[str]:
    """Return the settings that differ only between frameworks.

    These settings have no column, because the framework column already distinguishes them.
    """
    frameworks = {result.framework for result in table}
    names = []
    for name in _WITH_FRAMEWORK:
        values = difference.columns.get(name)
        if values is not None and len(
            {(row.framework, value) for row, value in zip(table, values, strict=True)}
        ) == len(frameworks):
            names.append(name)
    return names


def setting_facts(
    table: Sequence[Result],
    difference: SettingsDifference,
    tables: Sequence[Sequence[Result]],
    shared: Sequence[str],
    verbose: bool,
) -> Iterator[tuple[str, str]]:
    """Yield the labeled lines above a table.

    The lines contain the settings that all results share.
    """
    first = table[0]
    common = difference.common
    if first.to_target and "targets" in common:
        yield (
            "Target",
            target_text(first.targets, first.workload, first.falling_metrics) or "unknown",
        )
    if "dataset" in common and first.dataset:
        yield "Data set", clean(first.dataset, 80)
    if first.profile and "device_name" in common:
        yield (
            "Each device",
            clean(
                first.device_name.replace(
                    "core(s)", "core" if first.device_name.startswith("1 ") else "cores"
                ),
                80,
            ),
        )
    if first.global_batch_size and "global_batch_size" in common:
        yield (
            "Batch",
            (
                f"{first.global_batch_size:,} {clean(first.batch_unit or 'samples', 30)} over all"
                " devices"
            ),
        )
    settings = _common_settings(first, difference, tables, verbose)
    if (
        first.profile
        and first.to_target
        and "clock" in common
        and first.clock == "v0.5"
        and first.parts is not None
    ):
        settings.insert(0, "clock of round v0.5, which starts before setup")
    if settings:
        yield "Settings", clean("; ".join(settings), 4000)
    remaining = [text for text in shared if text not in _DEMO_LABELS]
    if remaining:
        yield "Labels", clean(", ".join(remaining), 300)


def _common_settings(
    first: Result, difference: SettingsDifference, tables: Sequence[Sequence[Result]], verbose: bool
) -> list[str]:
    """Describe the common settings of a table that differ from their defaults.

    Hyperparameters are included if tables of the document have different values for the same
    workload.
    """
    related = [
        result
        for table in tables
        for result in table
        if (result.workload, result.profile) == (first.workload, first.profile)
        and result.hyperparameters
    ]
    differing = settings_difference(related).columns if first.profile and related else {}
    defaults = {item.name: item.default for item in fields(RunSettings)} | {
        "round": OURS,
        "precision": "fp32",
    }
    texts = []
    for name, value in difference.common.items():
        is_hyperparameter = name.partition(".")[0] == HYPERPARAMETERS
        if is_hyperparameter:
            is_named = verbose or name in differing
        elif name in _NAMED_ELSEWHERE:
            is_named = False
        elif name in _USUALLY_DEFAULT:
            is_named = verbose or name in differing
        else:
            is_named = bool(value) and value != defaults.get(name)
        if is_named and value not in (None, "", ()):
            prefix = (
                "environment variable " if name.partition(".")[0] == ENVIRONMENT_VARIABLES else ""
            )
            texts.append(f"{prefix}{label(name)} {value_text(name, value, first)}")
    return texts
