"""Figures of runs, studies, and predictions: drawn values, names, and valid SVG for any text."""

import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import chain, combinations, count
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.combine import grouped
from suite.results.predict.predictions import PredictionRequest, predictions
from suite.results.price import Prices
from suite.results.render.html import charts, scaling_charts, vega
from suite.results.render.html.charts import Chart, Point, Style
from suite.results.render.html.curve_charts import table_charts
from suite.results.render.html.scaling_charts import prediction_charts
from suite.results.render.html.study_charts import study_charts
from suite.results.scores import find_published, published_results, results
from suite.results.views.report_tables import together
from suite.results.views.study_columns import StudyLine
from suite.results.views.study_view import StudyResult
from testing.fake_logs import demo_log, write, write_run
from tests.suite.results.rows import make_result

HOSTILE = "$\\frac{1$ <b>&\"' --> ]]> 字 \u0301"
NUMBERS = st.floats(-1e14, 1e14, allow_nan=False)
POINT = st.builds(Point, NUMBERS, NUMBERS, st.none(), st.none(), st.none())
POINTS = st.lists(POINT, min_size=1, max_size=300).map(tuple)
LINE = ((Point(1.0, 1.0), Point(2.0, 2.0)),)
SHEET = (Path(vega.__file__).parent / "templates" / "page.css").read_text()


class Series(NamedTuple):
    """Curves or bars of the same style."""

    label: str
    slot: int
    paths: tuple
    published: bool = False
    style: int = 0
    names: tuple = ()

    def marks(self):
        style = Style(self.label, self.slot, self.style, self.published)
        named = zip(self.names or map(str, count()), self.paths, strict=False)
        return [(style, name, point) for name, path in named for point in path]


def series_of(shown):
    """Return the marks of a chart grouped into curves or bars of the same style."""
    series = []
    for style, marks in grouped(shown.marks, lambda mark: mark[0]).items():
        paths = grouped(marks, lambda mark: str(mark[1]))
        points = tuple(tuple(point for *_, point in path) for path in paths.values())
        series.append(
            Series(style.label, style.slot, points, style.published, style.style, tuple(paths))
        )
    return series


def chart(*series, **options):
    named = {
        "title": "title",
        "labels": ("demo",),
        "x_label": "epochs",
        "y_label": "top1",
        **options,
    }
    return Chart(marks=tuple(chain.from_iterable(each.marks() for each in series)), **named)


def charts_of(root):
    (found,) = together(results(root))
    found_charts = table_charts(found, charts.looks(found))
    return [*found_charts.quality, *found_charts.rates]


def charts_of_scaling(ours, published=()):
    return scaling_charts.scaling_charts(ours, published, charts.looks(ours, published))


def places(path):
    return tuple((point.x, point.y) for point in path)


# --- Curves of runs


def test_curves_hold_the_evaluations_of_the_log(tmp_path):
    for index in range(2):
        write_run(tmp_path, "a", index, qualities=(0.3, 0.5, 0.65), seconds_per_epoch=2.0 + index)
    over_epochs, over_time, *_ = charts_of(tmp_path)
    paths = series_of(over_epochs)[0].paths
    assert [places(path) for path in paths] == [((1.0, 0.3), (2.0, 0.5), (3.0, 0.65))] * 2
    assert [path[0].row.run for path in paths] == ["a/run_0", "a/run_1"]
    assert {(point.y, point.row.devices) for point in over_epochs.targets} == {(0.635, 1)}
    assert over_epochs.labels == ("demo", "cpu")
    assert over_time.x_label == "seconds"
    for path, seconds in zip(series_of(over_time)[0].paths, ([2, 4, 6], [3, 6, 9]), strict=True):
        assert [point.x for point in path] == pytest.approx(seconds, abs=0.01)


def test_throughput_and_data_wait_are_drawn_for_each_block(tmp_path):
    write_run(tmp_path, "a", samples=300, train_seconds=1.5)
    *_, throughput, data_wait = charts_of(tmp_path)
    (rates,), (waits,) = series_of(throughput), series_of(data_wait)
    assert [chart.title for chart in (throughput, data_wait)] == [
        "NCF: throughput over time",
        "NCF: data wait over time",
    ]
    assert [point.y for point in rates.paths[0]] == [200.0] * 3
    # Each block waits for data during 0.5 s of its 1.5 s.
    assert [point.y for point in waits.paths[0]] == pytest.approx([100 / 3] * 3)
    assert [point.x for point in rates.paths[0]] == pytest.approx([2, 4, 6], abs=0.01)


def test_bleu_is_drawn_in_points_even_if_the_log_has_fractions(tmp_path):
    write_run(tmp_path, "a", workload="gnmt", qualities=(0.2, 0.65), targets={"bleu": 0.635})
    over_epochs, *_ = charts_of(tmp_path)
    assert (over_epochs.x_label, over_epochs.title) == ("epochs", "GNMT: BLEU over epochs")
    assert [point.y for point in over_epochs.targets] == [pytest.approx(63.5)]
    assert [point.y for point in series_of(over_epochs)[0].paths[0]] == pytest.approx([20.0, 65.0])


