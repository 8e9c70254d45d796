"""Figures: what is drawn of runs, studies and predictions, under which names; valid SVG whatever the texts and numbers."""

import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from suite.results import table
from suite.results.columns import rows
from suite.results.render.html import plots
from suite.results.render.html.curves import blocks, table_charts
from suite.results.render.html.figures import (
    draw,
    inline_svg,
    matplotlib_settings,
    number_text,
    spread_labels,
    write_figures,
)
from suite.results.render.html.plots import Chart, Series, file_name, finite_points, framework_slots, result_names
from suite.results.render.html.scaling import forecast_charts, scaling_charts
from suite.results.render.html.studies import study_charts
from suite.results.scores import find_published, result_rows
from suite.results.views.report import together
from suite.results.views.scaling import Wanted, forecasts
from suite.results.views.study import StudyResult
from suite.results.views.study_columns import Line
from tests.suite.results.fake_logs import demo_log, write, write_run
from tests.suite.results.rows import make_result

HOSTILE = "$\\frac{1$ <b>&\"' --> ]]> 字 \u0301"
NUMBERS = st.floats(-1e14, 1e14, allow_nan=False)
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=300).map(tuple)
LINE = (((1.0, 1.0), (2.0, 2.0)),)
SHEET = (Path(plots.__file__).parent / "templates" / "page.css").read_text()


def chart(*series, **options):
    named = {"name": "a", "title": "title", "labels": ("demo",), "x_label": "epochs", "y_label": "top1", **options}
    return Chart(series=series, **named)


def charts_of(root):
    (found,) = together(result_rows(table(root)))
    return table_charts(found, 1, framework_slots([]))


def svg(shown, name="f"):
    with matplotlib_settings():
        return inline_svg(draw(shown), name, shown.title)


# --- runs ---------------------------------------------------------------------------------------------------------------


def test_curves_hold_the_evaluations_of_the_log(tmp_path):
    for index in range(2):
        write_run(tmp_path, "a", index, qualities=(0.3, 0.5, 0.65), seconds_per_epoch=2.0 + index)
    over_epochs, over_time, *_ = charts_of(tmp_path)
    assert over_epochs.series[0].paths == (((1.0, 0.3), (2.0, 0.5), (3.0, 0.65)),) * 2
    assert (over_epochs.target, over_epochs.labels) == (0.635, ("demo", "cpu"))
    assert over_time.x_label == "seconds"
    for path, seconds in zip(over_time.series[0].paths, ([2, 4, 6], [3, 6, 9]), strict=True):
        assert [x for x, _ in path] == pytest.approx(seconds, abs=0.01)


def test_throughput_and_data_wait_of_each_block(tmp_path):
    write_run(tmp_path, "a", samples=300, train_seconds=1.5)
    *_, throughput, data_wait = charts_of(tmp_path)
    (rates,), (waits,) = throughput.series, data_wait.series
    assert [one.title for one in (throughput, data_wait)] == ["ncf: throughput over time", "ncf: data wait over time"]
    assert [y for _, y in rates.paths[0]] == [200.0] * 3
    assert [y for _, y in waits.paths[0]] == pytest.approx([100 / 3] * 3)  # 0.5 of 1.5 s
    assert [x for x, _ in rates.paths[0]] == pytest.approx([2, 4, 6], abs=0.01)


def test_blocks_without_an_evaluation_lie_at_the_seconds_worked_so_far(tmp_path):
    write_run(tmp_path, "a", qualities=(None, None), stop="epochs:2", train_seconds=1.5)
    (row,) = rows(table(tmp_path))
    assert [seconds for seconds, _, _ in blocks(row.record)] == [1.75, 3.5]


def test_bleu_is_drawn_in_points_whatever_the_log_has(tmp_path):
    write_run(tmp_path, "a", workload="gnmt", qualities=(0.2, 0.65), targets={"bleu": 0.635})
    over_epochs, *_ = charts_of(tmp_path)
    assert over_epochs.x_label == "epochs"
    assert over_epochs.target == pytest.approx(63.5)
    assert [y for _, y in over_epochs.series[0].paths[0]] == pytest.approx([20.0, 65.0])


