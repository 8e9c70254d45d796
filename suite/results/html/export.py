"""Figures as inline SVG and as files. Ids are fixed and dates left out, so that the same logs give the same bytes."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from suite.results.html.theme import CSS_VARIABLES, PAPER

_TAG = re.compile(r"<[^<>]*>")
_COLOUR = re.compile("|".join(map(re.escape, CSS_VARIABLES)))
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
PNG_DPI = 200


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """An `<svg>` element for an HTML page: scales with it, takes its colours, and its ids begin with `name`."""
    text = _svg(figure, name, background="none")
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    width, height = figure.get_size_inches() * 72
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    used = set(re.findall(r"(?:xlink:href=\"#|url\(#)([^\")]+)", body))
    body = _TAG.sub(lambda tag: _rename_ids(tag.group(), name, used), body)
    size = f'viewBox="0 0 {width:g} {height:g}" style="max-width:{1.32 * width:.0f}px"'
    return f'<svg role="img" aria-label="{html.escape(label)}" {size}>{body.strip()}</svg>'


def _rename_ids(tag: str, name: str, used: set[str]) -> str:
    """A tag with ids that begin with `name`, and CSS variables in place of colours."""
    tag = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", tag)
    tag = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', tag)
    tag = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", tag)
    return _COLOUR.sub(lambda match: f"var({CSS_VARIABLES[match.group()]})", tag)


def _svg(figure: Figure, name: str, background: str) -> str:
    matplotlib.rcParams["svg.hashsalt"] = name  # ids that are the same in every run
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata=_NO_METADATA, facecolor=background)
    return stream.getvalue()


def write_files(figure: Figure, folder: Path, name: str) -> None:
    """`NAME.svg` and `NAME.png` on white; never over a file that is there (FileExistsError)."""
    with open(folder / f"{name}.svg", "x", encoding="utf-8") as stream:
        stream.write(_svg(figure, name, background=PAPER))
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=PNG_DPI, facecolor=PAPER, metadata={"Software": None})
    with open(folder / f"{name}.png", "xb") as binary:
        binary.write(picture.getvalue())