# --- Names in legends


SLOW, FAST = ({"opt_base_learning_rate": rate, "opt_name": "adam"} for rate in (0.01, 0.006))


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ([{}, {"devices": 2}], ["1 dev", "2 dev"]),
        ([{}, {"devices": 2}, {"devices": 2, "framework": "mxnet"}],
         ["pytorch, 1 dev", "pytorch, 2 dev", "mxnet, 2 dev"]),
        ([{}, {"hyperparameters": FAST}], ["lr 0.01", "lr 0.006"]),
        ([{"workload": "gnmt", "hyperparameters": FAST}, {}, {"hyperparameters": FAST}],
         ["pytorch", "lr 0.01", "lr 0.006"]),
        ([{"global_batch_size": 2048}, {"global_batch_size": 512}], ["bs 2,048", "bs 512"]),
        ([{}, {"targets": {"hr_at_10": 0.5}}], ["target 0.635", "target 0.5"]),
        ([{"precision": "fp16"}, {"precision": "tf32"}], ["fp16", "tf32"]),
        (
            [{"precision": "fp16", "global_batch_size": 2048}, {"framework": "mxnet"},
             {"clock": "v0.7"}, {}],
            ["pytorch, fp16, bs 2,048, clock v0.5", "mxnet, fp32, bs 4,096, clock v0.5",
             "pytorch, fp32, bs 4,096, clock v0.7", "pytorch, fp32, bs 4,096, clock v0.5"],
        ),
    ],
)  # fmt: skip
def test_names_contain_the_values_that_distinguish_results(settings, names):
    results = [
        make_result(**{"devices": 1, "hyperparameters": SLOW, **changed}) for changed in settings
    ]
    found = charts.looks(results)
    assert [found[row.key].of_result.label for row in results] == names


@given(
    st.lists(
        st.tuples(st.text("ab,1", min_size=1, max_size=90), st.sampled_from([1, 2])),
        min_size=1,
        max_size=8,
        unique=True,
    )
)
def test_names_of_different_results_differ_for_any_values(settings):
    results = [
        make_result(devices, hyperparameters={"opt_x": value}) for value, devices in settings
    ]
    assert len({look.of_result.label for look in charts.looks(results).values()}) == len(settings)


def test_a_name_has_the_same_style_in_every_figure_of_a_page():
    rates = [
        (workload, rate, devices)
        for workload in ("ncf", "ssd")
        for rate in (0.01, 0.02)
        for devices in (1, 2)
    ]
    results = [
        make_result(d, workload=w, hyperparameters={"opt_base_learning_rate": r})
        for w, r, d in rates[1:]
    ]
    found = charts.looks(results).values()
    for styles in ({look.of_result for look in found}, {look.of_curve for look in found}):
        assert len({look.label for look in styles}) == len(styles)
    assert len({entry.of_result.style for entry in found}) == 4


def test_a_curve_with_a_growing_batch_is_named_by_its_range_and_its_results_by_their_batch():
    sizes = [(few * devices, devices) for few in (256, 1024) for devices in (1, 2)]
    results = [
        make_result(devices, ((8.0, 10.0),), global_batch_size=size) for size, devices in sizes
    ]
    found = charts.looks(results)
    assert [found[row.key].of_result.label for row in results] == [
        "bs 256, 1 dev", "bs 512, 2 dev", "bs 1,024, 1 dev", "bs 2,048, 2 dev"
    ]  # fmt: skip
    (over,) = charts_of_scaling(results)
    assert [curve.label for curve in series_of(over)] == ["bs 256–512", "bs 1,024–2,048"]
    alone = charts.looks(results[:2])  # The devices distinguish these two results.
    assert {look.of_curve.label for look in alone.values()} == {"pytorch"}


def test_curves_over_devices_are_named_by_their_targets():
    results = [
        make_result(devices, ((seconds, 10.0),), targets={"hr_at_10": target})
        for target, times in ((0.635, (8.0, 4.0)), (0.5, (4.0, 3.0)))
        for devices, seconds in zip((1, 2), times, strict=True)
    ]
    (found,) = charts_of_scaling(results)
    assert [curve.label for curve in series_of(found)] == ["target 0.635", "target 0.5"]


def test_important_labels_come_first_and_the_last_ones_are_counted():
    assert charts.shown_labels(["straggler 5 ms", "cpu", "async", "synthetic"])[:2] == (
        "synthetic",
        "cpu",
    )
    several = [f"a label {number}" for number in range(8)]
    assert charts.shown_labels([*several, "cpu", "demo"]) == (
        "demo",
        "cpu",
        *several[:4],
        "and 4 more",
    )


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b\\c\0", "", "é ü", "x" * 500, "CON", HOSTILE]
)
def test_file_names_contain_only_letters_digits_and_dashes(name):
    assert re.fullmatch(r"[a-z0-9-]{1,130}", charts.file_name(1, name))


# --- Time over devices


REFERENCE = {"profile": "reference", "labels": ()}


