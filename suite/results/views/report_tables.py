"""Group results into the tables of a report, and choose a title for each table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from suite.launch.registered_frameworks import title_of
from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.names import accelerator_name, short_title, workload_name
from suite.results.ratios import place
from suite.results.scores import figure
from suite.results.settings_difference import named_apart
from suite.results.text import clean
from suite.results.views.overview import order_of, target_difficulty


def group_into_tables(results: Sequence[Result]) -> list[list[Result]]:
    """Group results into tables.

    The results in a table have the same workload, profile, and system. Results of other programs
    are grouped only by workload.

    Tables of times to target precede tables of throughput, and reference runs precede demos.
    """

    def kind(result: Result) -> tuple[Any, ...]:
        system = (
            (result.system, result.device, result.device_name, result.sample_unit)
            if result.profile
            else ()
        )
        return (
            result.profile,
            workload_name(result.workload),
            result.to_target,
            result.mode,
            result.update,
            *system,
        )

    tables = [sorted(table, key=_order) for table in grouped(results, kind).values()]
    return sorted(tables, key=lambda table: (not table[0].to_target, order_of(table[0])))


def _order(result: Result) -> tuple[Any, ...]:
    batch = (result.global_batch_size or 0) if result.batch_rule == "default" else 0
    if result.profile:
        settings = (result.framework, result.batch_rule, target_difficulty(result), batch)
        return *settings, *place(result), result.learning_rate or 0.0, figure(result) or 0.0
    return result.round, result.system, *place(result), figure(result) or 0.0


def titles(tables: Sequence[Sequence[Result]]) -> list[str]:
    """Return a unique title for each table, such as `NCF demo, PyTorch 2.11.0, AMD EPYC`."""
    return named_apart([table[0] for table in tables], [_title(table) for table in tables])


def _title(table: Sequence[Result]) -> str:
    first = table[0]
    workload = " ".join(
        filter(None, (short_title(clean(first.workload, 60)) or "unknown workload", first.profile))
    )
    parts = [workload, "" if first.to_target else f"throughput ({clean(first.mode, 40)})"]
    parts.append("asynchronous updates" if first.update == "async" else "")
    frameworks = {(result.framework, result.framework_version) for result in table}
    if len(frameworks) == 1 and first.profile:
        parts.append(f"{title_of(first.framework)} {first.framework_version}".strip())
    parts.append(_hardware(first) if len({result.device_name for result in table}) == 1 else "")
    if first.profile and first.system not in ("", "local"):
        parts.append(first.system)
    return ", ".join(clean(part, 80) for part in parts if part)


def _hardware(result: Result) -> str:
    """Return the device name without its number of cores: `AMD EPYC`, `V100 SXM`."""
    if result.profile:
        return clean(
            result.device_name.partition(" core(s) of ")[2] or accelerator_name(result.device_name),
            60,
        )
    return clean(accelerator_name(result.device_name), 60)
