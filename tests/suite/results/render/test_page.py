"""The HTML page: parts of the report, escaping, size limits, and embedded data."""

import base64
import csv
import gzip
import hashlib
import html
import json
import os
import re
import resource
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser

import pytest

from suite.cli import main
from suite.results import table
from suite.results.price import parse_prices
from suite.results.published_results import FOLDER_VARIABLE
from suite.results.render.html import figure_blocks, page_blocks, page_file
from suite.results.render.html import page as pages
from suite.results.render.html.page import write_html
from suite.results.scores import find_published
from suite.results.table import read_runs
from testing.fake_logs import write, write_run
from tests.suite.results.rows import sweep

FAILED = {"status": "oom", "reason": "process 0: out of memory", "workload": "ncf", "devices": 1}
EVIL = (
    "</td><script>alert(1)</script><img src=x onerror=alert(2)> $\\frac{1$ &amp;"
    " \x1b[31m\u202e\ud800 \"' ../../etc"
)
VOID = {"meta", "br", "link", "img", "input", "hr", "wbr"}
NOT_VERIFIED = "Not verified by MLCommons Association"


class Page(HTMLParser):
    """Elements, attributes, and text of a page, in which every element must be closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.open, self.texts, self.ids = [], [], [], [], []
        self.source = text
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.texts).split())
        self.headings = re.findall(r"<h2>([^<]*)</h2>", text.partition("<script")[0])
        self.drawn = re.findall(r"<figcaption><b>([^<]*)</b>", text)
        self.legends = re.findall(r'<div class="legend">(.*?)</div>', text)
        (found,) = re.findall(
            r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL
        )
        self.data = json.loads(found)
        self.figures = self.data["figures"]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)


def page(root, tmp_path, name="out.html", **options):
    out = tmp_path / name
    write_html(read_runs(root), out, **options)
    return Page(out.read_text(encoding="utf-8"))


def telemetry(folder, **sensors):
    lines = [{"sensors": {}}, *({"seconds": second, **sensors} for second in range(5))]
    (folder / "telemetry.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


def csv_of(found):
    links = [value for tag, name, value in found.attributes if tag == "a" and name == "href"]
    (link,) = [value for value in links if value.startswith("data:text")]
    kind, _, content = link.partition(",")
    assert kind == "data:text/csv;charset=utf-8;base64"
    return base64.b64decode(content)


# --- Content of the page


def test_a_sweep_gives_every_part_of_the_page(tmp_path):
    root = tmp_path / "logs"
    sweep(root, runs=3)
    write_run(root, "ncf-1", 3, log=False, status=FAILED)
    telemetry(
        root / "ncf-1" / "run_0",
        run_cpu_percent=50.0,
        gpu_percent=[90, 80],
        gpu_power_watts=[200, 300],
    )
    (root / "ncf-1" / "run_0" / "run.json").write_text(
        json.dumps({"versions": {"numpy": "2.4.6"}, "secret": "hidden"})
    )
    found = page(root, tmp_path)
    assert found.headings == [
        "Results",
        "Time to target",
        "Factors of the speedup",
        "Quality during training",
        "Throughput and machine load",
        "Failed runs",
        "Next steps",
        "All runs",
    ]
    assert "10 runs of NCF with PyTorch on 2023-11-14: 9 succeeded, 1 failed." in found.text
    where = "on 4 devices (Some CPU) with PyTorch"
    headline = (
        f"NCF (demo, cpu): 2.0 s to hit rate at 10 ≥ 0.635 {where}. That is 3.00× faster than on 1"
        " device."
    )
    # The olympic mean of 2.00, 2.04, and 2.08 s is 2 × 1.02 s.
    assert headline in found.text
    assert re.search(
        r'<a href="#section-failed-runs">Failed runs: <span class="fitting">1</span></a>',
        found.source,
    )
    titles = [
        "time to target over devices",
        "parts of the time",
        "factors of the speedup",
        "hit rate at 10 over epochs",
        "hit rate at 10 over time",
        "throughput over time",
        "data wait over time",
        "CPU used by the run",
        "GPU in use",
        "GPU power",
    ]
    assert found.drawn == [f"NCF: {title}" for title in titles]
    assert len(found.figures) == len(found.drawn)
    assert found.tags.count("details") == 10 + len(found.drawn)
    assert "versions numpy 2.4.6" in found.text
    assert "hit rate at 10 ≥ 0.635" in found.text
    assert "hr_at_10" not in found.text  # The visible text contains the full name only.
    assert "hidden" not in found.text
    assert "process 0: out of memory" in found.text


def test_a_run_on_a_busy_machine_is_marked_in_the_list_of_runs(tmp_path):
    for index, busy in enumerate(([], ["others took 48 % of its cores"])):
        write_run(tmp_path / "logs", "ncf-1", index, start=10**6 * index, condition={"busy": busy})
    found = page(tmp_path / "logs", tmp_path)
    quiet, busy = re.findall(
        r"<summary>(.*?)</summary>", found.source.partition(">All runs</h2>")[2], re.DOTALL
    )
    assert ("busy" in quiet, "busy machine: others took 48 % of its cores" in busy) == (False, True)
    counted = [
        ("busy machine" in found.data["kinds"][kind][-1], count)
        for kind, count in found.data["counts"]
    ]
    assert sorted(counted) == [(False, 1), (True, 1)]  # The filter of labels uses these counts.


def test_quantities_that_were_not_measured_have_no_section(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    found = page(tmp_path / "logs", tmp_path)
    titles = ["Results", "Time to target", "Quality during training", "Throughput and machine load"]
    assert found.headings == [*titles, "Next steps", "All runs"]
    assert "select" not in found.tags  # A single run needs no filters.
    assert len(found.figures) == 5


def test_tooltips_have_the_parts_of_the_time(tmp_path):
    """Parts of a run and of a result add up to its time, and setup is separate from training."""
    # The run has three epochs of 2 s, each with 0.5 s of waiting for data.
    write_run(tmp_path / "logs", "ncf-1", setup_seconds=1.5, train_seconds=1.6)
    found = page(tmp_path / "logs", tmp_path)
    for _, *places in found.data["rows"]:
        lines = dict(found.data["lines"][place] for place in places)
        shown = {
            name: lines[name]
            for name in ("setup", "training", "waiting for data", "evaluation", "other")
        }
        assert shown == {
            "setup": "1.5 s (20 %)",
            "training": "3.3 s (44 %)",
            "waiting for data": "1.5 s (20 %)",
            "evaluation": "0.75 s (10 %)",
            "other": "0.45 s (6 %)",
        }
        assert lines["time to target"] == "7.5 s"
    assert "setup 1.5 s (20 %)" in found.text  # It is shown in the list of runs.


def test_filters_are_the_settings_that_distinguish_results(tmp_path):
    """Check the filters of results that agree in framework, devices, and system."""
    logs = tmp_path / "logs"
    for rate in (0.001, 0.003):
        write_run(logs, f"fp32-{rate}", keys={"opt_base_learning_rate": rate}, precision="fp32")
    write_run(logs, "fp16", keys={"opt_base_learning_rate": 0.003}, precision="fp16")
    write_run(logs, "two", devices=2, global_batch_size=8192)  # Its devices differ.
    found = page(logs, tmp_path)
    names = [value for tag, name, value in found.attributes if (tag, name) == ("select", "name")]
    assert names == ["devices", "precision", "hyperparameters.opt_base_learning_rate"]
    titles = [found.data["titles"][name] for name in names]
    assert titles == ["devices", "precision", "learning rate"]
    facets = found.data["facets"]
    assert facets[-1] == "label"  # The script of the page expects this order.
    kinds = [dict(zip(facets, kind, strict=True)) for kind in found.data["kinds"]]
    on_one_device = [
        (kind["precision"], kind[names[2]]) for kind in kinds if kind["devices"] == "1"
    ]
    assert sorted(on_one_device) == [("fp16", "0.003"), ("fp32", "0.001"), ("fp32", "0.003")]


def test_the_address_of_a_section_does_not_depend_on_the_sections_before_it(tmp_path):
    sweep(tmp_path / "logs", counts=(1, 2))
    plain = page(tmp_path / "logs", tmp_path, "plain.html")
    write_run(tmp_path / "logs", "ncf-1", 3, log=False, status=FAILED)
    more = page(
        tmp_path / "logs",
        tmp_path,
        "more.html",
        prices=parse_prices("2.5"),
        published=find_published("dgx1-article"),
    )

    def anchors(found):
        return dict(re.findall(r'<section id="([^"]*)"[^>]*>\s*<h2>([^<]*)</h2>', found.source))

    assert anchors(plain).items() <= anchors(more).items()
    assert {"section-cost", "section-failed-runs", "section-published"} <= {*anchors(more)} - {
        *anchors(plain)
    }


def test_next_steps_are_commands_for_these_logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write_run(tmp_path / "my logs", "ncf-1")
    (folder / "run.json").write_text(
        json.dumps({"typed": ["workload=ncf", "profile=demo", "gpus=1", "runs=1"]})
    )
    commands = re.findall(
        r"<pre><code>([^<]*)</code></pre>", page(tmp_path / "my logs", tmp_path).source
    )
    assert [html.unescape(command) for command in commands] == [
        "suite advise 'my logs/ncf-1'",
        "python run_suite.py workload=ncf profile=demo gpus=2",
        "python run_suite.py workload=ncf profile=demo gpus=1 runs=3",
        "suite report 'my logs/ncf-1' --html page.html --figures figures",
    ]


def test_speedups_are_decomposed_for_every_pair(tmp_path, monkeypatch):
    """Show the rows of `suite tables`, at most `MAX_PAIRS` of them."""
    monkeypatch.setattr(page_blocks, "MAX_PAIRS", 2)
    sweep(tmp_path / "logs", runs=3)
    body = page(tmp_path / "logs", tmp_path).source.split("<h2>Factors of the speedup</h2>")[1]
    rows = [
        re.findall(r"<td[^>]*>([^<]*)</td>", line) for line in re.findall(r"<tr.*?</tr>", body)[1:3]
    ]
    assert [row[0].split(" (")[0].strip() for row in rows] == ["1 → 2", "1 → 4"]
    assert "3.00" in rows[1]  # Three epochs of 2 s take three times as long as two epochs of 1 s.
    assert "to target with" not in body  # The factors are columns instead of sentences.
    assert "Not shown: 1 pair." in body


def test_the_headline_shows_the_hardest_target_and_only_comparable_results(tmp_path):
    logs, slower = tmp_path / "logs", {"qualities": (0.3, 0.65)}
    write_run(logs, "hard", qualities=(0.3, 0.5, 0.65), seconds_per_epoch=4.0)
    write_run(logs, "easy", qualities=(0.3, 0.5), targets={"hr_at_10": 0.5}, status="success")
    write_run(logs, "other", seconds_per_epoch=7.0, framework="mxnet", **slower)
    write_run(logs, "far", seconds_per_epoch=8.0, framework="tensorflow", system="far", **slower)
    write_run(logs, "none", workload="ssd", qualities=(0.1,), status={**FAILED, "workload": "ssd"})
    found = page(tmp_path / "logs", tmp_path)
    sentences = re.findall(
        r"<li data-of=[^>]*>([^<]*)</li>",
        found.source.split('class="headlines"')[1].split("</ul>")[0],
    )
    assert sentences == [
        (
            "NCF (demo, cpu): 12.0 s to hit rate at 10 ≥ 0.635 on 1 device (Some CPU) with PyTorch."
            " Other frameworks: MXNet 14.0 s. One run."
        ),
        "SSD (demo, cpu): the run did not reach the target.",
    ]


def test_the_not_verified_notice_appears_once_on_the_page_and_once_in_each_file(tmp_path):
    sweep(tmp_path / "logs", runs=3, labels=["demo", "cpu", "oversubscribed"])
    found = page(
        tmp_path / "logs",
        tmp_path,
        published=find_published("dgx1-article"),
        figures=tmp_path / "figures",
    )
    assert found.text.count(NOT_VERIFIED) == 1
    assert found.source.count('<span class="badge">oversubscribed</span>') == len(found.figures)
    files = list((tmp_path / "figures").glob("*.svg"))
    assert len(files) == len(found.figures)
    assert {path.read_text().count(f">{NOT_VERIFIED}<") for path in files} == {1}
    assert all("demo, cpu, oversubscribed" in path.read_text() for path in files)
    assert "this suite (cpu, demo, oversubscribed): " in found.text
    # No cell contains only footnote marks.
    assert not re.search(r"<td[^>]*>\s*(\([a-z]\)\s*)+</td>", found.source)


def test_times_to_target_precede_throughput_and_reference_runs_precede_demos(tmp_path):
    fixed = {
        "profile": "synthetic",
        "labels": ["synthetic"],
        "stop": "epochs:2",
        "qualities": (None, None),
    }
    write_run(tmp_path / "logs", "rate", **fixed)
    sweep(tmp_path / "logs" / "a", runs=1)
    sweep(tmp_path / "logs" / "b", runs=1, profile="reference", labels=[])
    found = page(tmp_path / "logs", tmp_path)
    tables = [title for title in found.headings if title.startswith("NCF ")]
    assert [title.split()[1].rstrip(",") for title in tables] == ["reference", "demo", "synthetic"]
    sentences = found.source.split('class="headlines"')[1].split("</ul>")[0]
    units = [
        re.search(r" s to | user-item pairs/s ", text)[0].strip()
        for text in sentences.split("<li ")[1:]
    ]
    assert units == ["s to", "s to", "user-item pairs/s"]


def test_published_results_are_shown_next_to_ours(tmp_path):
    root = tmp_path / "logs"
    sweep(root, runs=3, profile="reference", labels=[])
    plain = page(root, tmp_path, "plain.html")
    with_published = page(root, tmp_path, "beside.html", published=find_published("dgx1-article"))
    names = [re.findall(r'value="([^"]*)"', found.legends[0]) for found in (plain, with_published)]
    assert names == [["pytorch"], ["pytorch", "DGX-1 article"]]
    ours, theirs = re.findall(r'stroke-dasharray="([^"]*)"', with_published.legends[0])
    assert (ours, bool(theirs)) == ("", True)
    assert "resnet50" not in with_published.text
    assert "hardware Some CPU, published: Tesla V100-SXM2" in with_published.text
    without_ncf = page(root, tmp_path, "other.html", published=find_published("v0.7/Fujitsu"))
    assert "so there is nothing to compare" in without_ncf.text


# --- Data of the page


def test_data_of_filters_and_tooltips_agrees_with_the_csv(tmp_path):
    sweep(tmp_path / "logs", runs=1)
    found = page(tmp_path / "logs", tmp_path)
    listed = list(csv.DictReader(csv_of(found).decode().splitlines()))
    facets = found.data["facets"]
    table_rows = re.findall(r'<tr data-of="(\d+)">', found.source.split("<h2>Results</h2>")[1])
    for row, number in zip(listed, table_rows, strict=False):
        kind, *places = found.data["rows"][int(number)]
        kind_values = dict(zip(facets, found.data["kinds"][kind], strict=True))
        names = ("workload", "framework", "devices", "system", "profile")
        assert [kind_values[name] for name in names] == [row[name] for name in names]
        assert kind_values["round"] == "ours"
        lines = dict(found.data["lines"][place] for place in places)
        assert float(lines["time to target"].removesuffix(" s")) == pytest.approx(
            float(row["seconds"]), rel=0.01
        )
        assert lines["log"] == f"ncf-{row['devices']}/run_0"
    times = found.figures[0]["marks"]
    assert [
        y for y, kind in zip(times["y"], times["k"], strict=True) if kind is None
    ] == pytest.approx([float(row["seconds"]) for row in listed], rel=1e-4)


def test_the_page_carries_its_results_as_csv(tmp_path, capsys, monkeypatch):
    sweep(tmp_path / "logs", runs=3, system="=cmd()")
    whole = page(tmp_path / "logs", tmp_path)
    content, page_source = csv_of(whole), whole.source
    assert main(["report", str(tmp_path / "logs"), "--format", "csv"]) == 0
    assert content.decode() == capsys.readouterr().out
    assert len(content.splitlines()) == 1 + 3
    points = base64.b64decode(
        re.search(r'href="data:application/gzip;base64,([^"]*)"', page_source)[1]
    )
    lines = list(csv.DictReader(gzip.decompress(points).decode().splitlines()))
    evaluated = [float(line["value"]) for line in lines if line["metric"]]
    # These are the qualities that `sweep` writes.
    assert sorted(evaluated) == sorted([0.3, 0.5, 0.65, 0.5, 0.65, 0.5, 0.65] * 3)
    monkeypatch.setattr(page_file, "MAX_DATA_BYTES", 100)
    found = page(tmp_path / "logs", tmp_path, "large.html")
    assert "data:text/csv" not in found.source
    assert "suite report --format csv --output results.csv" in found.text


# --- Hostile logs


def hostile(root):
    settings = {
        "framework": EVIL,
        "system": EVIL,
        "dataset": EVIL,
        "device_name": EVIL,
        "labels": ["demo", EVIL],
    }
    for devices in (1, 2):
        for index in range(2):
            job = f"{EVIL.replace('/', '_').encode('ascii', 'ignore').decode()}-{devices}"
            keys = {f"opt_{EVIL}{number}": EVIL for number in range(120)}
            write_run(
                root,
                job,
                index,
                devices=devices,
                keys=keys,
                workload=EVIL,
                targets={EVIL: 0.5},
                **settings,
            )
    write_run(
        root,
        "b",
        0,
        qualities=(0.1,),
        reason=EVIL,
        workload=EVIL,
        status={"status": "failed", "reason": EVIL},
    )
    numbers = {
        "qualities": (1e308, -1e308, 1e-308, float("nan")),
        "samples": 1e300,
        "train_seconds": 1e-300,
    }
    folder = write_run(root, "c", 0, **numbers)
    nested = {"a": {"b": {"c": {"d": [EVIL]}}}}
    # The number of cores is larger than any float.
    (folder / "run.json").write_text(
        json.dumps({"versions": {EVIL: EVIL}, "environment": nested, "cores": 10**400})
    )
    telemetry(folder, run_cpu_percent=1e308, gpu_percent=[EVIL], **{EVIL: 1})
    write(root / "d" / "run_0" / "result_0.txt", ("[" * 50_000 + "\n") * 3 + ":::MLLOG {\n")
    return root


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    """Return the page of hostile logs, its folder, and the files that were written with it."""
    folder = tmp_path_factory.mktemp("hostile")
    root = hostile(folder / "logs")
    before = set(folder.rglob("*"))
    found = page(root, folder, figures=folder / "figures")
    return found, folder, set(folder.rglob("*")) - before


def test_texts_of_hostile_logs_never_become_markup(hostile_page):
    found, _, _ = hostile_page
    assert not {"img", "iframe", "object", "link", "a-b"} & set(found.tags)
    # The three scripts are the data, Vega, and the script of the page.
    assert (found.tags.count("script"), found.tags.count("form")) == (3, 1)
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.text  # It is shown as text.
    assert "$\\frac{1$" in found.text
    assert not {"\x1b", "\u202e", "\ud800"} & {*found.source}
    assert len(found.ids) == len(set(found.ids))
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in found.ids)
    csv_of(found).decode()


def test_no_link_leads_outside_the_page_and_its_folder(hostile_page):
    found, folder, _ = hostile_page
    for _, name, value in found.attributes:
        if name in ("href", "src", "xlink:href", "action", "data", "srcset"):
            inside = value.startswith(("data:text/csv", "data:application/gzip")) or (
                value.startswith("#") and value[1:] in found.ids
            )
            assert inside or (value[:2] == "./" and (folder / urllib.parse.unquote(value)).exists())
        if name == "style":
            assert not re.search(r"url\((?!#)", value)
    scripts = re.findall(r"<script>(.*?)</script>", found.source, re.DOTALL)
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts
    ]
    (policy,) = [
        value
        for tag, name, value in found.attributes
        if (tag, name) == ("meta", "content") and "src" in value
    ]
    assert policy.split("; ") == [
        "default-src 'none'",
        "script-src " + " ".join(f"'sha256-{digest}'" for digest in digests),
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    style = re.search(r"<style>(.*?)</style>", found.source, re.DOTALL)[1]
    assert not re.search(r"url\(|@import", style)


def test_figure_files_stay_in_their_folder(hostile_page):
    _, folder, new = hostile_page
    assert {path.parent for path in new} == {folder, folder / "figures"}
    drawn, pictures = ([*folder.glob(f"figures/*.{ending}")] for ending in ("svg", "png"))
    assert len(drawn) == len(pictures) == len(new) / 2 - 1 > 3
    assert all(re.fullmatch(r"[a-z0-9-]+\.(svg|png)", path.name) for path in (*drawn, *pictures))
    assert not any("<script" in path.read_text() for path in drawn)
    assert {path.read_bytes()[:4] for path in pictures} == {b"\x89PNG"}


# --- Files and limits


def test_the_same_logs_give_the_same_bytes(tmp_path):
    sweep(tmp_path / "logs", runs=1)
    words = ("report", str(tmp_path / "logs"), "--to", "v0.5/NVIDIA/dgx1")
    command_a, command_b = (
        [*words, "--html", str(tmp_path / f"{name}.html"), "--figures", str(tmp_path / name)]
        for name in "ab"
    )
    assert main(command_a) == 0
    # Hashes of strings differ between this process and the subprocess.
    seeded = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "suite.cli", *command_b]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=seeded)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert "NVIDIA dgx1_ngc18.11_pytorch" in Page((tmp_path / "a.html").read_text()).text
    figures_a, figures_b = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab"
    )
    assert figures_a
    assert figures_a == figures_b


def test_existing_files_are_not_overwritten(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    runs = table(tmp_path / "logs")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.svg").write_text("mine")
    with pytest.raises(ValueError, match="expected a new or empty folder"):
        write_html(runs, tmp_path / "new.html", figures=tmp_path / "figures")
    assert not (tmp_path / "new.html").exists()
    with pytest.raises(ValueError, match="does not exist"):
        write_html(runs, tmp_path / "no" / "new.html")


@pytest.fixture
def full_disk():
    """Limit the files that this process writes to 20 kB.

    Python ignores the signal SIGXFSZ, so a write beyond the limit raises OSError.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_no_incomplete_page(tmp_path, capsys, full_disk):
    write_run(tmp_path / "logs", "ncf-1")
    out = tmp_path / "out.html"
    assert main(["report", str(tmp_path / "logs"), "--html", str(out)]) == 2
    message = (
        f"suite report: {out} cannot be written (File too large): choose a folder on a different"
        " disk\n"
    )
    assert capsys.readouterr().err == message
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "v0.5"], "need --html OUT"),
        (["--figures", "x"], "need --html OUT"),
        (["--predict", "8"], "need --html OUT"),
        (["--follow"], "need --html OUT"),
        (["--html", "x.html", "--follow", "--figures", "x"], "Leave out either option"),
        (["--html", "x.html", "--format", "csv"], "Leave out --format"),
        (["--html", "x.html", "--to", "v0.5/NVIDIA/dgx7"], "Nearest"),
    ],
)
def test_invalid_options_are_rejected_in_one_line(
    tmp_path, capsys, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "logs", "ncf-1")
    assert main(["report", "logs", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x.html").exists()


def test_a_page_of_many_runs_draws_a_limited_number_of_figures(tmp_path, monkeypatch):
    for module in (pages, figure_blocks):
        monkeypatch.setattr(module, "MAX_DRAWN_TABLES", 2)
    for index in range(60):
        write_run(tmp_path / "logs", "ncf-1", index, seconds_per_epoch=1 + index / 100)
    for index in range(4):
        write_run(tmp_path / "logs", f"other-{index}", system=f"machine {index}")
    found = page(tmp_path / "logs", tmp_path)
    assert (
        "the median, the minimum, and the maximum, up to the point that half of the runs reached"
        in found.text
    )
    quality = next(
        figure
        for title, figure in zip(found.drawn, found.figures, strict=True)
        if "hit rate at 10 over epochs" in title
    )
    # The figure has one curve of three evaluations and its target.
    assert len(quality["marks"]["y"]) == 3 + 1
    assert "The remaining 3 tables have no figures" in found.text
    assert found.tags.count("details") == 64 + len(found.drawn)


# --- Published results


def test_a_page_of_published_results(tmp_path, capsys):
    out = tmp_path / "rounds.html"
    assert main(["published", "list", "--round", "v0.6,v0.7", "--html", str(out)]) == 0
    found = Page(out.read_text(encoding="utf-8"))
    assert "158 results of 9 submitters, from v0.6, v0.7." in found.text
    assert found.headings[0] == "Time to target by number of accelerators"
    assert len(found.figures) == 5  # MiniGo has only one result, so it has no figure.
    assert found.data["start"] == {"workload": "resnet50", "round": "v0.7", "division": "closed"}
    assert "Fujitsu gx_V100x8_ngc20.06_pytorch" in found.text
    assert (
        found.source.split("<h2>All results with all columns</h2>")[1].count("<tr data-of=") == 158
    )
    assert len(csv_of(found).splitlines()) == 1 + 158
    listed = found.source.split("<h2>All results with all columns</h2>")[1]
    heads = re.findall(r"<th[^>]*>([^<]*)<", listed)
    assert (len(heads), "= throughput" in heads) == (len({*heads}), False)
    assert "box mean average precision ≥ 0.377, mask mean average precision ≥ 0.339" in listed
    facts = found.data
    assert sum(count for _, count in facts["counts"]) == 158
    assert len({json.dumps(kind) for kind in facts["kinds"]}) == len(facts["kinds"])
    assert not [
        value
        for _, name, value in found.attributes
        if name in ("src", "onload") or value.startswith("http")
    ]


def test_names_in_user_files_of_published_results_are_escaped(tmp_path, monkeypatch):
    columns = "round,submitter,system,chips,framework,benchmark,minutes"
    lines = [
        f'"{EVIL[:60].replace(chr(34), "")}",x,"<b>{count}</b>_y",8,"<i>z</i>",ssd,{count}'
        for count in (1, 2)
    ]
    (tmp_path / "results_own.csv").write_text("\n".join([columns, *lines]), encoding="utf-8")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert (
        main(["published", "list", "--submitter", "x", "--html", str(tmp_path / "out.html")]) == 0
    )
    found = Page((tmp_path / "out.html").read_text(encoding="utf-8"))
    assert not {"i", "img"} & set(found.tags)
    assert found.tags.count("b") == len(found.drawn)
    assert "own file" in found.text


def test_results_of_logs_belong_to_the_rounds_with_the_same_target(tmp_path):
    ours = {
        "profile": "reference",
        "labels": [],
        "device": "cuda",
        "device_name": "Tesla V100-SXM2-16GB",
        "devices": 8,
    }
    write_run(
        tmp_path / "logs",
        "own",
        workload="gnmt",
        targets={"bleu": 21.8},
        qualities=(21.9,),
        status="success",
        **ours,
    )
    assert (
        main(
            [
                "published",
                "list",
                "--logs",
                str(tmp_path / "logs"),
                "--html",
                str(tmp_path / "out.html"),
            ]
        )
        == 0
    )
    data = Page((tmp_path / "out.html").read_text(encoding="utf-8")).data
    # Later rounds have a target of 24.
    assert data["start"] == {"workload": "gnmt", "round": "v0.5", "division": "closed"}
    kinds_of_ours = [
        dict(zip(data["facets"], kind, strict=True))
        for kind in data["kinds"]
        if "reference" in kind
    ]
    assert [
        sorted({*kind["round"]} & {"ours", "v0.5", "v0.6", "v0.7"}) for kind in kinds_of_ours
    ] == [["ours", "v0.5"]]