def test_times_are_drawn_over_devices():
    times = ((1, 8.0), (2, 4.0), (4, 2.5))
    (found,) = charts_of_scaling([make_result(devices, ((time, 1.0),)) for devices, time in times])
    assert found.y_label.startswith("seconds")
    assert places(series_of(found)[0].paths[0]) == ((1.0, 8.0), (2.0, 4.0), (4.0, 2.5))
    assert series_of(found)[0].label == "pytorch"


def test_published_results_are_drawn_only_with_reference_runs_on_gpus():
    article = find_published("dgx1-article")
    for profile, labels in (
        ("demo", ("demo",)),
        ("reference", ("cpu",)),
        ("synthetic", ("synthetic",)),
    ):
        assert charts_of_scaling([make_result(2, profile=profile, labels=labels)], article) == []
    (found,) = charts_of_scaling([make_result(2, **REFERENCE)], article)
    assert [(curve.published, len(curve.paths[0])) for curve in series_of(found)] == [
        (False, 1),
        (True, 3),
    ]
    assert [curve.label for curve in series_of(found)] == ["pytorch", "DGX-1 article"]


def test_profiles_cpus_and_workloads_have_separate_figures_with_reference_runs_first():
    kinds = [
        ("demo", ("cpu", "demo")),
        ("demo", ("demo",)),
        ("reference", ("cpu",)),
        ("reference", ()),
    ]
    results = [
        make_result(devices, profile=profile, labels=labels, workload=workload)
        for profile, labels in kinds for workload in ("ssd", "ncf") for devices in (1, 2)
    ]  # fmt: skip
    found = charts_of_scaling(results)
    in_order = [(), ("cpu",), ("demo",), ("demo", "cpu")]
    assert [shown.labels for shown in found] == [labels for labels in in_order for _ in "ab"]
    assert [shown.title.partition(":")[0] for shown in found] == ["NCF", "SSD"] * 4


def test_speedups_are_the_product_of_their_factors():
    """Table 7 of the article prints a speedup on 8 devices of 15.8 for Transformer, 2.8 for NCF."""
    article = find_published("dgx1-article")
    found = {
        shown.title.partition(":")[0]: shown
        for shown in scaling_charts.speedup_charts(article, charts.looks(article))
    }
    assert len(found) == 6
    for name, speedup in (("Transformer", 15.78), ("NCF", 2.8)):
        values = [[path[0].x for path in bars.paths] for bars in series_of(found[name])]
        place = series_of(found[name])[0].names.index("DGX-1 article, 1 → 8 dev")
        assert values[0][place] == pytest.approx(speedup, abs=0.02)
        for total, throughput, efficiency in zip(*values, strict=True):
            assert total == pytest.approx(throughput * efficiency)


def test_parts_of_the_time_add_up_to_a_run(tmp_path):
    """Each block takes 2 s, including 1.5 s of training and 0.25 s of evaluation."""
    for index in range(2):
        write_run(tmp_path, "a", index, samples=300, train_seconds=1.5, setup_seconds=0.5)
    rows = results(tmp_path)
    (found,) = scaling_charts.parts_charts(rows, charts.looks(rows))
    parts = [part.paths[0][0].x for part in series_of(found)]
    assert parts == pytest.approx([0.5, 3.0, 1.5, 0.75, 0.75])
    assert math.fsum(parts) == pytest.approx(rows[0].run_seconds)
    assert [part.names for part in series_of(found)] == [("pytorch",)] * 5
    assert len({part.slot for part in series_of(found)}) == 5


def test_costs_follow_from_the_price():
    results = [
        make_result(devices, ((seconds, 1.0),)) for devices, seconds in ((1, 3600.0), (2, 3000.0))
    ]
    (found,) = scaling_charts.cost_charts(results, Prices(2.0), charts.looks(results))
    assert places(series_of(found)[0].paths[0]) == ((1.0, 2.0), (2.0, pytest.approx(10 / 3)))


def test_only_our_reference_results_are_drawn_over_published_results():
    ours = [make_result(8, **REFERENCE), make_result(4, profile="demo", labels=("demo",))]
    found = scaling_charts.workload_charts(find_published("v0.5"), ours)
    (ncf,) = [shown for shown in found if shown.title == "NCF"]
    assert [
        [point.x for path in curve.paths for point in path]
        for curve in series_of(ncf)
        if curve.label == "this suite"
    ] == [[8.0]]
    points = sum(len(curve.paths) for curve in series_of(ncf))
    assert points == 1 + len(
        [row for row in find_published("v0.5") if row.workload == "ncf" and row.devices]
    )
    assert all(
        "this suite" not in [curve.label for curve in series_of(shown)]
        for shown in found
        if shown is not ncf
    )


def test_predictions_have_bounds_and_measured_points_do_not():
    (forecast,) = predictions(
        find_published("v0.7/NVIDIA/dgxa100_ngc20.06_mxnet"), PredictionRequest((64,))
    )
    time, work = prediction_charts(forecast)
    assert (time.y_label, work.y_label) == ("seconds per epoch", "scaling efficiency")
    assert [(curve.label, curve.published) for curve in series_of(time)] == [
        ("measured", True),
        ("prediction", False),
    ]
    assert {point.low for point in series_of(time)[0].paths[0]} == {None}
    ((predicted,),) = series_of(time)[1].paths
    assert predicted.x == 64
    assert predicted.low < predicted.y < predicted.high


