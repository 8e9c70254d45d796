import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.html import theme
from suite.results.html.charts import (
    MAX_POINTS,
    Chart,
    ScalingChart,
    Series,
    downsample,
    downsample_mean,
    evenly_chosen,
    finite_points,
)
from suite.results.html.curves import blocks, file_name, table_charts
from suite.results.html.export import inline_svg, write_files
from suite.results.html.figures import draw, matplotlib_settings, number_text, spread_labels
from suite.results.html.labels import row_labels, shown_labels
from suite.results.html.scaling_curves import scaling_charts
from suite.results.logs.collect import collect
from suite.results.published.csv_files import find_published_results
from suite.results.report.report import split_into_tables
from suite.results.score.groups import rows
from suite.results.score.measurement import measurements
from tests.suite.results.fake_logs import write_run

HOSTILE = "$\\frac{1$ <b>&\"' --> ]]> 字 \u0301"
NUMBERS = st.floats(-1e14, 1e14, allow_nan=False)
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=300).map(tuple)


def chart(*series, **options):
    named = {"name": "a", "title": "title", "labels": ("demo",), "x_label": "epochs", "y_label": "top1", **options}
    return Chart(series=series, **named)


def charts_of(root):
    (table,) = split_into_tables(rows(collect([root])))
    return {one.title: one for one in table_charts(table, 1)}


def svg(shown, name="f"):
    with matplotlib_settings():
        return inline_svg(draw(shown), name, shown.title)


# --- what is drawn ------------------------------------------------------------------------------------------------------


def test_curves_hold_the_evaluations_of_the_log(tmp_path):
    for index in range(2):
        write_run(tmp_path, "a", index, qualities=(0.3, 0.5, 0.65), seconds_per_epoch=2.0 + index)
    found = charts_of(tmp_path)
    over_epochs, over_time = found["ncf: hr_at_10 over epochs"], found["ncf: hr_at_10 over time"]
    (series,) = over_epochs.series
    assert series.paths == (((1.0, 0.3), (2.0, 0.5), (3.0, 0.65)),) * 2
    assert (over_epochs.target, over_epochs.target_label, over_epochs.labels) == (
        0.635,
        "target 0.635",
        ("demo", "cpu"),
    )
    (series,) = over_time.series
    assert over_time.x_label == "seconds"
    assert [x for x, _ in series.paths[0]] == pytest.approx([2, 4, 6], abs=0.01)
    assert [x for x, _ in series.paths[1]] == pytest.approx([3, 6, 9], abs=0.01)


def test_long_runs_are_drawn_in_minutes(tmp_path):
    write_run(tmp_path, "a", seconds_per_epoch=120.0)
    over_time = charts_of(tmp_path)["ncf: hr_at_10 over time"]
    assert over_time.x_label == "minutes"
    assert [x for x, _ in over_time.series[0].paths[0]] == pytest.approx([2, 4, 6], abs=0.01)


def test_throughput_and_data_wait_of_each_block(tmp_path):
    write_run(tmp_path, "a", samples=300, train_seconds=1.5)
    found = charts_of(tmp_path)
    (rates,) = found["ncf: throughput over time"].series
    (waits,) = found["ncf: data wait over time"].series
    assert [y for _, y in rates.paths[0]] == [200.0] * 3
    assert [y for _, y in waits.paths[0]] == pytest.approx([100 / 3] * 3)  # 0.5 of 1.5 s
    assert [x for x, _ in rates.paths[0]] == pytest.approx([2, 4, 6], abs=0.01)


def test_blocks_without_an_evaluation_lie_at_the_seconds_worked_so_far(tmp_path):
    write_run(tmp_path, "a", qualities=(None, None), stop="epochs:2", train_seconds=1.5)
    (run,) = collect([tmp_path])
    assert [seconds for seconds, _, _ in blocks(run.reading.record)] == [1.75, 3.5]


def test_labels_that_must_not_be_missed_come_first_and_others_are_counted():
    assert shown_labels(["straggler 5 ms", "cpu", "async", "synthetic"]) == (
        "synthetic",
        "cpu",
        "async",
        "straggler 5 ms",
    )
    several = [f"a label {number}" for number in range(8)]
    assert shown_labels([*several, "cpu", "demo"]) == ("demo", "cpu", *several[:4], "and 4 more")


