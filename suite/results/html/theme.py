"""Colours, sizes and markers of the figures. On the page a colour is a CSS variable; files use the light theme."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Okabe and Ito's hues (distinct for colour-blind readers), darkened until text in them has a contrast of 4.5 : 1 on white;
# the style sheet has light counterparts for a dark page.
SERIES_COLOURS = ("#0a62a4", "#b0440c", "#00705a", "#8c3a7c", "#755c00", "#1a7f9c")
INK, MUTED, GRID, PAPER = "#1d2530", "#5a6573", "#dfe3e8", "#ffffff"
MARKERS = "os^DvPX"
_LINES: tuple[str | tuple[float, tuple[float, ...]], ...] = (
    *("-", (0.0, (6.0, 2.0)), (0.0, (2.0, 1.5)), (0.0, (6.0, 1.5, 1.5, 1.5))),
)
WIDTH, HEIGHT = 400.0, 290.0
"""Size of a figure in CSS pixels; on the page it is scaled to the available width, text included."""
TEXT_SIZE = 12.0
"""Font size in CSS pixels at that width."""

CSS_VARIABLES: Mapping[str, str] = {
    **{colour: f"--c{slot}" for slot, colour in enumerate(SERIES_COLOURS)},
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
}
"""Colour to the CSS variable that replaces it on the page."""

MATPLOTLIB_SETTINGS: Mapping[str, object] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": TEXT_SIZE,
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.labelsize": TEXT_SIZE,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "text.color": INK,
    "path.simplify": True,
}
"""matplotlib's settings; `text.parse_math` off: a `$` in a log is a `$`."""


_KNOWN_FRAMEWORKS: Mapping[str, int] = {"mxnet": 0, "pytorch": 1, "tensorflow": 2}
OTHER_SLOT = -1
"""Slot of results whose colour says nothing: grey."""


def framework_slots(names: Iterable[str]) -> dict[str, int]:
    """The colour of each framework, the same in every figure of a page; more than three others share grey."""
    others = sorted({name for name in names if name and name not in _KNOWN_FRAMEWORKS})
    slots = dict(_KNOWN_FRAMEWORKS)
    free = range(len(_KNOWN_FRAMEWORKS), len(SERIES_COLOURS))
    slots.update(zip(others, free, strict=False))
    return slots


def colour(slot: int) -> str:
    """Colour of the frameworks with this slot."""
    return MUTED if slot == OTHER_SLOT else SERIES_COLOURS[slot % len(SERIES_COLOURS)]


def marker(style: int) -> str:
    """Marker of the curve number `style` of a colour."""
    return MARKERS[style % len(MARKERS)]


def dashes(style: int) -> str | tuple[float, tuple[float, ...]]:
    """Line of the curve number `style` of a colour: solid first."""
    return _LINES[style % len(_LINES)]