# --- Studies


def line(rate=None, shown="", **values):
    settings = {
        "stop": "steps:10",
        "to_target": False,
        "samples": rate,
        "train_seconds": 1.0,
        "global_batch_size": 64,
    }
    return StudyLine(values, make_result(**settings) if rate else None, shown)


def study(*lines, kind="bars", y="samples/s"):
    result = StudyResult(
        "own", "", "full", tuple(lines[0].values), lines, figure={"y": y, "kind": kind}
    )
    return study_charts(result, {})


def test_studies_are_curves_over_numbers_or_bars_and_name_the_cells_that_could_not_run():
    lines = (line(1600.0, batch="16"), line(3200.0, batch="64"), line(shown="OOM", batch="4096"))
    (curve,), (bars,) = study(*lines, kind="lines"), study(*lines)
    assert [curve.x_label, curve.y_label] == ["samples per device", "samples/s"]
    assert curve.note == "Not drawn: batch 4096: OOM"
    # The batch sizes come from the results.
    assert places(series_of(curve)[0].paths[0]) == ((64.0, 1600.0), (64.0, 3200.0))
    shown = [(bar.label, *bar.names, bar.paths[0][0].x) for bar in series_of(bars)]
    assert shown == [
        ("batch 16", "1,600", 1600.0),
        ("batch 64", "3,200", 3200.0),
        ("batch 4096", "OOM", 0.0),
    ]
    # The utilization of GPUs was not measured, so the throughput is drawn.
    assert study(*lines, kind="lines", y="GPU %")[0].y_label == "samples/s"
    assert study(lines[2]) == []


@pytest.mark.parametrize(
    ("key", "values", "labels"),
    [
        ("cpu.cores_per_device", ("1", "all"), ["cores per device 1", "cores per device all"]),
        ("gpus", ("1", "2"), ["1 dev", "2 dev"]),
    ],
)
def test_bars_are_labeled_with_the_settings_that_differ(key, values, labels):
    (found,) = study(*(line(1.0, **{"device": "cpu", key: value}) for value in values))
    assert [bar.label for bar in series_of(found)] == labels


def test_a_result_of_a_study_has_the_same_name_and_color_as_in_all_figures_of_the_page():
    settings = [(rate, devices) for rate in (0.01, 0.02) for devices in (1, 2)]
    rows = [make_result(d, hyperparameters={"opt_base_learning_rate": r}) for r, d in settings]
    looks = charts.looks([*rows, make_result(1, framework="mxnet")])
    lines = [
        StudyLine({"gpus": str(d), "rate": str(r)}, row)
        for (r, d), row in zip(settings, rows, strict=True)
    ]
    names_of_results = {look.of_result[:2] for look in (looks.get(row.key) for row in rows)}
    for kind, names in (
        ("bars", names_of_results),
        ("lines", {look.of_curve[:2] for look in looks.values()} - {("mxnet", 0)}),
    ):
        result = StudyResult(
            "own", "", "full", ("gpus", "rate"), tuple(lines), figure={"y": "time", "kind": kind}
        )
        (found,) = study_charts(result, looks)
        assert {(curve.label, curve.slot) for curve in series_of(found)} == names
    assert len(series_of(found)) == len({curve.style for curve in series_of(found)}) == 2


def test_each_mode_has_a_chart():
    found = study(*(line(1.0, mode=mode) for mode in ("forward", "forward_backward")))
    assert [shown.title for shown in found] == [
        "own: samples/s, forward",
        "own: samples/s, forward backward",
    ]


def test_losses_of_a_study_are_drawn_over_epochs_and_seconds(tmp_path):
    lines = demo_log(qualities=(0.3, 0.65), study="own", study_cell=["gpus=1"])
    stats = [place for place, text in enumerate(lines) if "tracked_stats" in text]
    for place, loss in zip(stats, (2.0, 1.5), strict=True):
        lines[place] = lines[place].replace(
            '"loss": 0.25', f'"loss": 0.25, "scores": {{"eval_loss": {loss}}}'
        )
    write(tmp_path / "one" / "run_0" / "result_0.txt", lines)
    (row,) = results(tmp_path)
    over_epochs, over_seconds = study(StudyLine({"gpus": "1"}, row), kind="curves")
    assert places(series_of(over_epochs)[0].paths[0]) == ((1.0, 2.0), (2.0, 1.5))
    assert [point.x for point in series_of(over_seconds)[0].paths[0]] == pytest.approx(
        [2.0, 4.0], abs=0.01
    )


# --- Limits