def test_labels_say_what_tells_rows_apart(tmp_path):
    write_run(tmp_path, "a", devices=1)
    write_run(tmp_path, "b", devices=2)
    write_run(tmp_path, "c", devices=2, precision="bf16")
    write_run(tmp_path, "d", devices=2, keys={"opt_base_learning_rate": 1.0})
    (table,) = split_into_tables(rows(collect([tmp_path])))
    labels = row_labels(table)
    assert len(set(labels)) == 4
    assert labels[0] == "pytorch, 1 device, fp32, base_learning_rate 0.003"
    assert sorted(label.removeprefix("pytorch, 2 devices, ") for label in labels[1:]) == [
        "bf16, base_learning_rate 0.003",
        "fp32, base_learning_rate 0.003",
        "fp32, base_learning_rate 1.0",
    ]
    assert row_labels(table[:2]) == ["pytorch, 1 device", "pytorch, 2 devices"]


def test_time_over_devices_and_speedup(tmp_path):
    for devices, seconds in ((1, 8.0), (2, 4.0), (4, 2.5)):
        write_run(tmp_path, f"{devices}", qualities=(0.65,), seconds_per_epoch=seconds, devices=devices)
    (found,) = scaling_charts(measurements(rows(collect([tmp_path]))))
    assert (found.unit, found.times[0].paths[0]) == ("seconds", ((1.0, 8.0), (2.0, 4.0), (4.0, 2.5)))
    assert found.speedups[0].paths[0] == ((1.0, 1.0), (2.0, 2.0), (4.0, 3.2))
    assert found.labels == ("demo", "cpu")


def test_one_number_of_devices_is_no_curve_but_stands_beside_published_ones(tmp_path):
    write_run(tmp_path, "a", devices=2)
    ours = measurements(rows(collect([tmp_path])))
    assert scaling_charts(ours) == []
    (found,) = scaling_charts(ours, [item.measurement for item in find_published_results("dgx1-article")])
    assert [(one.published, len(one.paths[0])) for one in found.times] == [(False, 1), (True, 3)]
    assert [one.label for one in found.times] == ["pytorch", "DGX-1 article"]


def test_the_article_has_its_own_speedups():
    article = [item.measurement for item in find_published_results("dgx1-article")]
    (found,) = scaling_charts(article)
    ends = {one.label: one.paths[0][-1] for one in found.speedups}
    assert len(ends) == 6
    assert ends["transformer, pytorch"] == (8.0, pytest.approx(15.78, abs=0.01))  # table 7: 15.8
    assert ends["ncf, pytorch"] == (8.0, pytest.approx(2.8, abs=0.02))


# --- bounds -------------------------------------------------------------------------------------------------------------


@given(POINTS)
def test_thin_keeps_the_ends_and_the_order(points):
    kept = downsample(points)
    assert len(kept) == min(len(points), MAX_POINTS)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    places = [points.index(point) for point in kept]
    assert len(points) > len(set(points)) or places == sorted(places)


@given(POINTS)
def test_average_keeps_the_mean(points):
    kept = downsample_mean(points)
    assert len(kept) <= MAX_POINTS
    if len(points) % (math.ceil(len(points) / MAX_POINTS)) == 0:
        mean = math.fsum(y for _, y in points) / len(points)
        assert math.fsum(y for _, y in kept) / len(kept) == pytest.approx(mean, rel=1e-6, abs=1e-3)


def test_what_cannot_be_drawn_is_left_out():
    assert finite_points([(1, 2), (None, 2), (1, None), (math.inf, 1), (1, math.nan), (1e300, 1)]) == ((1, 2),)
    paths = [((float(index), 0.0),) for index in range(100)]
    assert len(evenly_chosen([*paths, ()])) == 40
    assert (evenly_chosen(paths)[0], evenly_chosen(paths)[-1]) == (paths[0], paths[-1])


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


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b\\c\0", "", "é ü", "x" * 500, "CON", HOSTILE])
def test_file_names_hold_letters_digits_and_dashes_alone(name):
    assert re.fullmatch(r"[a-z0-9-]{1,130}", file_name("01", name))


