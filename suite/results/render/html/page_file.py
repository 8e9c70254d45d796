"""Render the template of the page, and write the page as a single file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from suite import __version__
from suite.results.columns import Columns, Run
from suite.results.curves import curves_of
from suite.results.data_table import DataTable
from suite.results.render.document import document
from suite.results.render.html import charts, vega
from suite.results.render.html.page_blocks import Block
from suite.results.render.html.page_rows import PageRows
from suite.results.text import clean
from suite.results.views.section import NOT_VERIFIED, View

MAX_DATA_BYTES = 2 << 20
"""Maximum size of a CSV file that is embedded in the page as a link. Browsers reject longer
links.
"""


def refuse_unwritable(out: Path, figures: Path | None = None) -> None:
    """Raise ValueError if a page cannot be written.

    `out` must not exist, but its folder must exist. The folder for figures must be empty.
    """
    if out.exists() or out.is_symlink():
        raise ValueError(f"--html {out}: the file exists and is not overwritten: choose a new name")
    folder = out.absolute().parent
    if not folder.is_dir():
        raise ValueError(
            f"--html {out}: the folder {folder} does not exist: create it, or choose a folder that"
            " exists"
        )
    if figures is not None:
        vega.refuse_full(figures)


def write_page(
    out: Path,
    rows: PageRows,
    counted: Iterable[Columns],
    script_data: Mapping[str, Any],
    figures: Path | None = None,
    **context: Any,
) -> None:
    """Write the page.

    If writing fails, the incomplete file is removed, because a user could mistake it for a complete
    report.

    Args:
        out: Path of the new file.
        rows: Runs and results on the page.
        counted: Runs or results that the page's counters include.
        script_data: Further data for the page's script.
        figures: New folder in which the figures are also written as files.
        context: Variables of the template.
    """
    drawn = [chart for block in context["blocks"] for chart in block.figures]
    data = {
        "figures": [_figure_data(chart, rows) for chart in drawn],
        **rows.data(counted),
        **script_data,
    }
    page = _render(rows, data, **context)
    if figures is not None:
        vega.write_figures(drawn, figures)
    try:
        out.touch(exist_ok=False)
        try:
            out.write_text(page, encoding="utf-8")
        except OSError:
            out.unlink()
            raise
    except OSError as error:
        raise ValueError(
            f"{out} cannot be written ({error.strerror}): choose a folder on a different disk"
        ) from error


def _render(rows: PageRows, data: Mapping[str, Any], **context: Any) -> str:
    folder = Path(__file__).parent / "templates"
    loader, strict = jinja2.FileSystemLoader(folder), jinja2.StrictUndefined
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=strict, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["line"] = lambda text: clean(str(text), 4000)
    library = _script(vega.scripts())
    script = _script((folder / "page.js").read_text(encoding="utf-8"))
    digests = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (library, script)
    )
    titles = {name: text.title for name, text in rows.filters.items()}
    defaults: dict[str, Any] = {
        "headlines": [],
        "notices": [],
        "failures": None,
        "runs": [],
        "runs_left_out": 0,
        "undrawn": 0,
    }
    constants = {
        "facets": [*titles],
        "titles": titles,
        "step": vega.STEP,
        "bands": charts.MAX_BANDS,
    }
    return environment.get_template("page.html.j2").render(
        defaults | context,
        version=__version__,
        not_verified=NOT_VERIFIED,
        anchors=_anchors(context["blocks"]),
        choices=rows.choices(),
        legend=vega.look,
        logarithmic=any(figure["logarithmic"] for figure in data["figures"]),
        sources=Markup(" ".join(f"'sha256-{digest}'" for digest in digests)),
        data=Markup(_json({**constants, **data})),
        library=Markup(library),
        script=Markup(script),
    )


def _anchors(blocks: Sequence[Block]) -> list[str]:
    """Return the ids of blocks, such as `section-results` and `section-results-2`."""
    counts: Counter[str] = Counter()
    anchors = []
    for block in blocks:
        counts[block.anchor] += 1
        count = counts[block.anchor]
        anchors.append(f"section-{block.anchor}" + (f"-{count}" if count > 1 else ""))
    return anchors


def _json(data: Any) -> str:
    """Return data as JSON without any text that an HTML parser treats as a tag."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(text: str) -> str:
    """Escape the code of a script for a page.

    A string in the script may contain the end tag of a script element.
    """
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _figure_data(chart: charts.Chart, rows: PageRows) -> dict[str, Any]:
    """Return the data of a figure for the page's script.

    Names of series are replaced by indices to reduce the size of the data.
    """
    marks = vega.marks(chart, rows.number)
    names = ["", *(style.label for style in chart.styles)]
    marks["s"] = [names.index(name) for name in marks["s"]]
    spec = vega.spec(chart, on_page=True)
    return {
        "bars": chart.kind in vega.CATEGORIES,
        "logarithmic": _has_logarithmic_axis(spec),
        "marks": marks,
        "names": names,
        "spec": spec,
        "x": chart.x_label,
        "y": chart.y_label,
    }


def _has_logarithmic_axis(spec: Any) -> bool:
    """Check whether a Vega-Lite specification contains a logarithmic scale at any level."""
    if isinstance(spec, Mapping):
        return spec.get("type") == "log" or any(map(_has_logarithmic_axis, spec.values()))
    return isinstance(spec, (list, tuple)) and any(map(_has_logarithmic_axis, spec))


def download_links(view: View, command: str, runs: Sequence[Run] = ()) -> dict[str, Any]:
    """Return links that contain the data of the page, so that it can be saved offline.

    Args:
        view: View whose data is saved as CSV.
        command: Command that writes the same CSV file with `--format csv`.
        runs: Runs whose curves are saved with all points. The figures show fewer points.
    """
    content, points = str(document(view, "csv")).encode(), None
    curves = curves_of(runs)
    if len(curves):
        whole = str(document(View("Curves", (), DataTable.from_frame(curves)), "csv")).encode()
        points = _link("application/gzip", gzip.compress(whole, mtime=0))
    link = _link("text/csv;charset=utf-8", content)
    return {"link": link, "points": points, "bytes": len(content), "command": command}


def _link(kind: str, content: bytes) -> Markup | None:
    """Return a link that contains a whole file, or None if the link would be too long."""
    link = Markup(f"data:{kind};base64,{base64.b64encode(content).decode()}")
    return link if len(content) <= MAX_DATA_BYTES else None