@given(POINTS)
def test_thinned_curves_keep_ends_and_means(points):
    kept = charts.evenly(points, charts.MAX_POINTS)
    assert len(kept) == min(len(points), charts.MAX_POINTS)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    means = charts.downsample_mean(points)
    assert len(means) <= charts.MAX_POINTS
    assert places(
        charts.finite_points(
            [(1, 2), (None, 2), (1, None), (math.inf, 1), (1, math.nan), (1e300, 1)]
        )
    ) == ((1, 2),)
    if len(points) % (math.ceil(len(points) / charts.MAX_POINTS)) == 0:
        mean = math.fsum(point.y for point in points) / len(points)
        assert math.fsum(point.y for point in means) / len(means) == pytest.approx(
            mean, rel=1e-6, abs=1e-3
        )


# --- Drawing


def parsed(shown):
    """Return the SVG tree of a figure and its texts, and check that it contains no script."""
    tree = ElementTree.fromstring(vega.svg(shown))
    kinds = {element.tag.partition("}")[2] for element in tree.iter()}
    assert kinds <= {"svg", "g", "path", "text", "defs", "clipPath", "rect", "line", "tspan"}
    return tree, [
        "".join(element.itertext()) for element in tree.iter() if element.tag.endswith("}text")
    ]


def test_hostile_text_is_drawn_literally(tmp_path):
    texts = {"title": HOSTILE, "labels": (HOSTILE,), "y_label": "$x"}
    shown = chart(
        Series(HOSTILE, 0, LINE), Series("b", 1, LINE), targets=(Point(0.0, 1.5),), **texts
    )
    _, texts = parsed(shown)
    # The text appears in the title, the labels, and the legend.
    assert sum(HOSTILE[:20] in text for text in texts) == 3
    assert "$x" in texts
    assert "Not verified by MLCommons Association" in " ".join(texts)
    vega.write_figures([shown], tmp_path / "new")
    with pytest.raises(ValueError, match="expected a new or empty folder"):
        vega.write_figures([shown], tmp_path / "new")


INHERITED = (
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "valueOf",
    "__defineGetter__",
)
"""Properties that every JavaScript object inherits."""


@pytest.mark.parametrize(
    "kind", ["lines", "powers", "scaling", "points", "bars", "parts", "ratios"]
)
@pytest.mark.parametrize("name", INHERITED)
def test_names_of_javascript_properties_are_drawn_like_any_name(name, kind):
    in_bars = kind in ("parts", "ratios")
    styles = Style(name, 0), Style("pytorch", 1)
    points = [(style, Point(at, at + style.slot)) for style in styles for at in (1.0, 2.0)]
    marks = [(style, name if in_bars else 0, point) for style, point in points]
    (shown,) = charts.charts("a title", (), ("x", "y"), marks, kind=kind)
    _, texts = parsed(shown)
    assert name in {text.strip("\u2060") for text in texts}
    markers = [
        layer["transform"][-1]
        for layer in vega.spec(shown)["layer"]
        if layer["encoding"].get("shape") == vega.SHAPE
    ]
    assert all("{" not in marker["calculate"] for marker in markers)


@pytest.mark.parametrize("values", [(1.0, 2.0), (0.0, None), (None,), (1e14, 1e-9, 3.0)])
def test_bar_charts_show_their_texts_for_any_values(values):
    paths = [((Point(value or 0.0, 0.0),),) for value in values]
    bars = [
        Series(f"{HOSTILE} {at}", at, path, names=(f"{HOSTILE}{at}",))
        for at, path in enumerate(paths)
    ]
    _, texts = parsed(chart(*bars, title="a", kind="bars"))
    assert {f"{HOSTILE}{at}" for at in range(len(values))} <= {*texts}


ODD = (((1.0, 1e14), (2.0, -1e14)), ((1.0, 1e-300), (2.0, 2e-300)), ((-5.0, 3.0), (1e14, 3.0)))


@pytest.mark.parametrize("points", [((1.0, 1.0),), ((0.0, 0.0),) * 2, *ODD])
def test_extreme_numbers_are_drawn(points):
    path = tuple(Point(*point) for point in points)
    parsed(chart(Series("a", 0, (path,))))
    positive = tuple(Point(max(abs(x), 1.0), max(abs(y), 1e-300)) for x, y in points)
    parsed(chart(Series("a", 0, (positive,)), kind="scaling"))


def test_a_series_has_a_fixed_color_in_files_and_a_css_color_on_the_page():
    shown = chart(Series("#0a62a4", 1, LINE), Series("var(--c0)", vega.OTHER_SLOT, LINE))
    text = vega.svg(shown)
    assert vega.SERIES_COLORS[1] in text
    assert "var(" not in text.replace(">var(--c0)<", "")
    on_page = vega.spec(shown, on_page=True)
    (scale,) = {str(layer["encoding"]["color"]["scale"]) for layer in on_page["layer"]}
    assert scale == str(
        {"domain": ["#0a62a4", "var(--c0)"], "range": ["var(--c1)", "var(--muted)"]}
    )
    assert "#" not in str(on_page["config"])