# --- names --------------------------------------------------------------------------------------------------------------


def test_names_say_in_words_what_tells_results_apart():
    slow, fast = ({"opt_base_learning_rate": rate, "opt_name": "adam"} for rate in (0.002, 0.006))
    results = [make_result(devices, hyperparameters=keys) for devices, keys in ((1, slow), (2, slow), (2, fast))]
    results.append(make_result(2, hyperparameters=slow, targets={"hr_at_10": 0.5}))
    assert result_names(results[:2]) == ["pytorch, 1 device", "pytorch, 2 devices"]
    assert result_names(results) == [
        "pytorch, 1 device",
        "pytorch, 2 devices",
        "pytorch, 2 devices, learning rate 0.006",
        "pytorch, 2 devices, target hr_at_10 0.5",
    ]


def test_curves_over_devices_are_named_by_their_targets():
    results = [
        make_result(devices, ((seconds, 10.0),), targets={"hr_at_10": target})
        for target, times in ((0.635, (8.0, 4.0)), (0.5, (4.0, 3.0)))
        for devices, seconds in zip((1, 2), times, strict=True)
    ]
    (found,) = scaling_charts(results)
    assert [one.label for one in found.series] == ["target hr_at_10 0.635", "target hr_at_10 0.5"]


def test_labels_that_must_not_be_missed_come_first_and_others_are_counted():
    assert plots.shown_labels(["straggler 5 ms", "cpu", "async", "synthetic"])[:2] == ("synthetic", "cpu")
    several = [f"a label {number}" for number in range(8)]
    assert plots.shown_labels([*several, "cpu", "demo"]) == ("demo", "cpu", *several[:4], "and 4 more")


def test_labels_that_differ_at_their_ends_differ_in_the_figure():
    names = [f"{'a long name of a system ' * 5}{end}" for end in ("pytorch", "mxnet")]
    text = svg(chart(*(Series(name, 0, LINE, style=at) for at, name in enumerate(names))))
    assert all(re.search(rf">[^<]*{end}</text>", text) for end in ("pytorch", "mxnet"))


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b\\c\0", "", "é ü", "x" * 500, "CON", HOSTILE])
def test_file_names_hold_letters_digits_and_dashes_alone(name):
    assert re.fullmatch(r"[a-z0-9-]{1,130}", file_name("01", name))


# --- time over devices --------------------------------------------------------------------------------------------------


def test_time_over_devices_and_speedup():
    times = ((1, 8.0), (2, 4.0), (4, 2.5))
    (found,) = scaling_charts([make_result(devices, ((time, 1.0),)) for devices, time in times])
    assert found.y_label.startswith("seconds")
    assert found.series[0].paths[0] == ((1.0, 8.0), (2.0, 4.0), (4.0, 2.5))
    assert found.inset[0].paths[0] == ((1.0, 1.0), (2.0, 2.0), (4.0, 3.2))
    assert found.series[0].label == "pytorch"


def test_one_number_of_devices_is_no_curve_but_stands_beside_published_ones():
    ours = [make_result(2)]
    assert scaling_charts(ours) == []
    (found,) = scaling_charts(ours, find_published("dgx1-article"))
    assert [(one.published, len(one.paths[0])) for one in found.series] == [(False, 1), (True, 3)]
    assert [one.label for one in found.series] == ["pytorch", "DGX-1 article"]


def test_the_article_has_its_own_speedups():
    (found,) = scaling_charts(find_published("dgx1-article"))
    ends = {one.label: one.paths[0][-1] for one in found.inset}
    assert len(ends) == 6
    assert ends["transformer, DGX-1 article"] == (8.0, pytest.approx(15.78, abs=0.01))  # table 7: 15.8
    assert ends["ncf, DGX-1 article"] == (8.0, pytest.approx(2.8, abs=0.02))


