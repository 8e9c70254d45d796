"""The page: every part of the report, escaped, bounded, with its data inside."""

import base64
import json
import os
import re
import resource
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from suite.cli import main
from suite.results import table
from suite.results.published import FOLDER_VARIABLE
from suite.results.render.html import page as pages
from suite.results.render.html.page import write_html
from suite.results.scores import find_published
from tests.suite.results.fake_logs import write, write_run

FAILED = {"status": "oom", "reason": "process 0: out of memory", "workload": "ncf", "devices": 1}
EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)> $\\frac{1$ &amp; \x1b[31m\u202e\ud800 \"' ../../etc"
VOID = {"meta", "br", "link", "img", "input", "hr", "wbr"}
NOT_VERIFIED = "Not verified by MLCommons Association"


class Page(HTMLParser):
    """All elements, attributes and the text of a page; every element must be closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.open, self.texts, self.ids = [], [], [], [], []
        self.source = text
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.texts).split())
        self.headings = re.findall(r"<h2>([^<]*)</h2>", text)
        self.figures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
        self.drawn = re.findall(r'<svg role="img" aria-label="([^"]*)"', text)

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
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def page(root, tmp_path, name="out.html", **options):
    out = tmp_path / name
    write_html(table(root), out, **options)
    return Page(out.read_text(encoding="utf-8"))


def sweep(root, runs=3, **options):
    for devices, qualities, seconds in ((1, (0.3, 0.5, 0.65), 2.0), (2, (0.5, 0.65), 1.5), (4, (0.5, 0.65), 1.0)):
        for index in range(runs):
            settings = {"seconds_per_epoch": seconds * (1 + index / 50), "devices": devices, **options}
            write_run(root, f"{options.get('workload', 'ncf')}-{devices}", index, qualities=qualities, **settings)


def telemetry(folder, **sensors):
    lines = [{"sensors": {}}, *({"seconds": second, **sensors} for second in range(5))]
    (folder / "telemetry.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


def csv_of(found):
    (link,) = [value for tag, name, value in found.attributes if tag == "a" and name == "href" and value[:5] == "data:"]
    kind, _, content = link.partition(",")
    assert kind == "data:text/csv;charset=utf-8;base64"
    return base64.b64decode(content)


# --- what stands on it --------------------------------------------------------------------------------------------------


def test_a_sweep_gives_every_part_of_the_page(tmp_path):
    root = tmp_path / "logs"
    sweep(root)
    write_run(root, "ncf-1", 3, log=False, status=FAILED)
    telemetry(root / "ncf-1" / "run_0", run_cpu_percent=50.0, gpu_percent=[90, 80], gpu_power_watts=[200, 300])
    (root / "ncf-1" / "run_0" / "run.json").write_text(json.dumps({"versions": {"numpy": "2.4.6"}, "secret": "hidden"}))
    found = page(root, tmp_path)
    first, *others = found.headings
    assert first == "Overview: time to target, demo, ncf"
    assert others[:3] == ["NCF (recommendation)", "Time to target over devices", "ncf on laptop (demo)"]
    assert others[3:] == ["Runs without success", "All runs"]
    assert "10 runs · 9 finished as asked · 1 without success · 1 workload · pytorch · 2023-11-14" in found.text
    assert "2.0 s Fastest" in found.text  # 2 x 1.02 s: olympic mean of 2.00, 2.04 and 2.08 s
    assert found.drawn[:3] == ["Time to target, ncf", "ncf: hr_at_10 over epochs", "ncf: hr_at_10 over time"]
    assert found.drawn[3:5] == ["ncf: throughput over time", "ncf: data wait over time"]
    assert found.drawn[5:] == ["ncf: CPU used by the run", "ncf: GPU in use", "ncf: GPU power"]
    assert len(found.figures) == len(found.drawn)
    assert found.tags.count("details") == 10
    assert "versions numpy 2.4.6" in found.text
    assert "hidden" not in found.text
    assert "process 0: out of memory" in found.text


def test_what_was_not_measured_has_no_section(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    found = page(tmp_path / "logs", tmp_path)
    assert found.headings == ["NCF (recommendation)", "ncf on laptop (demo)", "All runs"]
    assert "Speedups decomposed" not in found.text
    assert len(found.figures) == 4
    assert "nav" not in found.tags


def test_speedups_are_decomposed_for_every_pair(tmp_path):
    sweep(tmp_path / "logs")
    found = page(tmp_path / "logs", tmp_path)
    body = found.source.split("Speedups decomposed")[1].split("</table>")[0]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", line) for line in re.findall(r"<tr>.*?</tr>", body)[1:]]
    assert [row[1] for row in rows] == ["1 → 2", "1 → 4", "2 → 4"]
    assert rows[1][2] == "3.00"  # three epochs of 2 s, then two of 1 s
    assert "3.00 times faster: epochs 2.00 times faster, 1.50 times fewer of them" in rows[1]


def test_the_card_is_of_the_hardest_target_not_of_the_fastest_run(tmp_path):
    write_run(tmp_path / "logs", "hard", qualities=(0.3, 0.5, 0.65), seconds_per_epoch=4.0)
    write_run(tmp_path / "logs", "easy", qualities=(0.3, 0.5), targets={"hr_at_10": 0.5}, status="success")
    card = page(tmp_path / "logs", tmp_path).source.split('class="card"')[1]
    assert "Fastest to hr_at_10 0.635" in card
    assert re.search(r'class="value">12.0 ', card)


def test_learning_rates_are_told_where_tables_differ_in_them(tmp_path):
    for rate, system in ((0.002, "one"), (0.006, "two")):
        write_run(tmp_path / "logs", system, system=system, keys={"opt_base_learning_rate": rate})
    found = page(tmp_path / "logs", tmp_path)
    above = [text for text in re.findall(r'<p class="constants">([^<]*)</p>', found.source) if "learning rate" in text]
    assert [re.search(r"(?<!-)learning rate ([\d.]+)", text)[1] for text in above[-2:]] == ["0.002", "0.006"]


def test_the_reservation_stands_once_on_the_page_and_once_in_each_file(tmp_path):
    sweep(tmp_path / "logs", labels=["demo", "cpu", "oversubscribed"])
    found = page(tmp_path / "logs", tmp_path, published=find_published("dgx1-article"), figures=tmp_path / "figures")
    assert found.text.count(NOT_VERIFIED) == 1
    assert all("demo · cpu · oversubscribed" in svg for svg in found.figures)
    files = list((tmp_path / "figures").glob("*.svg"))
    assert len(files) == len(found.figures)
    assert {path.read_text().count(NOT_VERIFIED) for path in files} == {1}
    assert "ours (cpu, demo, oversubscribed): " in found.text
    assert not re.search(r"<td[^>]*>\s*(\([a-z]\)\s*)+</td>", found.source)  # a cell of marks alone


def test_profiles_are_never_in_one_figure(tmp_path):
    sweep(tmp_path / "logs" / "a")
    sweep(tmp_path / "logs" / "b", profile="reference", labels=[])
    found = page(tmp_path / "logs", tmp_path)
    assert ["demo" in svg for svg in found.figures if "Time to target" in svg] == [False, True]


def test_published_figures_stand_beside_ours_dashed(tmp_path):
    root = tmp_path / "logs"
    sweep(root)
    plain = page(root, tmp_path, "plain.html").source
    beside = page(root, tmp_path, "beside.html", published=find_published("dgx1-article"))
    for mark in ("DGX-1 article", "stroke-dasharray: 6.4"):
        assert [mark in plain, mark in beside.figures[0]] == [False, True]
    assert "resnet50" not in beside.text
    assert "hardware Some CPU, theirs Tesla V100-SXM2" in beside.text
    other = page(root, tmp_path, "other.html", published=find_published("v0.7/Fujitsu"))  # no NCF
    assert "there is nothing to show beside ours" in other.text


# --- its data -----------------------------------------------------------------------------------------------------------


def test_the_page_carries_its_results_as_csv(tmp_path, capsys, monkeypatch):
    sweep(tmp_path / "logs", system="=cmd()")
    content = csv_of(page(tmp_path / "logs", tmp_path))
    assert main(["report", str(tmp_path / "logs"), "--format", "csv"]) == 0
    assert content.decode() == capsys.readouterr().out
    assert len(content.splitlines()) == 1 + 3
    monkeypatch.setattr(pages, "MAX_DATA_BYTES", 100)
    found = page(tmp_path / "logs", tmp_path, "large.html")
    assert "data:text/csv" not in found.source
    assert "suite report --format csv --output results.csv" in found.text


# --- hostile logs -------------------------------------------------------------------------------------------------------


def hostile(root):
    settings = {"framework": EVIL, "system": EVIL, "dataset": EVIL, "device_name": EVIL, "labels": ["demo", EVIL]}
    for devices in (1, 2):
        for index in range(2):
            job = f"{EVIL.replace('/', '_').encode('ascii', 'ignore').decode()}-{devices}"
            keys = {f"opt_{EVIL}{number}": EVIL for number in range(120)}
            write_run(root, job, index, devices=devices, keys=keys, workload=EVIL, targets={EVIL: 0.5}, **settings)
    write_run(root, "b", 0, qualities=(0.1,), reason=EVIL, workload=EVIL, status={"status": "failed", "reason": EVIL})
    numbers = {"qualities": (1e308, -1e308, 1e-308, float("nan")), "samples": 1e300, "train_seconds": 1e-300}
    folder = write_run(root, "c", 0, **numbers)
    nested = {"a": {"b": {"c": {"d": [EVIL]}}}}
    (folder / "run.json").write_text(
        json.dumps({"versions": {EVIL: EVIL}, "environment": nested, "cores": 10**400})  # no float is as large
    )
    telemetry(folder, run_cpu_percent=1e308, gpu_percent=[EVIL], **{EVIL: 1})
    write(root / "d" / "run_0" / "result_0.txt", ("[" * 50_000 + "\n") * 3 + ":::MLLOG {\n")
    return root


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    """The page of hostile logs; its folder, and what is new in there since they were written."""
    folder = tmp_path_factory.mktemp("hostile")
    root = hostile(folder / "logs")
    before = set(folder.rglob("*"))
    found = page(root, folder, figures=folder / "figures")
    return found, folder, set(folder.rglob("*")) - before


def test_nothing_in_a_hostile_log_becomes_markup(hostile_page):
    found, _, _ = hostile_page
    assert not {"script", "img", "iframe", "object", "link", "form", "a-b"} & set(found.tags)
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.text  # shown as text
    assert "$\\frac{1$" in found.text
    assert not {"\x1b", "\u202e", "\ud800"} & {*found.source}
    assert len(found.ids) == len(set(found.ids))
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in found.ids)
    csv_of(found).decode()


def test_no_reference_leads_outside(hostile_page):
    for _, name, value in (found := hostile_page[0]).attributes:
        if name in ("href", "src", "xlink:href", "action", "data", "srcset"):
            assert value.startswith("data:text/csv") or (value.startswith("#") and value[1:] in found.ids)
        if name == "style":
            assert not re.search(r"url\((?!#)", value)
    policy = [value for tag, name, value in found.attributes if (tag, name) == ("meta", "content") and "src" in value]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
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


# --- files and bounds ---------------------------------------------------------------------------------------------------


def test_the_same_logs_give_the_same_bytes(tmp_path):
    sweep(tmp_path / "logs", runs=1)
    one, other = (
        ["report", str(tmp_path / "logs"), "--html", str(tmp_path / f"{name}.html"), "--figures", str(tmp_path / name)]
        for name in "ab"
    )
    assert main(one) == 0
    seeded = {**os.environ, "PYTHONHASHSEED": "7"}  # another process: hashes of text differ between them
    command = [sys.executable, "-m", "suite.cli", *other]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=seeded)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab")
    assert one
    assert one == other


def test_nothing_is_overwritten(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    runs, out = table(tmp_path / "logs"), tmp_path / "out.html"
    out.write_text("mine")
    with pytest.raises(ValueError, match="exists already"):
        write_html(runs, out)
    assert out.read_text() == "mine"
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.svg").write_text("mine")
    with pytest.raises(ValueError, match="not an empty folder"):
        write_html(runs, tmp_path / "new.html", figures=tmp_path / "figures")
    assert not (tmp_path / "new.html").exists()
    with pytest.raises(ValueError, match="does not exist"):
        write_html(runs, tmp_path / "no" / "new.html")


@pytest.fixture
def full_disk():
    """No file of this process may grow beyond 20 kB; Python itself ignores the signal of one that would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_no_half_page(tmp_path, capsys, full_disk):
    write_run(tmp_path / "logs", "ncf-1")
    out = tmp_path / "out.html"
    assert main(["report", str(tmp_path / "logs"), "--html", str(out)]) == 2
    assert capsys.readouterr().err == f"suite report: {out} cannot be written (File too large); give another place\n"
    assert not out.exists()


def test_command(tmp_path, capsys):
    write_run(tmp_path / "logs", "ncf-1")
    out = tmp_path / "out.html"
    assert main(["report", str(tmp_path / "logs"), "--html", str(out), "--to", "v0.5/NVIDIA/dgx1"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert "NVIDIA dgx1_ngc18.11_pytorch" in Page(out.read_text()).text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "v0.5"], "need --html OUT"),
        (["--figures", "x"], "need --html OUT"),
        (["--predict", "8"], "need --html OUT"),
        (["--html", "x.html", "--format", "csv"], "leave out --format"),
        (["--html", "x.html", "--to", "v0.5/NVIDIA/dgx7"], "nearest"),
    ],
)
def test_mistakes_are_one_line(tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "logs", "ncf-1")
    assert main(["report", "logs", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x.html").exists()


def test_a_page_of_many_runs_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "MAX_DRAWN_TABLES", 2)
    for index in range(60):
        write_run(tmp_path / "logs", "ncf-1", index, seconds_per_epoch=1 + index / 100)
    for index in range(4):
        write_run(tmp_path / "logs", f"other-{index}", system=f"machine {index}")
    found = page(tmp_path / "logs", tmp_path)
    assert "20 more runs are not drawn (at most 40 of one colour)" in found.text
    assert "The last 3 tables have no figures" in found.text
    assert found.tags.count("details") == 64


def test_text_reports_import_no_matplotlib(tmp_path):
    write_run(tmp_path, "ncf-1")
    code = "import sys; from suite.cli import main; main(['report', sys.argv[1]]);"
    code += "assert not {'matplotlib', 'jinja2'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, stdout=subprocess.DEVNULL)


# --- published results --------------------------------------------------------------------------------------------------


def test_a_page_of_published_results(tmp_path, capsys):
    out = tmp_path / "rounds.html"
    assert main(["published", "list", "--round", "v0.6,v0.7", "--html", str(out)]) == 0
    found = Page(out.read_text(encoding="utf-8"))
    assert "158 results · v0.6, v0.7" in found.text
    assert found.headings[1] == "Time to target over accelerators"
    assert len(found.figures) == 5  # MiniGo has one result
    assert "Fujitsu gx_V100x8_ngc20.06_pytorch" in found.text
    assert found.source.split("<h2>All results with every column</h2>")[1].count("<tr>") == 1 + 158
    assert len(csv_of(found).splitlines()) == 1 + 158
    assert not [value for _, name, value in found.attributes if name in ("src", "onload") or value.startswith("http")]
    assert "script" not in found.tags
    capsys.readouterr()
    assert main(["published", "list", "--html", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_names_in_own_files_of_published_results_are_escaped(tmp_path, monkeypatch):
    columns = "round,submitter,system,chips,framework,benchmark,minutes"
    lines = [f'"{EVIL[:60].replace(chr(34), "")}",x,"<b>{count}</b>_y",8,"<i>z</i>",ssd,{count}' for count in (1, 2)]
    (tmp_path / "results_own.csv").write_text("\n".join([columns, *lines]), encoding="utf-8")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert main(["published", "list", "--submitter", "x", "--html", str(tmp_path / "out.html")]) == 0
    found = Page((tmp_path / "out.html").read_text(encoding="utf-8"))
    assert not {"script", "b", "i", "img"} & set(found.tags)
    assert "own file" in found.text