def rows_of(shown, number_of=None):
    columns = vega.marks(shown, number_of)
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def test_marks_are_the_points_and_ideal_lines_begin_at_the_fewest_devices():
    result = make_result(2)
    path = (Point(2.0, 8.0), Point(8.0, 3.0, result, 2.5, 3.5))
    rows = rows_of(chart(Series("a", 0, (path,)), kind="scaling"), [result].index)
    assert [(row["x"], row["y"]) for row in rows if row["k"] is None] == [(2.0, 8.0), (8.0, 3.0)]
    ideal = [(row["x"], row["y"]) for row in rows if row["k"] == vega.IDEAL]
    assert (ideal[0], ideal[-1]) == ((2.0, 8.0), (8.0, 2.0))
    assert [x * y for x, y in ideal] == pytest.approx([16.0] * 13, rel=1e-3)
    assert [row["row"] for row in rows][:2] == [None, 0]
    assert (rows[1]["low"], rows[1]["high"]) == (2.5, 3.5)
    assert "text" not in rows[0]


def test_long_curves_have_no_markers_and_targets_are_labeled():
    paths = [tuple(Point(float(x), 1.0) for x in range(count)) for count in (20, 21)]
    rows = rows_of(
        chart(
            *(Series(str(at), 0, (path,)) for at, path in enumerate(paths)),
            targets=(Point(0.0, 0.635),),
        )
    )
    assert {row["s"]: row["k"] for row in rows} == {"0": None, "1": vega.UNMARKED, "": vega.TARGET}
    assert [row["text"] for row in rows if row["k"] == vega.TARGET] == ["target 0.635"]
    _, texts = parsed(
        chart(Series("a", 0, LINE), targets=(Point(0.0, 0.635), Point(0.0, 0.635), Point(0.0, 0.5)))
    )
    assert sorted(text for text in texts if text.startswith("target")) == [
        "target 0.5",
        "target 0.635",
    ]


@pytest.mark.parametrize(("count", "paths", "points"), [(6, 6, 0), (7, 1, 3)])
def test_more_than_six_runs_are_drawn_as_their_median_and_a_band(tmp_path, count, paths, points):
    for index in range(count):
        write_run(tmp_path, "a", index, qualities=(0.3 + index / 100, 0.5, 0.65))
    over_epochs, *_ = charts_of(tmp_path)
    drawn = series_of(over_epochs)[0].paths
    assert len(drawn) == paths
    assert sum(point.low is not None for path in drawn for point in path) == points
    if points:
        assert drawn[0][0][:2] == (1.0, pytest.approx(0.33))
        assert (drawn[0][0].low, drawn[0][0].high) == (0.3, pytest.approx(0.36))


@pytest.mark.parametrize(("settings", "opacity"), [(3, 0.18), (4, 0.0)])
def test_files_have_the_bands_of_at_most_three_series(tmp_path, settings, opacity):
    for index in range(7):
        for batch in range(settings):
            write_run(
                tmp_path,
                f"a{batch}",
                index,
                qualities=(0.3 + index / 100, 0.65),
                global_batch_size=256 << batch,
            )
    over_epochs, *_ = charts_of(tmp_path)
    assert ("the minimum, and the maximum" in over_epochs.note, "median" in over_epochs.note) == (
        opacity > 0,
        True,
    )
    tree, _ = parsed(over_epochs)
    shown = [
        element.get("fill-opacity")
        for element in tree.iter()
        if element.get("fill-opacity") in ("0", "0.18")
    ]
    assert [*map(float, shown)] == [opacity] * settings


def test_ticks_are_the_exact_device_counts():
    path = (Point(1.0, 67.0), Point(12.0, 48.0))
    shown = chart(Series("a", 0, (path,)), kind="scaling", x_label="devices", y_label="seconds")
    x, y = (
        (encoding := vega.spec(shown)["layer"][-1]["encoding"])["x"]["axis"],
        encoding["y"]["axis"],
    )
    assert (x["values"], "values" in y) == ([1.0, 12.0], False)
    _, texts = parsed(shown)
    assert {"1", "12"} <= {*texts}


@pytest.mark.parametrize(
    ("last", "kinds"),
    [
        ((2.9, 9.9), ("linear", "linear")),
        ((3.0, 9.9), ("log", "linear")),
        ((3.0, 10.0), ("log", "log")),
    ],
)
def test_axes_are_logarithmic_if_values_span_a_large_factor(last, kinds):
    """Check the limits: a factor of three for devices, and a factor of ten for times and rates.

    The limit for times and rates is higher because a logarithmic axis has no zero.
    """
    path = (Point(1.0, 1.0), Point(*last))
    for layer in vega.spec(chart(Series("a", 0, (path,)), kind="powers"))["layer"]:
        assert (
            tuple(layer["encoding"][axis]["scale"].get("type", "linear") for axis in "xy") == kinds
        )


def ticks_of(tree):
    """Return the numbers at the ticks of the x axis and of the y axis of a figure."""
    axes = [element for element in tree.iter() if "role-axis-label" in element.get("class", "")]
    found = [
        [
            float(text.replace(",", "").replace("−", "-"))
            for text in element.itertext()
            if text.strip()
        ]
        for element in axes
    ]
    return [ticks for ticks in found if ticks]