def test_many_curves_have_a_figure_for_each_workload():
    results = [
        make_result(devices, workload=workload, framework=framework)
        for workload in ("ncf", "ssd", "gnmt")
        for framework in ("pytorch", "mxnet", "tensorflow")
        for devices in (1, 2)
    ]
    found = scaling_charts(results)
    assert [one.title for one in found] == [f"Time to target, {name}" for name in ("gnmt", "ncf", "ssd")]
    assert [sorted(series.label for series in one.series) for one in found] == [["mxnet", "pytorch", "tensorflow"]] * 3
    assert len({one.name for one in found}) == 3


def test_predictions_have_bounds_and_measured_points_none():
    (made,) = forecasts(find_published("v0.7/NVIDIA/dgxa100_ngc20.06_mxnet"), Wanted((64,)))
    time, work = forecast_charts(made, 1)
    assert (time.y_label, work.y_label) == ("seconds per epoch", "work of a device over the fewest")
    assert [(one.label, one.published) for one in time.series] == [("measured", True), ("prediction", False)]
    assert time.series[0].ranges == ()
    ((x, low, high),) = time.series[1].ranges
    assert x == 64
    assert low < time.series[1].paths[0][0][1] < high


# --- studies ------------------------------------------------------------------------------------------------------------


def line(rate=None, shown="", **values):
    """A cell of a study, measured at `rate` samples/s."""
    settings = {"stop": "steps:10", "to_target": False, "samples": rate, "train_seconds": 1.0, "batch_size_global": 64}
    return Line(values, make_result(**settings) if rate else None, shown)


def study(*lines, kind="bars", y="samples/s"):
    result = StudyResult("own", "", "full", tuple(lines[0].values), lines, figure={"y": y, "kind": kind})
    return study_charts(result, 1, framework_slots([]))


def test_studies_are_curves_over_numbers_or_bars_with_a_place_for_what_could_not_run():
    lines = (line(1600.0, batch="16"), line(3200.0, batch="64"), line(shown="OOM", batch="4096"))
    (curve,), (bars,) = study(*lines, kind="lines"), study(*lines)
    assert [curve.x_label, curve.y_label] == ["samples of a device", "samples/s"]
    assert curve.note == "Not drawn: batch 4096: OOM"
    assert curve.series[0].paths == (((64.0, 1600.0), (64.0, 3200.0)),)  # as the results have it
    assert {bar.label: bar.text for bar in bars.series} == {
        "batch 16": "1,600",
        "batch 64": "3,200",
        "batch 4096": "OOM",
    }
    assert bars.series[2].paths == ()
    assert study(*lines, kind="lines", y="GPU %")[0].y_label == "samples/s"  # what was not measured gives way
    assert study(lines[2]) == []


@pytest.mark.parametrize(
    ("key", "values", "labels"),
    [
        ("cpu.cores_per_device", ("1", "all"), ["cores per device 1", "cores per device all"]),
        ("gpus", ("1", "2"), ["1 device", "2 devices"]),
    ],
)
def test_bars_leave_out_what_is_alike_and_say_what_numbers_are(key, values, labels):
    (found,) = study(*(line(1.0, **{"device": "cpu", key: value}) for value in values))
    assert [bar.label for bar in found.series] == labels


def test_each_mode_has_a_chart():
    found = study(*(line(1.0, mode=mode) for mode in ("forward", "forward_backward")))
    assert [one.title for one in found] == ["own: samples/s, forward", "own: samples/s, forward backward"]


