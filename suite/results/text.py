"""Sanitizes and escapes text for terminals, Markdown cells, and CSV cells.

Text from logs is untrusted.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of characters that move the cursor, reorder the line, or cannot be encoded."""
_MARKDOWN = {"\\": "\\\\", "|": "\\|", "`": "\\`", "[": "\\[", "<": "&lt;", "&": "&amp;"}


def clean(text: str, limit: int = 200) -> str:
    """Return text as a printable line of at most `limit` characters.

    Control characters are replaced by spaces. Text that is cut ends with `…`.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    # A printable text contains no character of _INVISIBLE. This check takes a tenth of the time.
    if cut.isprintable():
        return cut.strip()
    return "".join(
        " " if unicodedata.category(letter) in _INVISIBLE else letter for letter in cut
    ).strip()


def markdown_escape(text: str) -> str:
    """Sanitize text and escape it for a cell of a Markdown table.

    Characters that end a cell or create markup are escaped.
    """
    return "".join(_MARKDOWN.get(letter, letter) for letter in text)


def csv_cell(text: str) -> str:
    """Return text as a CSV cell that a spreadsheet does not treat as a formula.

    The cell is a single line.
    """
    cell = clean(text, 1000)
    return "'" + cell if cell.startswith(("=", "+", "-", "@")) else cell


def devices_text(devices: int, nodes: int | None = None) -> str:
    """Format a number of devices.

    Examples: `1 device`, `8 devices`, `2 × 4 devices` for two nodes. 0 means an unknown number.
    """
    if not devices:
        return "an unknown number of devices"
    return f"{placed_text(devices, nodes)} device{'' if devices == 1 else 's'}"


def placed_text(devices: int, nodes: int | None, several: bool = False) -> str:
    """Format a number of devices as nodes × devices per node, such as `2 × 4`.

    A single node is omitted (`4`), unless `several` is True.
    """
    if not nodes or not devices or (nodes == 1 and not several) or devices % nodes:
        return str(devices)
    return f"{nodes} × {devices // nodes}"


def time_text(seconds: float, size: float | None = None) -> str:
    """Format a time in seconds below two minutes, otherwise in minutes with two decimals.

    If `size` is given, the unit is chosen for `size` seconds.
    """
    number, unit = _time_in(seconds, seconds if size is None else size)
    return f"{number} {unit}"


def range_text(low: float, high: float, mean: float) -> str:
    """Format a time range in the unit that `time_text` uses for the mean: `4.5–4.7 s`."""
    number, unit = _time_in(high, mean)
    return f"{_time_in(low, mean)[0]}–{number} {unit}"


def figure_text(value: float, digits: int = 3) -> str:
    """Format a number with significant digits. Large numbers are rounded to integers.

    Examples: `0.0443`, `7,703`, `12,590`, but not `1.259e+04`.
    """
    text = f"{value:,.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else text


_MANY_EPOCHS = 1000.0
"""Numbers of epochs from here on are numbers of samples, which are shown as integers."""


def epochs_text(value: float) -> str:
    """Return a number of epochs as text: `61.0`, or `179,712` for samples in place of epochs."""
    return f"{value:,.0f}" if value >= _MANY_EPOCHS else f"{value:,.1f}"


def percent_text(share: float) -> str:
    """Format a fraction as percent with two digits, such as `1.3 %`.

    Small fractions are shown as `below 0.1 %`.
    """
    return (
        "below 0.1 %"
        if 0 < share < 0.001
        else f"{100 * share:.2g} %"
        if share < 0.995
        else f"{100 * share:.0f} %"
    )


def rate_text(value: float) -> str:
    """Format a rate with three significant digits. Rates above 100 have no decimals."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cost_text(cost: float) -> str:
    """Format a cost with two decimals. Small costs have three significant digits."""
    return f"{cost:,.2f}" if cost >= 1 else f"{cost:.3g}"


def energy_text(joules: float) -> str:
    """Format an energy in joules as `3.4 kWh`, `52.1 Wh`, or `820 J`."""
    for unit, size in (("kWh", 3.6e6), ("Wh", 3600.0)):
        if joules >= size:
            return f"{joules / size:,.1f} {unit}"
    return f"{figure_text(joules)} J"


def bytes_text(size: float) -> str:
    """Format a size in powers of 1,024: `4 KiB`, `1 GiB`, `1.5 MiB`."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size:.4g} B"


def _time_in(seconds: float, size: float) -> tuple[str, str]:
    """Format seconds in the unit for a time of `size` seconds, and return the unit."""
    if size >= 120:
        return f"{seconds / 60:,.2f}", "min"
    return (f"{seconds:.1f}" if size >= 1 else f"{seconds:.3g}"), "s"


def shortened(texts: Sequence[str], limit: int) -> list[str]:
    """Shorten each text to at most `limit` characters.

    Different texts remain different. If the ends of the texts differ, the middle is removed.
    """
    distinct = list(dict.fromkeys(texts))
    for tail in (0, limit // 3, limit // 2, 2 * limit // 3):
        cut = [_without_middle(text, limit, tail) for text in distinct]
        if len(set(cut)) == len(cut):
            break
    else:
        cut = [
            f"{text[: limit - len(mark)]}{mark}"
            for text, mark in zip(
                distinct, (f" ({number})" for number in range(1, len(distinct) + 1)), strict=True
            )
        ]
    short = dict(zip(distinct, cut, strict=True))
    return [short[text] for text in texts]


def _without_middle(text: str, limit: int, tail: int) -> str:
    if len(text) <= limit:
        return text
    kept = text[: limit - 1 - tail]
    words = kept.rpartition(" ")[0]
    whole = (
        words if not tail and len(words) > limit // 2 and text[len(kept)] != " " else kept
    )  # The text is cut at the end of a word.
    return f"{whole.rstrip(' ,;:')}…{text[-tail:].lstrip() if tail else ''}"
