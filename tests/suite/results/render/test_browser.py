"""Pages in Chromium: they load without a request or an error; filters, legends, sorting, hover and addresses work."""

import re

import pytest
from playwright.sync_api import expect

from suite.cli import main
from testing.fake_logs import write_run
from tests.browser import chromium, needs_chromium, visited
from tests.helpers import wait_until

pytestmark = [pytest.mark.slow, needs_chromium]
WIDTHS = (400, 800, 1280, 2560)


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of two workloads on several devices, in two frameworks, with a failed run and a hostile name."""
    folder = tmp_path_factory.mktemp("page")
    for workload, seconds in (("ncf", 2.0), ("ssd", 3.0)):
        for framework in ("pytorch", "mxnet"):
            for devices in (1, 2):
                named = {"workload": workload, "framework": framework, "devices": devices}
                targets = {"hr_at_10" if workload == "ncf" else "map": 0.635}
                name = f"{workload}-{framework}-{devices}"
                write_run(folder / "logs", name, seconds_per_epoch=seconds / devices, targets=targets, **named)
    hostile = {"status": "oom", "reason": "</script><script>alert(1)</script>"}
    write_run(folder / "logs", "bad", log=False, status=hostile)
    assert main(["report", str(folder / "logs"), "--html", str(folder / "page.html")]) == 0
    return folder / "page.html"


@pytest.fixture
def opened(browser):
    """Opens a page and waits for its figures; at the end nothing may have gone wrong on any, or left it."""
    every = []

    def opens(path, address="", **options):
        page, noticed = visited(browser, f"file://{path}{address}", **options)
        every.append((page, noticed))
        page.wait_for_selector("figure[data-drawn]")
        return page

    yield opens
    for page, noticed in every:
        page.context.close()
        assert noticed == []


def shown(page, selector):
    return page.eval_on_selector_all(selector, "all => all.filter(x => x.checkVisibility()).map(x => x.innerText)")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_its_window_and_asks_for_nothing(opened, report, width, theme):
    page = opened(report, viewport={"width": width, "height": 900}, color_scheme=theme)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("figure:not([data-drawn])")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ends = "[...document.querySelectorAll('figure')].map(one => one.getBoundingClientRect().right)"
    used = page.evaluate(f"Math.max(...{ends})")
    assert used > min(width, 1800) * 0.9


def test_filters_act_on_tables_and_figures_and_stand_in_the_address(opened, report):
    page = opened(report)
    everything = len(shown(page, "figure"))
    page.select_option("select[name=workload]", "ssd")
    page.select_option("select[name=framework]", "mxnet")
    assert page.evaluate("location.hash") == "#workload=ssd&framework=mxnet"
    assert page.inner_text("#count") == "2 of 9 runs"
    assert len(shown(page, "figure")) == everything / 2
    assert all(text.startswith("SSD") for text in shown(page, "figcaption b"))
    assert all(text.startswith("mxnet") for text in shown(page, "#section-1 ~ section tbody tr"))
    assert shown(page, "#section-1 .legend button") == ["mxnet"]
    other = opened(report, "#workload=ssd&framework=mxnet")
    assert other.inner_text("#count") == "2 of 9 runs"
    page.click("button[type=reset]")
    expect(page.locator("#count")).to_have_text("9 of 9 runs")
    assert page.evaluate("location.hash") == ""


def test_a_pointer_shows_the_run_and_a_legend_hides_a_series(opened, report):
    page = opened(report, "#workload=ncf", viewport={"width": 1280, "height": 900})
    points = page.locator("#section-1 figure:visible").first.locator(".mark-symbol path")
    count = points.count()
    assert count == 4
    points.last.hover()
    tip = page.inner_text("#tip")
    assert "ncf, " in tip
    assert "/run_0" in tip
    page.locator("#section-1 .legend button:visible").first.click()
    expect(page.locator("#section-1 figure").first.locator(".mark-symbol path")).to_have_count(2)
    page.locator("#section-1 summary:visible").first.click()
    expect(page.locator("#section-1 figure:not([hidden]) details tbody tr")).to_have_count(2)


def test_tables_sort_by_numbers_and_axes_turn_linear(opened, report):
    page = opened(report, "#workload=ncf")
    section = page.locator("section", has=page.locator("h2", has_text="ncf on laptop"))
    head = section.locator("th", has_text="time").first
    place = head.evaluate("one => one.cellIndex")
    for order in ("ascending", "descending"):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        cells = section.locator("table").first.locator("tbody tr")
        columns = [cells.nth(at).locator("td").nth(place) for at in range(cells.count())]
        values = [float(cell.get_attribute("data-value")) for cell in columns]
        assert values == sorted(values, reverse=order == "descending")
    before = page.locator("#section-1 figure .plot").first.inner_html()
    page.select_option("select[name=axes]", "linear")
    wait_until("linear axes", lambda: page.inner_html("#section-1 figure .plot") != before)


def test_a_page_that_follows_says_how_old_it_is(opened, report, tmp_path):
    from suite.results import table
    from suite.results.render.html.page import write_html

    write_html(table(report.parent / "logs"), tmp_path / "page.html", follow=True)
    page = opened(tmp_path / "page.html")
    expect(page.locator("#age")).to_have_text(re.compile(r"^Written \d+ s ago"))


def test_published_results_begin_with_one_workload(opened, tmp_path):
    assert main(["published", "list", "--html", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").stat().st_size < 3 << 20
    page = opened(tmp_path / "page.html")
    assert shown(page, "figcaption b") == ["ResNet-50"]
    page.select_option("select[name=accelerator]", "V100 SXM")
    assert shown(page, "#section-1 .legend button") == ["V100 SXM"]