def test_losses_of_a_study_over_epochs_and_seconds(tmp_path):
    lines = demo_log(qualities=(0.3, 0.65), study="own", study_cell=["gpus=1"])
    stats = [place for place, text in enumerate(lines) if "tracked_stats" in text]
    for place, loss in zip(stats, (2.0, 1.5), strict=True):
        lines[place] = lines[place].replace('"loss": 0.25', f'"loss": 0.25, "scores": {{"eval_loss": {loss}}}')
    write(tmp_path / "one" / "run_0" / "result_0.txt", lines)
    (row,) = result_rows(table(tmp_path))
    over_epochs, over_seconds = study(Line({"gpus": "1"}, row), kind="curves")
    assert over_epochs.series[0].paths == (((1.0, 2.0), (2.0, 1.5)),)
    assert [x for x, _ in over_seconds.series[0].paths[0]] == pytest.approx([2.0, 4.0], abs=0.01)


# --- bounds -------------------------------------------------------------------------------------------------------------


@given(POINTS)
def test_thinned_curves_keep_ends_and_means(points):
    kept = plots.evenly(points, plots.MAX_POINTS)
    assert len(kept) == min(len(points), plots.MAX_POINTS)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    means = plots.downsample_mean(points)
    assert len(means) <= plots.MAX_POINTS
    assert finite_points([(1, 2), (None, 2), (1, None), (math.inf, 1), (1, math.nan), (1e300, 1)]) == ((1, 2),)
    if len(points) % (math.ceil(len(points) / plots.MAX_POINTS)) == 0:
        mean = math.fsum(y for _, y in points) / len(points)
        assert math.fsum(y for _, y in means) / len(means) == pytest.approx(mean, rel=1e-6, abs=1e-3)


@given(st.lists(st.floats(0, 200), min_size=1, max_size=12), st.floats(1, 15))
def test_labels_are_spread_without_overlap(heights, gap):
    placed = spread_labels(sorted(heights), gap, 200)
    assert all(after - before >= gap - 1e-6 for before, after in pairwise(placed))
    assert max(placed) <= 200


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05, "0.05"), (250, "250"), (1.5e6, "1.5M"), (20000, "20k"), (0, "0"), (-3e9, "-3G"), (5000, "5000")],
)
def test_ticks(value, text):
    assert number_text(value) == text


# --- drawing ------------------------------------------------------------------------------------------------------------


def test_hostile_text_is_drawn_as_it_is(tmp_path):
    shown = chart(Series(HOSTILE, 0, LINE), title=HOSTILE, labels=(HOSTILE,), y_label="$x", target=1.5)
    tree = ElementTree.fromstring(svg(shown))
    texts = ["".join(element.itertext()) for element in tree.iter("text")]
    assert HOSTILE[:20] in " ".join(texts)
    assert "$x (dashed: target 1.5)" in texts
    assert {element.tag for element in tree.iter()} <= {"svg", "g", "path", "text", "defs", "use", "clipPath", "rect"}
    write_figures([shown], tmp_path / "new")


@pytest.mark.parametrize("values", [(1.0, 2.0), (0.0, None), (None,), (1e14, 1e-9, 3.0)])
def test_bar_charts_are_valid_svg_whatever_their_texts(values):
    paths = [() if value is None else (((value, 0.0),),) for value in values]
    bars = [Series(f"{HOSTILE} {at}", at, path, text=HOSTILE) for at, path in enumerate(paths)]
    ElementTree.fromstring(svg(chart(*bars, title=HOSTILE, kind="bars")))


def test_what_stands_below_a_figure_is_not_cut():
    labels = ("busy machine", "cpu", "small version", "synthetic")
    with matplotlib_settings():
        figure = draw(chart(Series("a", 0, (((1.0, 0.0),),), text="1"), labels=labels, kind="bars"))
        (below,) = [text for text in figure.texts if "Not verified" in text.get_text()]
        assert below.get_window_extent(FigureCanvasAgg(figure).get_renderer()).x1 <= figure.bbox.x1


ODD = (((1.0, 1e14), (2.0, -1e14)), ((1.0, 1e-300), (2.0, 2e-300)), ((-5.0, 3.0), (1e14, 3.0)))


