"""Colours, sizes and markers of the figures. On the page a colour is a CSS variable; files use the light theme."""

from __future__ import annotations

from collections.abc import Mapping

# Okabe and Ito's hues (distinct for colour-blind readers), darkened until text in them has a contrast of 4.5 : 1 on white;
# the style sheet has light counterparts for a dark page.
SERIES_COLOURS = ("#0a62a4", "#b0440c", "#00705a", "#8c3a7c", "#755c00", "#1a7f9c")
INK, MUTED, GRID, PAPER = "#1d2530", "#5a6573", "#dfe3e8", "#ffffff"
MARKERS = "os^DvPX"
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


def colour(slot: int) -> str:
    """Colour of the series number `slot`."""
    return SERIES_COLOURS[slot % len(SERIES_COLOURS)]


def marker(slot: int) -> str:
    """Marker of the series number `slot`; where colours repeat, markers differ."""
    return MARKERS[(slot + slot // len(SERIES_COLOURS)) % len(MARKERS)]