THROUGHPUT = (Point(3.4, 497_834.0), Point(5.8, 298_267.0), Point(11.3, 399_877.0))


@pytest.mark.parametrize(
    "options", [{"from_zero": True, "x_label": "seconds"}, {"kind": "scaling"}, {"kind": "powers"}]
)
def test_axes_of_times_and_rates_begin_at_zero(options):
    tree, _ = parsed(chart(Series("a", 0, (THROUGHPUT,)), **options))
    x, y = ticks_of(tree)
    assert (min(y), max(y) >= 400_000) == (0, True)
    if options.get("kind", "lines") == "lines":
        assert min(x) == 0


def test_axes_that_begin_at_zero_have_no_padding():
    """Padding would extend such a scale into negative numbers."""
    for options in ({"from_zero": True}, {"kind": "scaling"}):
        for layer in vega.spec(chart(Series("a", 0, (THROUGHPUT,)), **options))["layer"]:
            scales = [layer["encoding"][axis]["scale"] for axis in "xy"]
            zero = [scale for scale in scales if scale.get("zero")]
            assert zero
            assert all("padding" not in scale for scale in zero)


def text_boxes(tree):
    """Return each text of a figure with its bounding box.

    A box is (left, top, right, bottom) in pixels relative to the figure. Widths are estimates from
    the font size.
    """
    found = []

    def visit(element, x, y, is_turned):
        for kind, numbers in re.findall(
            r"(translate|rotate)\(([^)]*)\)", element.get("transform", "")
        ):
            values = [float(number) for number in re.split(r"[ ,]+", numbers.strip())]
            if kind == "rotate":
                is_turned = is_turned or values[0] != 0
            else:
                right, down = values[0], values[1] if len(values) > 1 else 0.0
                x, y = (x + down, y - right) if is_turned else (x + right, y + down)
        text = "".join(element.itertext()).strip()
        if element.tag.endswith("}text") and text and element.get("opacity") != "0":
            size = float((element.get("font-size") or "11px").removesuffix("px"))
            width = 0.6 * size * len(text)
            before = width * {"middle": 0.5, "end": 1.0}.get(element.get("text-anchor"), 0.0)
            if is_turned:
                found.append(
                    (text, (x - 0.75 * size, y - width + before, x + 0.2 * size, y + before))
                )
            else:
                found.append(
                    (text, (x - before, y - 0.75 * size, x - before + width, y + 0.2 * size))
                )
        for child in element:
            visit(child, x, y, is_turned)

    visit(tree, 0.0, 0.0, False)
    return found


def overlaps(shown):
    tree, _ = parsed(shown)
    boxes = text_boxes(tree)
    return [
        (text, second)
        for (text, (left, top, right, bottom)), (
            second,
            (left_2, top_2, right_2, bottom_2),
        ) in combinations(boxes, 2)
        if left < right_2 and left_2 < right and top < bottom_2 and top_2 < bottom
    ]


def test_texts_of_a_figure_do_not_overlap():
    two = Series("1 dev", 0, (THROUGHPUT[:2],)), Series("2 dev", 0, (THROUGHPUT[1:],), style=1)
    for options in (
        {"from_zero": True},
        {"kind": "scaling"},
        {"kind": "powers"},
        {"kind": "points"},
    ):
        assert overlaps(chart(*two, **options)) == []
    for targets in ((0.635, 0.63), (0.759, 0.749, 0.3), (0.635, 0.635)):
        points = tuple(
            Point(float(epoch), quality) for epoch, quality in enumerate((0.2, 0.5, 0.77))
        )
        assert (
            overlaps(
                chart(
                    Series("a", 0, (points,)),
                    targets=tuple(Point(0.0, target) for target in targets),
                )
            )
            == []
        )
    article = find_published("dgx1-article")
    for shown in (
        *charts_of_scaling(article),
        *scaling_charts.speedup_charts(article, charts.looks(article)),
    ):
        assert overlaps(shown) == []


def test_the_neutral_speedup_is_marked_separately_for_each_name():
    """A single line over the full height of the figure would cross the names."""
    names = ("1 → 2 dev", "1 → 4 dev")
    factors = Series(
        "speedup", charts.WHOLE, ((Point(0.62, 0.0),), (Point(2.1, 0.0),)), names=names
    )
    tree, _ = parsed(chart(factors, kind="ratios"))
    boxes = [box for text, box in text_boxes(tree) if text in names]
    spec = vega.spec(chart(factors, kind="ratios"))
    neutral, points = spec["layer"]
    assert (neutral["encoding"]["x"]["datum"], neutral["encoding"]["y"]["field"]) == (1, "name")
    assert len(boxes) == 2
    assert neutral["mark"]["size"] / 2 - neutral["mark"]["yOffset"] < vega.STEP / 2 - 2, (
        "below the names"
    )
    assert points["encoding"]["shape"]["scale"]["range"] == ["circle"]


# --- Colors, lines, and markers