@pytest.mark.parametrize("points", [((1.0, 1.0),), ((0.0, 0.0),) * 2, *ODD])
def test_odd_numbers_are_drawn(points):
    ElementTree.fromstring(svg(chart(Series("a", 0, (points,)))))
    positive = tuple((max(abs(x), 1.0), max(abs(y), 1e-300)) for x, y in points)
    ElementTree.fromstring(svg(chart(Series("a", 0, (positive,)), kind="scaling")))


def test_the_figure_grows_with_its_labels_up_to_a_bound():
    def drawn(count):
        return svg(chart(*(Series(f"run {index}", index, (((1.0, index), (2.0, index)),)) for index in range(count))))

    assert set(re.findall(r">(run \d+)<", drawn(30))) == {f"run {index}" for index in range(30)}
    named, (more,) = set(re.findall(r">(run \d+)<", drawn(60))), re.findall(r">and (\d+) more<", drawn(60))
    assert len(named) + int(more) == 60
    assert len(named) >= 30


def test_a_hundred_runs_are_one_element():
    text = svg(chart(Series("a", 0, tuple(((1.0, 0.1), (2.0, index / 100)) for index in range(100)))))
    assert text.count("stroke: var(--c0); stroke-opacity: 0.65") == 1


def test_page_figures_take_their_colours_from_the_page_and_files_have_their_own(tmp_path):
    shown = chart(Series("var(--c0) #0a62a4", 0, LINE))
    text = svg(shown)
    assert not re.search(r"#[0-9a-f]{6}", re.sub(r">[^<]*<", "><", text))
    assert {"--c0", "--ink", "--muted", "--grid"} <= set(re.findall(r"var\((--[a-z0-9]+)\)", text))
    assert "#0a62a4" in text  # a name is left as it is
    write_figures([shown], tmp_path / "new")
    written = (tmp_path / "new" / "a.svg").read_text()
    assert "stroke: #0a62a4" in written
    assert "stroke: var(" not in written
    with pytest.raises(ValueError, match="not an empty folder"):
        write_figures([shown], tmp_path / "new")


# --- the look -----------------------------------------------------------------------------------------------------------


def test_a_colour_is_one_framework_and_its_curves_differ_in_line_and_marker():
    slots = framework_slots(["pytorch", "jax", "mxnet"])
    curves = [("a", name, ()) for name in ("pytorch", "jax", "pytorch", "mxnet", "pytorch")]
    looks = [one.look for one in plots.series_of(curves, slots)]
    assert len({one["color"] for one in looks}) == 3
    assert len({one["color"] for one in looks[::2]}) == 1
    assert len({one["marker"] for one in looks[::2]}) == len({one["linestyle"] for one in looks[::2]}) == 3
    many = framework_slots(f"other {index}" for index in range(9))
    assert sorted(many.values()) == list(range(len(plots.SERIES_COLOURS)))
    assert Series("a", plots.OTHER_SLOT, ()).colour == plots.MUTED


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_of_the_figures_is_in_the_style_sheet_twice_with_enough_contrast():
    for colour, name in plots.CSS_VARIABLES.items():
        assert re.findall(rf"{name}: (#[0-9a-f]{{6}})", SHEET)[0] == colour
    for index in range(2):  # light and dark
        paper = luminance(re.findall(r"--paper: (#[0-9a-f]{6})", SHEET)[index])
        for name in ("ink", "muted", "bad", "link", *(f"c{slot}" for slot in range(len(plots.SERIES_COLOURS)))):
            text = luminance(re.findall(rf"--{name}: (#[0-9a-f]{{6}})", SHEET)[index])
            assert (max(paper, text) + 0.05) / (min(paper, text) + 0.05) >= 4.5, (name, index)


def test_settings_of_matplotlib_are_put_back():
    import matplotlib

    matplotlib.rcParams["font.size"] = 31.0
    svg(chart(Series("a", 0, (((1.0, 1.0),),))))
    assert matplotlib.rcParams["font.size"] == 31.0
    matplotlib.rcdefaults()