# --- drawing ------------------------------------------------------------------------------------------------------------


def test_hostile_text_is_drawn_as_it_is(tmp_path):
    shown = chart(
        Series(HOSTILE, 0, (((1.0, 1.0), (2.0, 2.0)),)), title=HOSTILE, labels=(HOSTILE,), target=1.5, target_label="$x"
    )
    text = svg(shown)
    tree = ElementTree.fromstring(text)
    texts = ["".join(element.itertext()) for element in tree.iter("text")]
    assert HOSTILE[:20] in " ".join(texts)
    assert "top1 (dashed: $x)" in texts
    assert not [
        element.tag
        for element in tree.iter()
        if element.tag not in ("svg", "g", "path", "text", "defs", "use", "clipPath", "rect")
    ]
    with matplotlib_settings():
        write_files(draw(shown), tmp_path, "a")


@pytest.mark.parametrize(
    "points",
    [
        ((1.0, 1.0),),
        ((0.0, 0.0), (0.0, 0.0)),
        ((1.0, 1e14), (2.0, -1e14)),
        ((1.0, 1e-300), (2.0, 2e-300)),
        ((-5.0, 3.0), (1e14, 3.0)),
    ],
)
def test_odd_numbers_are_drawn(points):
    ElementTree.fromstring(svg(chart(Series("a", 0, (points,)))))
    positive = tuple((max(abs(x), 1.0), max(abs(y), 1e-300)) for x, y in points)
    ElementTree.fromstring(svg(ScalingChart("a", "b", (), (Series("a", 0, (positive,)),), ())))


def test_the_figure_grows_with_its_labels_up_to_a_bound():
    def drawn(count):
        return svg(chart(*(Series(f"run {index}", index, (((1.0, index), (2.0, index)),)) for index in range(count))))

    assert set(re.findall(r">(run \d+)<", drawn(30))) == {f"run {index}" for index in range(30)}
    text = drawn(60)
    named = set(re.findall(r">(run \d+)<", text))
    (more,) = re.findall(r">and (\d+) more<", text)
    assert len(named) + int(more) == 60
    assert len(named) >= 30


def test_labels_that_differ_at_their_ends_differ_in_the_figure():
    names = ["v0.5 NVIDIA dgx1_ngc18.11_pytorch", "v0.5 NVIDIA dgx1_ngc18.11_mxnet"]
    text = svg(chart(*(Series(name, 0, (((1.0, 1.0), (2.0, 2.0)),), style=at) for at, name in enumerate(names))))
    shown = [one for one in re.findall(r">([^<>]+)</text>", text) if one.startswith("v0.5")]
    assert sorted(one[-6:] for one in shown) == sorted(name[-6:] for name in names)


def test_a_colour_is_one_framework_on_the_whole_page(tmp_path):
    for framework, place in (("pytorch", "one"), ("mxnet", "two"), ("pytorch", "two"), ("jax", "two")):
        for devices in (1, 2):
            settings = {"framework": framework, "system": place, "devices": devices}
            write_run(tmp_path, f"{framework}-{place}-{devices}", **settings)
    found = rows(collect([tmp_path]))
    slots = theme.framework_slots(row.group.framework for row in found)
    drawn = scaling_charts(measurements(found), slots=slots)
    series = [one for each in drawn for one in each.times]
    for number, table in enumerate(split_into_tables(found), start=1):
        series += [one for each in table_charts(table, number, slots) for one in each.series]
    colours = {}
    for one in series:
        colours.setdefault(one.label.split(",")[0], set()).add(theme.colour(one.slot))
    assert set(colours) == {"pytorch", "mxnet", "jax"}
    assert all(len(each) == 1 for each in colours.values())
    assert len(set.union(*colours.values())) == 3


def test_curves_of_one_colour_differ_in_line_and_marker(tmp_path):
    for devices in (1, 2, 4):
        write_run(tmp_path, f"{devices}", devices=devices)
    found = charts_of(tmp_path)["ncf: hr_at_10 over epochs"]
    assert {one.slot for one in found.series} == {1}
    assert len({theme.marker(one.style) for one in found.series}) == 3
    assert len({theme.dashes(one.style) for one in found.series}) == 3