def test_curves_differ_in_color_and_curves_of_one_framework_in_line_and_marker_too():
    slots = charts.framework_slots(["pytorch", "jax", "mxnet"])
    results = [
        make_result(framework=name, hyperparameters={"opt_x": at})
        for at, name in enumerate(("pytorch", "jax", "pytorch", "mxnet", "pytorch"))
    ]
    found = charts.looks(results)
    assert {found[row.key].of_result.slot for row in results} == {
        *map(slots.get, ("pytorch", "jax", "mxnet"))
    }
    marks = [(found[row.key].of_result, 0, Point(1.0, 1.0)) for row in results]
    looks = vega.look(*charts.charts("a", results, ("x", "y"), marks))
    assert len({look["color"] for look in looks}) == 5
    assert [look["color"] for look in looks[:2]] == [
        f"var(--c{slots[name]})" for name in ("pytorch", "jax")
    ]
    assert looks[3]["color"] == f"var(--c{slots['mxnet']})", (
        "further curves of PyTorch do not take the color of MXNet"
    )
    assert (
        len({str(look["dash"]) for look in looks[::2]})
        == len({look["shape"] for look in looks[::2]})
        == 3
    )
    many = charts.framework_slots(f"other {index}" for index in range(9))
    assert sorted(many.values()) == list(range(charts.COLORS))
    all_slots = [*range(charts.COLORS), charts.WHOLE, *charts.PARTS, *charts.OF_SPEEDUPS[1:]]
    assert all_slots == list(range(len(vega.SERIES_COLORS)))


@pytest.mark.parametrize("published", [False, True])
def test_up_to_twelve_curves_have_distinct_colors(published):
    series = [Series(str(at), 1, LINE, published and at > 0, style=at) for at in range(12)]
    for kind in ("lines", "powers", "scaling"):
        shown = chart(*series, kind=kind)
        assert len({look["color"] for look in vega.look(shown)}) == 12
        (colors,) = {
            tuple(layer["encoding"]["color"]["scale"]["range"]) for layer in lines_of(shown)
        }
        assert len(set(colors)) == 12
        assert colors[0] == vega.SERIES_COLORS[1]


def lines_of(shown):
    return [layer for layer in vega.spec(shown)["layer"] if "color" in layer["encoding"]]


@pytest.mark.parametrize(("published", "distinct"), [(False, 24), (True, 18)])
def test_series_of_the_same_color_differ_in_line_or_marker(published, distinct):
    looks = vega.look(
        chart(*(Series(str(at), 0, LINE, published, style=at) for at in range(distinct)))
    )
    assert len({(str(look["dash"]), look["shape"]) for look in looks}) == distinct


@pytest.mark.parametrize(("runs", "paths"), [(24, 3), (27, 1)])
def test_each_result_is_drawn_as_its_median_if_a_figure_has_more_than_24_runs(
    tmp_path, runs, paths
):
    for number in range(runs):
        write_run(tmp_path, f"a{number // 3}", number % 3, global_batch_size=64 << number // 3)
    over_epochs, *_ = charts_of(tmp_path)
    assert {len(curve.paths) for curve in series_of(over_epochs)} == {paths}
    note = (
        "For results with several runs: the median, up to the point that half of the runs reached"
    )
    assert over_epochs.note == (note if paths == 1 else "")


def test_legends_of_files_have_the_same_dashes_as_the_lines():
    shown = chart(*(Series(str(at), at, LINE, style=at) for at in range(4)))
    tree, _ = parsed(shown)
    for slot, dash in enumerate(("", "6,2", "2,2", "6,2,2,2")):
        of = [
            element for element in tree.iter() if element.get("stroke") == vega.SERIES_COLORS[slot]
        ]
        # Both the curve and its sample in the legend have the dashes.
        assert [element.get("stroke-dasharray") for element in of] == [dash, dash]


def test_an_accelerator_has_the_same_color_and_shape_in_all_figures():
    """Check the figures of all rounds, which have more than 18 kinds of accelerators."""
    found = scaling_charts.workload_charts(published_results())
    looks = {
        (look["name"], look["color"], look["shape"]) for each in found for look in vega.look(each)
    }
    assert len({name for name, *_ in looks}) == len(looks) == len({look[1:] for look in looks}) > 18
    assert "other accelerators" not in {name for name, *_ in looks}


def luminance(color):
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_color_of_the_figures_has_enough_contrast_in_the_light_and_dark_style():
    for color, name in vega.CSS_VARIABLES.items():
        assert re.findall(rf"{name}: (#[0-9a-f]{{6}})", SHEET)[0] == color
    for index in range(2):  # The style sheet defines the light colors first, then the dark ones.
        for ground in ("paper", "ground"):
            paper = luminance(re.findall(rf"--{ground}: (#[0-9a-f]{{6}})", SHEET)[index])
            series = [
                f"c{slot}" for slot in range(len(vega.SERIES_COLORS) if ground == "paper" else 0)
            ]
            for name in ("ink", "muted", "bad", "link", *series):
                text = luminance(re.findall(rf"--{name}: (#[0-9a-f]{{6}})", SHEET)[index])
                assert (max(paper, text) + 0.05) / (min(paper, text) + 0.05) >= 4.5, (
                    name,
                    ground,
                    index,
                )
