"""Pages in Chromium: no requests, no errors; filters, legends, sorting, hovering, and addresses."""

import re

import pytest
from playwright.sync_api import expect

from suite.cli import main
from testing.fake_logs import write_run
from tests.browser import chromium, needs_chromium, visited
from tests.helpers import wait_until

pytestmark = [pytest.mark.slow, needs_chromium]
expect.set_options(timeout=60_000)  # A busy machine draws slowly.
WIDTHS = (400, 800, 1280, 2560)


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Write the page of two workloads in two frameworks on 1 and 2 devices and return its path.

    The runs include a failed run with a hostile message.
    """
    folder = tmp_path_factory.mktemp("page")
    for workload, seconds in (("ncf", 2.0), ("ssd", 3.0)):
        for framework in ("pytorch", "mxnet"):
            for devices in (1, 2):
                named = {"workload": workload, "framework": framework, "devices": devices}
                targets = {"hr_at_10" if workload == "ncf" else "map": 0.635}
                name = f"{workload}-{framework}-{devices}"
                # The times differ so much that an axis is logarithmic.
                once = (2 if framework == "mxnet" else 1) * seconds / devices
                write_run(folder / "logs", name, seconds_per_epoch=once, targets=targets, **named)
    hostile = {"status": "oom", "reason": "</script><script>alert(1)</script>"}
    write_run(folder / "logs", "bad", log=False, status=hostile)
    assert main(["report", str(folder / "logs"), "--html", str(folder / "page.html")]) == 0
    return folder / "page.html"


def opened(browser, path, address="", **options):
    """Return a page with drawn figures, and the list of its errors and requests so far."""
    page, noticed = visited(browser, f"file://{path}{address}", **options)
    position = page.evaluate("scrollY")
    # Figures are drawn when they are near the visible area.
    page.locator("figure:visible").first.scroll_into_view_if_needed()
    page.wait_for_selector("figure[data-drawn]")
    page.evaluate(f"scrollTo(0, {position})")
    return page, noticed


def shown(page, selector):
    return page.eval_on_selector_all(
        selector, "all => all.filter(each => each.checkVisibility()).map(each => each.innerText)"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_its_window_and_sends_no_requests(browser, report, width, theme):
    page, noticed = opened(
        browser, report, viewport={"width": width, "height": 900}, color_scheme=theme
    )
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("figure:not([data-drawn])")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert noticed == []
    ends = "figure => figure.getBoundingClientRect().right"
    used = page.evaluate(f"Math.max(...[...document.querySelectorAll('figure')].map({ends}))")
    assert used > min(width, 1800) * 0.9
    page.context.close()


def test_filters_apply_to_tables_and_figures_and_are_stored_in_the_address(browser, report):
    page, noticed = opened(browser, report)
    everything = len(shown(page, "figure"))
    page.select_option("select[name=workload]", "ssd")
    page.select_option("select[name=framework]", "mxnet")
    assert page.evaluate("location.hash") == "#workload=ssd&framework=mxnet"
    assert page.inner_text("#count") == "2 of 9 runs"
    assert len(shown(page, "figure")) == everything / 2
    assert all(text.startswith("SSD") for text in shown(page, "figcaption b"))
    assert all(
        text.lower().startswith("mxnet")
        for text in shown(page, "#section-time-to-target ~ section tbody tr")
    )
    assert shown(page, "#section-time-to-target .legend button")[:2] == ["mxnet", "setup"]
    reopened, _ = opened(browser, report, "#workload=ssd&framework=mxnet")
    assert reopened.inner_text("#count") == "2 of 9 runs"
    page.click("button[type=reset]")
    expect(page.locator("#count")).to_have_text("9 of 9 runs")
    assert page.evaluate("location.hash") == ""
    assert noticed == []
    page.context.close()


def test_a_pointer_shows_the_run_and_a_legend_hides_a_series(browser, report):
    page, noticed = opened(
        browser, report, "#workload=ncf", viewport={"width": 1280, "height": 900}
    )
    points = page.locator("#section-time-to-target figure:visible").first.locator(
        ".mark-symbol path"
    )
    count = points.count()
    assert count == 4
    points.last.hover()
    tip = page.inner_text("#tip")
    assert "NCF with PyTorch on " in tip
    assert {"time to target", "labels"} <= {*tip.split("\n")}
    assert "/run_0" in tip
    page.locator("#section-time-to-target .legend button:visible").first.click()
    expect(
        page.locator("#section-time-to-target figure").first.locator(".mark-symbol path")
    ).to_have_count(2)
    page.locator("#section-time-to-target summary:visible").first.click()
    expect(
        page.locator("#section-time-to-target figure:not([hidden]) details tbody tr")
    ).to_have_count(2)
    assert noticed == []
    page.context.close()


def test_tables_sort_by_numbers(browser, report):
    page, noticed = opened(browser, report, "#workload=ncf")
    section = page.locator("section", has=page.locator("h2", has_text="NCF demo"))
    head = section.locator("th", has_text="time to target").first
    place = head.evaluate("cell => cell.cellIndex")
    for order in ("ascending", "descending"):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        cells = section.locator("table").first.locator("tbody tr")
        columns = [cells.nth(at).locator("td").nth(place) for at in range(cells.count())]
        values = [float(cell.get_attribute("data-value")) for cell in columns]
        assert values == sorted(values, reverse=order == "descending")
    assert noticed == []
    page.context.close()


def test_axes_can_be_switched_to_linear(browser, tmp_path):
    for devices in (1, 4):
        write_run(
            tmp_path / "logs",
            f"ncf-{devices}",
            devices=devices,
            seconds_per_epoch=16.0 / devices**2,
        )
    assert main(["report", str(tmp_path / "logs"), "--html", str(tmp_path / "page.html")]) == 0
    page, noticed = opened(browser, tmp_path / "page.html")
    figure = page.locator("figure", has_text="NCF: time to target over devices")
    expect(figure.locator(".plot svg")).to_have_count(1)
    before = figure.locator(".plot").inner_html()
    page.select_option("select[name=axes]", "linear")
    wait_until("linear axes", lambda: figure.locator(".plot").inner_html() != before)
    assert noticed == []
    page.context.close()


# --- Layout of figures

MISFITS = """[...document.querySelectorAll('figure')].filter(figure => figure.checkVisibility())
.map(figure => {
  const card = figure.getBoundingClientRect();
  const svg = figure.querySelector('.plot svg').getBoundingClientRect();
  return Math.max(card.left - svg.left, svg.right - card.right, card.width - 60 - svg.width);
}).filter(beyond => beyond > 0)"""
"""JavaScript: pixels by which drawings exceed their cards or leave them empty."""


@pytest.mark.parametrize("first", ["#workload=ssd&framework=mxnet&devices=2", ""])
def test_figures_have_the_width_of_their_cards_after_a_change_of_filters(browser, report, first):
    page, noticed = opened(browser, report, first, viewport={"width": 1280, "height": 900})
    (
        page.click("button[type=reset]")
        if first
        else page.select_option("select[name=workload]", "ssd")
    )
    for width in (1280, 700, 1900):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(page.locator("figure:not([data-drawn]):visible")).to_have_count(0)
        wait_until(f"figures fit at {width} pixels", lambda: page.evaluate(MISFITS) == [])
    assert noticed == []
    page.context.close()


@pytest.mark.parametrize(
    ("address", "statement"),
    [
        ("#workload=ssd", "Shown: workload SSD (4 of 9 runs)"),
        ("#workload=ncf&framework=mxnet&devices=2", ""),
    ],
)
def test_a_printed_page_has_complete_figures_and_states_the_filters(
    browser, report, address, statement
):
    page, _ = opened(browser, report, address, viewport={"width": 1900, "height": 900})
    assert not page.is_visible("#stated")
    if not statement:
        # Only some of the figures were drawn with the filters of the address.
        page.click("button[type=reset]")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("figure:not([data-drawn]):visible")).to_have_count(0)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})  # A4 without margins
    assert page.evaluate(MISFITS) == []
    assert page.inner_text("#stated") == statement
    drawn = page.locator("figure:visible")
    assert drawn.count() == (7 if statement else 14)
    assert page.locator("figure:visible .plot svg").count() == drawn.count()
    letters = page.locator("figure:visible .role-axis-label text").first
    # Two figures are side by side, and their letters are higher than 9 pixels.
    assert letters.bounding_box()["height"] > 9
    page.context.close()


def test_names_contain_the_distinguishing_values_and_are_the_same_in_all_figures(browser, tmp_path):
    for precision, batch, framework, clock in (
        ("fp16", 256, "pytorch", "v0.5"),
        ("fp32", 2048, "pytorch", "v0.5"),
        ("fp32", 16384, "mxnet", "v0.7"),
    ):
        for devices in (1, 2):
            settings = {
                "global_batch_size": batch,
                "precision": precision,
                "framework": framework,
                "clock": clock,
            }
            write_run(
                tmp_path / "logs",
                f"{batch}-{devices}",
                devices=devices,
                seconds_per_epoch=3.0 / devices,
                **settings,
            )
    assert main(["report", str(tmp_path / "logs"), "--html", str(tmp_path / "page.html")]) == 0
    page, noticed = opened(browser, tmp_path / "page.html", viewport={"width": 1280, "height": 900})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("figure:not([data-drawn])")).to_have_count(0)
    curves = [
        "pytorch, fp16, bs 256, clock v0.5",
        "pytorch, fp32, bs 2,048, clock v0.5",
        "mxnet, fp32, bs 16,384, clock v0.7",
    ]
    results = sorted(f"{name}, {devices} dev" for name in curves for devices in (1, 2))
    looks = {}
    for figure in page.locator("figure", has=page.locator(".legend line")).all():
        names = [name.strip() for name in figure.locator(".legend button").all_inner_texts()]
        assert sorted(names) == (
            sorted(curves) if "over devices" in figure.inner_text() else results
        )
        for name, sample in zip(names, figure.locator(".legend svg").all(), strict=True):
            looks.setdefault(name, set()).add(sample.inner_html())
    assert {len(of) for of in looks.values()} == {1}
    assert len({next(iter(looks[name])) for name in results}) == len(results)
    bars = page.locator("figure", has_text="factors of the speedup").locator(
        ".role-axis-label text"
    )
    assert {f"{name}, 1 → 2 dev" for name in curves} <= {*bars.all_text_contents()}
    page.set_viewport_size({"width": 400, "height": 900})
    cut = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).length"
    assert page.eval_on_selector_all(".legend button", cut) == 0
    assert noticed == []
    page.context.close()


def test_metrics_have_full_names_and_axes_are_logarithmic_only_for_a_factor_of_ten_in_times(
    browser, tmp_path
):
    for workload, metric, factor in (("ncf", "hr_at_10", 4.0), ("ssd", "map", 12.0)):
        for devices in (1, 4):
            settings = {
                "workload": workload,
                "targets": {metric: 0.635},
                "seconds_per_epoch": 1.0 if devices > 1 else factor,
            }
            write_run(tmp_path / "logs", f"{workload}-{devices}", devices=devices, **settings)
    assert main(["report", str(tmp_path / "logs"), "--html", str(tmp_path / "page.html")]) == 0
    page, noticed = opened(browser, tmp_path / "page.html", viewport={"width": 1280, "height": 900})
    gaps = """figure => {
      const [, ticks] = figure.querySelectorAll('.role-axis-tick');
      const lines = [...ticks.querySelectorAll('line')];
      const at = lines.map(line => line.getBoundingClientRect().y).sort((a, b) => a - b);
      const between = at.slice(1).map((y, place) => y - at[place]);
      return Math.max(...between) - Math.min(...between);
    }"""
    for title, even in (("NCF", True), ("SSD", False)):
        figure = page.locator("figure", has_text=f"{title}: time to target over devices")
        expect(figure.locator(".plot svg")).to_have_count(1)
        assert (figure.evaluate(gaps) < 3) is even
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    text = page.inner_text("body")
    assert {"hit rate at 10 over epochs", "mean average precision over epochs"} <= {
        title.split(": ")[1] for title in shown(page, "figcaption b")
    }
    assert not re.search(r"hr_at_10|\bmap\b", text)
    assert noticed == []
    page.context.close()


# --- Filters


def test_all_parts_of_a_page_obey_the_filters_or_state_that_they_do_not(browser, report):
    page, noticed = opened(browser, report, "#workload=ssd")
    assert [text[:3] for text in shown(page, ".headlines li")] == ["SSD"]
    assert not any("ncf" in text.lower() for text in shown(page, "nav a, main h2"))
    assert shown(page, "nav a") == shown(page, "nav li") == shown(page, "main h2")
    assert not shown(page, "#nothing")
    assert shown(page, ".bad") == []  # The failed run has no workload.
    page.select_option("select[name=framework]", "mxnet")
    assert any("include all results" in text for text in shown(page, ".unfiltered"))
    page.select_option("select[name=workload]", "ncf")
    page.evaluate(
        "location.hash = '#workload=ssd&label=demo&profile=demo&devices=2&framework=pytorch'"
    )
    expect(page.locator("#count")).to_have_text("1 of 9 runs")
    page.click("button[type=reset]")
    assert not shown(page, ".unfiltered")
    assert shown(page, ".bad:not(.status)") == ["Failed runs: 1"]
    assert noticed == []
    page.context.close()


def test_three_headlines_are_shown_and_the_list_of_the_rest_keeps_its_state(browser, tmp_path):
    for workload in ("gnmt", "maskrcnn", "ncf", "resnet50", "ssd"):
        for framework in ("pytorch", "mxnet") if workload == "ssd" else ("mxnet",):
            write_run(
                tmp_path / "logs", f"{workload}-{framework}", workload=workload, framework=framework
            )
    assert main(["report", str(tmp_path / "logs"), "--html", str(tmp_path / "page.html")]) == 0
    page, noticed = opened(browser, tmp_path / "page.html", viewport={"width": 400, "height": 800})

    def titles():
        return [text.split(" (")[0] for text in shown(page, ".headlines li")]

    assert (titles(), shown(page, "#further summary")) == (
        ["GNMT", "Mask R-CNN", "NCF"],
        ["2 more"],
    )
    page.click("#further summary")
    assert titles() == ["GNMT", "Mask R-CNN", "NCF", "ResNet-50", "SSD"]
    page.select_option("select[name=framework]", "pytorch")
    # The headline of SSD was in the folded list before.
    assert (titles(), shown(page, "#further")) == (["SSD"], [])
    page.select_option("select[name=framework]", "mxnet")
    assert titles() == ["GNMT", "Mask R-CNN", "NCF", "ResNet-50", "SSD"]
    page.click("#further summary")
    page.click("button[type=reset]")
    assert titles() == ["GNMT", "Mask R-CNN", "NCF"]
    assert noticed == []
    page.context.close()


def test_filters_without_a_match_can_be_reset(browser, report):
    page, _ = visited(browser, f"file://{report}")
    page.evaluate("document.querySelector('select[name=devices]').append(new Option('64', '64'))")
    page.select_option("select[name=devices]", "64")
    assert page.inner_text("#count") == "0 of 9 runs"
    assert (shown(page, "nav a, figure"), len(shown(page, "#nothing"))) == ([], 1)
    page.click("#nothing button")
    expect(page.locator("#count")).to_have_text("9 of 9 runs")
    page.context.close()


def test_filters_hidden_series_and_section_are_stored_in_the_address_and_back_works(
    browser, report
):
    page, noticed = opened(browser, report, viewport={"width": 1280, "height": 900})
    page.select_option("select[name=workload]", "ssd")
    page.locator("#section-time-to-target .legend button:visible").first.click()
    page.click("nav a[href='#runs']")
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('at')") == "runs"
    assert page.inner_text("#count") == "4 of 9 runs"
    reopened, _ = opened(
        browser, report, page.evaluate("location.hash"), viewport={"width": 1280, "height": 900}
    )
    assert reopened.inner_text("#count") == "4 of 9 runs"
    assert (
        reopened.locator(
            "#section-time-to-target .legend button[aria-pressed=false]:visible"
        ).count()
        == 1
    )
    assert reopened.evaluate("scrollY") > 500
    reopened.context.close()
    for pressed, chosen in (("false", "ssd"), ("true", "ssd"), ("true", "")):
        page.go_back()
        expect(page.locator("select[name=workload]")).to_have_value(chosen)
        expect(
            page.locator("#section-time-to-target .legend button:visible").first
        ).to_have_attribute("aria-pressed", pressed)
    assert noticed == []
    page.context.close()


# --- Interaction with a figure


def test_a_click_on_a_point_opens_its_run_with_links_to_its_files(browser, report):
    page, noticed = opened(
        browser,
        report,
        "#workload=ncf&framework=mxnet&devices=2",
        viewport={"width": 1280, "height": 900},
    )
    figure = page.locator("figure:visible", has_text="hit rate at 10 over epochs")
    figure.scroll_into_view_if_needed()
    figure.locator(".mark-symbol path").first.click()
    run = page.locator("#runs details[open]")
    expect(run).to_have_count(1)
    assert run.locator(".name").inner_text() == "ncf-mxnet-2/run_0"
    links = [link.get_attribute("href") for link in run.locator(".files a").all()]
    assert links == ["./logs/ncf-mxnet-2/run_0/result_0.txt", "./logs/ncf-mxnet-2/run_0"]
    assert all((report.parent / link).exists() for link in links)
    assert noticed == []
    page.context.close()


def test_a_click_on_a_point_of_a_result_leads_to_its_row_with_a_link_to_its_log(browser, report):
    page, noticed = opened(
        browser, report, "#workload=ncf&framework=mxnet", viewport={"width": 1280, "height": 900}
    )
    points = page.locator("#section-time-to-target figure:visible .mark-symbol path")
    expect(points).to_have_count(2)
    points.last.click()
    row = page.locator(".found")
    assert row.evaluate("row => row.tagName") == "TR"
    heading = row.evaluate("row => row.closest('section').querySelector('h2').textContent")
    assert heading == "NCF demo, Some CPU, laptop"
    link = row.locator("a").get_attribute("href")
    assert link == "./logs/ncf-mxnet-2/run_0/result_0.txt"
    points.last.hover()
    tip = page.inner_text("#tip").split("\n")
    assert {"hardware", "target", "division", "user-item pairs/s", "labels", "log"} <= {*tip}
    assert noticed == []
    page.context.close()


def test_figures_have_descriptions_for_screen_readers(browser, report):
    page, _ = opened(browser, report)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("figure:not([data-drawn])")).to_have_count(0)
    aria_labels = page.eval_on_selector_all(
        ".plot, .plot [aria-label]", "all => all.map(each => each.ariaLabel)"
    )
    titles = page.eval_on_selector_all("figcaption b", "all => all.map(each => each.textContent)")
    assert aria_labels == [f"{title}. The table below has the values." for title in titles]
    page.context.close()


def test_a_time_axis_zooms_by_dragging_and_a_double_click_resets_it(browser, report):
    page, noticed = opened(
        browser, report, "#workload=ncf", viewport={"width": 1280, "height": 900}
    )
    figure = page.locator("figure:visible", has_text="hit rate at 10 over time")
    figure.scroll_into_view_if_needed()
    expect(figure.locator(".plot svg")).to_have_count(1)
    ticks = figure.locator(".plot .role-axis-label text")

    def tick_texts():
        return sorted(ticks.all_text_contents())

    before, box, zoomed = tick_texts(), figure.locator(".plot svg").bounding_box(), []
    for start, end in ((0.5, 0.7), (0.7, 0.5)):
        page.mouse.move(box["x"] + box["width"] * start, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * end, box["y"] + 100, steps=4)
        page.mouse.up()
        wait_until("a zoomed axis", lambda: tick_texts() != before)
        zoomed.append(tick_texts())
        page.mouse.dblclick(box["x"] + box["width"] * 0.6, box["y"] + 100)
        wait_until("the whole axis", lambda: tick_texts() == before)
    assert zoomed[0] == zoomed[1]
    over_epochs = page.locator("figure:visible", has_text="hit rate at 10 over epochs").locator(
        ".plot"
    )
    assert over_epochs.evaluate("plot => [plot.onpointerdown, plot.ondblclick]") == [None, None]
    assert noticed == []
    page.context.close()


# --- Pages that follow runs, large pages, and published results


def test_a_page_that_follows_runs_keeps_its_state_on_reload_and_stops_at_the_end(
    browser, report, tmp_path, monkeypatch
):
    from suite.results.render.html import page as pages
    from suite.results.table import read_runs

    monkeypatch.setattr(pages, "FOLLOW_SECONDS", 3600.0)  # The test advances the page's clock.
    out, runs = tmp_path / "page.html", read_runs(report.parent / "logs")
    pages.write_html(runs, out, follow=True)
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.clock.install()
    page.goto(f"file://{out}#workload=ncf", timeout=120_000)
    expect(page.locator("#age")).to_have_text(re.compile(r"^Written \d+ s ago"))
    page.locator("#section-time-to-target .legend button:visible").first.click()
    page.locator("#runs summary:visible").nth(1).click()
    page.evaluate("scrollTo(0, 700)")
    out.unlink()
    pages.write_html(runs, out, follow=False)
    page.clock.fast_forward(3_600_000)
    expect(page.locator("#age")).to_have_text(re.compile(r"^Finished at .*\d"), timeout=60_000)
    assert page.evaluate("scrollY") == 700
    assert page.locator("#runs details[open]").count() == 1
    assert (
        page.locator("#section-time-to-target .legend button[aria-pressed=false]:visible").count()
        == 1
    )
    page.context.close()


BANDS = """all => all
  .map(each => each.getAttribute('fill-opacity') ?? each.getAttribute('opacity') ?? '1')
  .filter(Number).length"""
"""JavaScript: number of elements that are not transparent."""


def test_a_thousand_runs_of_twelve_settings_are_medians_with_bands_of_chosen_series(
    browser, tmp_path
):
    for number in range(12):
        for index in range(84 if number < 4 else 83):
            qualities = [0.3 + (at + index % 7) / 100 for at in range(4 if number else 25)] + [0.65]
            write_run(
                tmp_path / "logs",
                f"s{number}",
                index,
                qualities=qualities,
                global_batch_size=64 << number,
            )
    assert main(["report", str(tmp_path / "logs"), "--html", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").stat().st_size < 3_000_000
    page, noticed = opened(
        browser, tmp_path / "page.html", viewport={"width": 1280, "height": 1000}
    )
    figure = page.locator("figure:visible", has_text="hit rate at 10 over epochs")
    figure.scroll_into_view_if_needed()
    bands, names = figure.locator(".plot .mark-area path"), figure.locator(".legend button")
    expect(bands).to_have_count(12)
    assert bands.evaluate_all(BANDS) == 0
    names.nth(3).hover()
    wait_until("the band of the hovered series", lambda: bands.evaluate_all(BANDS) == 1)
    for at in range(9):
        names.nth(at).click()
    page.mouse.move(1, 1)
    wait_until("the bands of three series", lambda: bands.evaluate_all(BANDS) == 3)
    page.click("button[type=reset]")
    wait_until("no bands", lambda: (bands.count(), bands.evaluate_all(BANDS)) == (12, 0))
    markers = figure.locator(".plot .mark-symbol path")
    assert markers.evaluate_all(BANDS) == 11 * 5  # The setting with 26 evaluations has no markers.
    assert noticed == []
    page.context.close()


def test_a_page_of_published_results_first_shows_one_workload_round_and_division(browser, tmp_path):
    ours = {
        "profile": "reference",
        "labels": [],
        "device": "cuda",
        "device_name": "Tesla V100-SXM2-16GB",
    }
    for devices in (8, 16):
        settings = {**ours, "devices": devices}
        write_run(
            tmp_path / "logs", f"own-{devices}", targets={"map": 0.635}, workload="ssd", **settings
        )
    options = ["--logs", str(tmp_path / "logs"), "--html", str(tmp_path / "page.html")]
    assert main(["published", "list", *options]) == 0
    assert (tmp_path / "page.html").stat().st_size < 3 << 20
    page, noticed = opened(browser, tmp_path / "page.html")
    assert shown(page, "figcaption b") == ["SSD"]
    chosen = {
        name: page.input_value(f"select[name={name}]")
        for name in ("workload", "division", "submitter")
    }
    assert chosen == {"workload": "ssd", "division": "closed", "submitter": ""}
    assert page.input_value("select[name=round]").startswith("v")
    assert shown(page, "main h2")[1].startswith("Results of these logs: SSD")
    assert (
        page.locator("#section-results td a").first.get_attribute("href")
        == "./logs/own-8/run_0/result_0.txt"
    )
    assert "speedup" in shown(page, "#section-results th")
    assert {"speedup", "= throughput"} <= {*shown(page, "#section-speedup th")}
    pieces = shown(page, ".piece")  # Only the pieces of the chosen round and workload are visible.
    assert [text.strip() for text in pieces if "target" in text] == [
        "SSD: target mean average precision ≥ 0.23, data set of the rules"
    ]
    assert "GNMT" not in shown(page, "main th")  # No chosen row has this workload.
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})  # A4 without margins
    heights = page.eval_on_selector_all("main th", "all => all.map(one => one.offsetHeight)")
    assert 0 < max(heights) < 50  # No heading is broken into single letters.
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.click("button[type=reset]")
    assert "GNMT" in shown(page, "main th")
    page.select_option("select[name=accelerator]", "V100 SXM")
    assert "V100 SXM" in shown(page, "#section-time-to-target .legend button")
    frameworks = page.locator("select[name=framework] option").all_inner_texts()
    assert len({name.lower() for name in frameworks}) == len(frameworks)
    assert noticed == []
    page.context.close()


def test_frameworks_named_like_javascript_properties_are_drawn(browser, tmp_path):
    names = ("__proto__", "constructor", "toString", "hasOwnProperty")
    for name in names:
        for devices in (1, 2):
            named = {"framework": name, "devices": devices, "targets": {"hr_at_10": 0.635}}
            write_run(
                tmp_path / "logs", f"{name}-{devices}", seconds_per_epoch=2 / devices, **named
            )
    assert main(["report", str(tmp_path / "logs"), "--html", str(tmp_path / "page.html")]) == 0
    page, noticed = opened(browser, tmp_path / "page.html")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("figure:not([data-drawn])")).to_have_count(0)
    assert noticed == []
    points = page.locator("#section-time-to-target figure:visible").first.locator(
        ".mark-symbol path"
    )
    assert points.count() == 2 * len(names)
    shown_names = {
        text.strip("\u2060")
        for text in shown(page, "#section-time-to-target figure:first-of-type .legend button")
    }
    assert set(names) <= shown_names
    page.locator("#section-time-to-target .legend button:visible").first.click()
    expect(points).to_have_count(2 * len(names) - 2)
    page.select_option("select[name=framework]", "constructor")
    assert page.inner_text("#count") == "2 of 8 runs"
    assert noticed == []
    page.context.close()
