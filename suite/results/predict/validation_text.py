"""The validation as text: errors beside the simpler rules, bars, later rounds, and the rows that are known to be far off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suite.results.predict.law import LEVEL
from suite.results.predict.observations import CONSTANTS_UP_TO
from suite.results.predict.validate import Errors, HeldOut, Protocol, Validation, select
from suite.results.report.markdown import markdown_table, wrapped
from suite.results.text import markdown_escape

_RULES = {"law": "c·(1 + b_half / b)·n^p", "power": "power of devices", "linear": "linear in devices"}
_WORST = 12
"""Rows that are named as known to be far off."""


def validation_text(validation: Validation) -> str:
    """The whole validation as Markdown that reads well in a terminal."""
    rows = validation.published
    left_out = ", ".join(f"{why} {count}" for why, count in rows.left_out)
    parts = [
        "# Validation of the scaling law on published rows",
        f"{rows.rows} rows in {len(rows.families)} families, closed division, NVIDIA GPUs; time per epoch with evaluation. "
        f"No row's own time is used in its prediction. Left out: {left_out}.",
        _errors_table(validation),
        "## Median error of each workload",
        _workloads_table(validation),
        "## Bars",
        _bars_table(validation),
        f"## Rounds after {CONSTANTS_UP_TO[-1]}, with b_half and p of the rounds up to it",
        _plain_table(_by_round(validation.later)),
        "## Training rates as logged, without evaluation",
        _plain_table((protocol.value, select(validation.training_only, protocol)) for protocol in Protocol),
        f"## The {_WORST} rows furthest off, leaving one row out",
        _worst_table(validation),
    ]
    return wrapped("\n\n".join(parts)) + "\n"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _cells(errors: Errors) -> list[str]:
    figures = (errors.median, errors.mean, errors.p90, errors.within_10, errors.within_25)
    return [str(errors.rows), *map(_percent, figures)]


_ERROR_COLUMNS = ["rows", "median", "mean", "90th percentile", "within 10 %", "within 25 %"]


def _errors_table(validation: Validation) -> str:
    body = [
        [protocol.value, rule, *_cells(validation.errors(law, protocol))]
        for protocol in Protocol
        for law, rule in _RULES.items()
    ]
    return markdown_table(["predicted", "rule", *_ERROR_COLUMNS], body, [False, False] + [True] * 6, keys=2)


def _workloads_table(validation: Validation) -> str:
    header = ["workload", "b_half", "p"]
    header += [f"{law}, {short}" for short in ("one row out", "smallest") for law in _RULES]
    body = []
    for workload, (half, exponent) in validation.constants.items():
        figures = [
            validation.errors(law, protocol, workload).median
            for protocol in (Protocol.ROW, Protocol.SMALLEST)
            for law in _RULES
        ]
        body.append([workload, f"{half:.2g}", f"{exponent:.2f}", *map(_percent, figures)])
    return markdown_table(header, body, [False] + [True] * (len(header) - 1))


def _bars_table(validation: Validation) -> str:
    def limit(low: float, high: float) -> str:
        return f"{low:.0%} to {high:.0%}" if low else f"at most {high:.3g}" if high >= 1 else f"at most {high:.1%}"

    body = [
        [
            bar.name,
            f"{bar.reached:.2f}" if bar.high >= 1 else f"{bar.reached:.2%}",
            limit(bar.low, bar.high),
            "met" if bar.met else "NOT MET",
        ]
        for bar in validation.bars
    ]
    return markdown_table(["bar", "reached", "limit", ""], body, [False, True, True, False])


def _by_round(held: Sequence[HeldOut]) -> Iterator[tuple[str, list[HeldOut]]]:
    for name in sorted({item.row.round for item in held}):
        for protocol in Protocol:
            chosen = [item for item in select(held, protocol) if item.row.round == name]
            yield f"{name}, {protocol.value}", chosen


def _plain_table(groups: Iterator[tuple[str, list[HeldOut]]]) -> str:
    body = [[name, *_cells(Errors.of(held))] for name, held in groups if held]
    return markdown_table(["predicted", *_ERROR_COLUMNS], body, [False] + [True] * 6)


def _worst_table(validation: Validation) -> str:
    held = sorted(select(validation.held["law"], Protocol.ROW), key=lambda item: -abs(item.error))[:_WORST]
    body = [
        [
            markdown_escape(item.row.name),
            item.row.workload,
            str(item.row.devices),
            f"{item.row.batch_per_device:.3g}",
            f"{item.error:+.0%}",
        ]
        for item in held
    ]
    table = markdown_table(
        ["row", "workload", "devices", "samples a device", "error"], body, [False, False, True, True, True]
    )
    widths = f"{validation.factor:.2f} spreads hold {LEVEL:.0%} of all held-out rows."
    return f"{table}\n\n{widths}"