def test_more_frameworks_than_colours_are_grey():
    slots = theme.framework_slots(f"other {index}" for index in range(9))
    assert sorted(slots.values()) == list(range(len(theme.SERIES_COLOURS)))
    assert theme.colour(theme.OTHER_SLOT) == theme.MUTED


def test_many_curves_have_a_figure_for_each_workload(tmp_path):
    for workload in ("ncf", "ssd", "gnmt"):
        for framework in ("pytorch", "mxnet", "tensorflow"):
            for devices in (1, 2):
                settings = {"workload": workload, "framework": framework, "devices": devices}
                write_run(tmp_path, f"{workload}-{framework}-{devices}", **settings)
    found = scaling_charts(measurements(rows(collect([tmp_path]))))
    assert [one.title for one in found] == [f"Time to target, {name}" for name in ("gnmt", "ncf", "ssd")]
    assert [sorted(series.label for series in one.times) for one in found] == [["mxnet", "pytorch", "tensorflow"]] * 3
    assert len({one.name for one in found}) == 3


def test_bleu_is_drawn_in_points_whatever_the_log_has(tmp_path):
    write_run(tmp_path, "a", workload="gnmt", qualities=(0.2, 0.65), targets={"bleu": 0.635})
    found = charts_of(tmp_path)
    (over_epochs,) = [one for title, one in found.items() if "over epochs" in title]
    assert over_epochs.target == pytest.approx(63.5)
    assert [y for _, y in over_epochs.series[0].paths[0]] == pytest.approx([20.0, 65.0])


def test_a_hundred_runs_are_one_element():
    paths = tuple(((1.0, 0.1), (2.0, index / 100)) for index in range(100))
    text = svg(chart(Series("a", 0, paths)))
    assert text.count("stroke: var(--c0); stroke-opacity: 0.65") == 1


def test_page_figures_take_their_colours_from_the_page_and_files_have_their_own(tmp_path):
    shown = chart(Series("var(--c0) #0a62a4", 0, (((1.0, 1.0), (2.0, 2.0)),)))
    text = svg(shown)
    assert not re.search(r"#[0-9a-f]{6}", re.sub(r">[^<]*<", "><", text))
    assert {"--c0", "--ink", "--muted", "--grid"} <= set(re.findall(r"var\((--[a-z0-9]+)\)", text))
    assert "#0a62a4" in text  # a name is left as it is
    with matplotlib_settings():
        write_files(draw(shown), tmp_path, "a")
    written = (tmp_path / "a.svg").read_text()
    assert "stroke: #0a62a4" in written
    assert "stroke: var(" not in written
    with matplotlib_settings(), pytest.raises(FileExistsError):
        write_files(draw(shown), tmp_path, "a")


def test_every_colour_of_the_figures_is_in_the_style_sheet_twice():
    sheet = (Path(theme.__file__).parent / "templates" / "page.css").read_text()
    for colour, name in theme.CSS_VARIABLES.items():
        values = re.findall(rf"{name}: (#[0-9a-f]{{6}})", sheet)
        assert len(values) == 2
        assert values[0] == colour


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_a_contrast_of_four_and_a_half_on_light_and_dark():
    sheet = (Path(theme.__file__).parent / "templates" / "page.css").read_text()
    for index in range(2):
        paper = luminance(re.findall(r"--paper: (#[0-9a-f]{6})", sheet)[index])
        for name in ("ink", "muted", "bad", "link", *(f"c{slot}" for slot in range(len(theme.SERIES_COLOURS)))):
            text = luminance(re.findall(rf"--{name}: (#[0-9a-f]{{6}})", sheet)[index])
            assert (max(paper, text) + 0.05) / (min(paper, text) + 0.05) >= 4.5, (name, index)


def test_settings_of_matplotlib_are_put_back():
    import matplotlib

    matplotlib.rcParams["font.size"] = 31.0
    svg(chart(Series("a", 0, (((1.0, 1.0),),))))
    assert matplotlib.rcParams["font.size"] == 31.0
    matplotlib.rcdefaults()
