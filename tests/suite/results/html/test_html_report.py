import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from suite.cli import main
from suite.results.html.page import write_html
from suite.results.html.runs import _time_fractions
from suite.results.logs.record import Throughput
from suite.results.published import csv_files
from suite.results.published.csv_files import find_published_results
from tests.suite.results.fake_logs import IDENTITY, write, write_run

FAILED = {"status": "oom", "reason": "process 0: out of memory", "workload": "ncf", "devices": 1}
EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)> $\\frac{1$ &amp; \x1b[31m\u202e\ud800 \"' ../../etc"
VOID = {"meta", "br", "link", "img", "input", "hr", "wbr"}


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

    @property
    def headings(self):
        return re.findall(r"<h2>([^<]*)</h2>", self.source)


def page(root, tmp_path, name="out.html", **options):
    out = tmp_path / name
    write_html([root], out, **options)
    text = out.read_text(encoding="utf-8")
    found = Page(text)
    return found


def sweep(root, runs=3, **options):
    for devices, qualities, seconds in ((1, (0.3, 0.5, 0.65), 2.0), (2, (0.5, 0.65), 1.5), (4, (0.5, 0.65), 1.0)):
        for index in range(runs):
            settings = {"seconds_per_epoch": seconds * (1 + index / 50), "devices": devices, **options}
            write_run(root, f"{options.get('workload', 'ncf')}-{devices}", index, qualities=qualities, **settings)


def telemetry(folder, **sensors):
    lines = [{"sensors": {}}, *({"seconds": second, **sensors} for second in range(5))]
    (folder / "telemetry.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


def test_a_sweep_gives_every_part_of_the_page(tmp_path):
    root = tmp_path / "logs"
    sweep(root)
    write_run(root, "ncf-1", 3, log=False, status=FAILED)
    telemetry(root / "ncf-1" / "run_0", run_cpu_percent=50.0, gpu_percent=[90, 80], gpu_power_watts=[200, 300])
    (root / "ncf-1" / "run_0" / "run.json").write_text(json.dumps({"versions": {"numpy": "2.4.6"}, "secret": "hidden"}))
    found = page(root, tmp_path)
    headings = re.findall(r"<h2>([^<]*)</h2>", found.source)
    assert headings == [
        "Overview: time to target, demo, ncf",
        "Recommendation (NCF)",
        "Time to target over devices",
        "ncf on laptop (demo)",
        "Runs without success",
        "All runs",
    ]
    assert "10 runs · 9 finished as asked · 1 without success · 1 workload · pytorch · 2023-11-14" in found.text
    assert "2.0 s Fastest" in found.text  # 2 x 1.02 s: olympic mean of 2.00, 2.04 and 2.08 s
    assert "3.00 times the speed of 1 device" in found.text
    assert "3.0× = 2.0× faster epochs × 1.50× fewer epochs" in found.text
    titles = [
        "over epochs",
        "over time",
        "throughput over time",
        "data wait over time",
        "CPU used",
        "GPU in use",
        "GPU power",
    ]
    assert all(title in found.text for title in titles)
    assert found.tags.count("svg") == 1 + len(titles)
    assert found.tags.count("details") == 10
    assert "versions numpy 2.4.6" in found.text
    assert "hidden" not in found.text
    assert "process 0: out of memory" in found.text


def test_shares_of_waiting_and_of_evaluation_stand_beside_a_run():
    blocks = [Throughput(1, 250, 500.0, 4000, 8.0, 3.0, 2.0, 1.0), Throughput(9, 500, 333.0, 4000, 12.0, 2.0, 2.0, 1.0)]
    assert list(_time_fractions(SimpleNamespace(throughput=blocks))) == ["data wait 20", "evaluation 20"]
    assert list(_time_fractions(SimpleNamespace(throughput=[]))) == []


def test_a_run_that_has_not_ended_is_in_no_list_of_failures(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    write_run(tmp_path / "logs", "ncf-2", log=False, status={"status": "running"})
    headings = re.findall(r"<h2>([^<]*)</h2>", page(tmp_path / "logs", tmp_path).source)
    assert "Runs that have not ended" in headings
    assert "Runs without success" not in headings


def test_what_was_not_measured_has_no_section(tmp_path):
    root = tmp_path / "logs"
    write_run(root, "ncf-1")
    found = page(root, tmp_path)
    absent = (
        "Time to target over devices",
        "Speedups decomposed",
        "Runs without success",
        "Lines that could not",
        "Beside",
    )
    assert not [text for text in absent if text in found.text]
    assert not [text for text in ("GPU", "CPU used") if text in found.text]
    assert found.tags.count("svg") == 4
    assert "nav" not in found.tags


def test_labels_and_reservation_stand_at_every_table_and_in_every_figure(tmp_path):
    root = tmp_path / "logs"
    sweep(root, labels=["demo", "cpu", "oversubscribed"])
    found = page(root, tmp_path, published=[item.measurement for item in find_published_results("dgx1-article")])
    for svg in re.findall(r"<svg.*?</svg>", found.source, re.DOTALL):
        assert "demo · cpu · oversubscribed · Not verified by MLCommons Association" in svg
    tables = found.tags.count("table")
    assert tables == 5  # overview, the article's overview, published results beside ours, results, speedups
    below = re.findall(r'<div class="below">.*?</div>', found.source)
    assert len(below) == tables
    assert all("Not verified by MLCommons Association" in text for text in below)
    assert (
        sum('<span class="badge">oversubscribed</span>' in text for text in below) == 3
    )  # ours alone; the table beside published results says it in cells
    assert "ours (demo, cpu, oversubscribed): pytorch on laptop" in found.text


def test_profiles_are_never_in_one_figure(tmp_path):
    root = tmp_path / "logs"
    sweep(root / "a")
    sweep(root / "b", profile="reference", labels=[])
    found = page(root, tmp_path)
    scaling = [svg for svg in re.findall(r"<svg.*?</svg>", found.source, re.DOTALL) if "Time to target" in svg]
    assert [("demo" in svg) for svg in scaling] == [False, True]


def test_strong_and_weak_scaling_have_titles_and_curves_of_their_own(tmp_path):
    root = tmp_path / "logs"
    for devices in (1, 2):
        write_run(root, f"strong-{devices}", devices=devices)
        write_run(root, f"weak-{devices}", devices=devices, batch_rule="per_device:64", batch_size_global=64 * devices)
    found = page(root, tmp_path)
    headings = re.findall(r"<h2>([^<]*)</h2>", found.source)
    assert headings[3:5] == ["ncf on laptop (demo), batch per_device:64", "ncf on laptop (demo), batch set"]
    scaling = found.source.split("</svg>")[0]
    assert ">batch set<" in scaling
    assert ">batch per_device:64<" in scaling


def test_runs_of_fixed_length_show_throughput_alone(tmp_path):
    root = tmp_path / "logs"
    sweep(root, stop="epochs:2", profile="synthetic", labels=["synthetic"], samples=100)
    found = page(root, tmp_path)
    assert "100 user-item pairs/s" in found.text
    assert "Time to target over devices" not in found.text
    header = re.findall(r"<th[^>]*>([^<]*)</th>", found.source)
    assert {"speedup", "× efficiency", "minutes"}.isdisjoint(header)
    assert {"= throughput", "in words"} <= set(header)


def test_published_figures_stand_beside_ours_dashed(tmp_path):
    root = tmp_path / "logs"
    sweep(root)
    plain = page(root, tmp_path, "plain.html")
    beside = page(
        root, tmp_path, "beside.html", published=[item.measurement for item in find_published_results("dgx1-article")]
    )
    assert "DGX-1 article" not in plain.text
    dashes = "stroke-dasharray: 6.4"
    assert dashes not in plain.source.split("</svg>")[0]
    assert dashes in beside.source.split("</svg>")[0]
    assert beside.text.count("DGX-1 article") >= 4  # one label, three rows
    assert "resnet50" not in beside.text
    assert "profile demo, theirs reference" in beside.text
    assert "hardware Some CPU, theirs Tesla V100-SXM2" in beside.text


def test_published_figures_of_other_workloads_say_so(tmp_path):
    root = tmp_path / "logs"
    sweep(root, workload="other")
    found = page(root, tmp_path, published=[item.measurement for item in find_published_results("dgx1-article")])
    assert "there is nothing to show beside ours" in found.text


def hostile(root):
    settings = {"framework": EVIL, "system": EVIL, "dataset": EVIL, "device_name": EVIL, "labels": ["demo", EVIL]}
    for devices in (1, 2):
        for index in range(2):
            job = f"{EVIL.replace('/', '_').encode('ascii', 'ignore').decode()}-{devices}"
            keys = {f"opt_{EVIL}{number}": EVIL for number in range(120)}
            write_run(root, job, index, devices=devices, keys=keys, workload=EVIL, targets={EVIL: 0.5}, **settings)
    write_run(root, "b", 0, qualities=(0.1,), reason=EVIL, workload=EVIL, status={"status": "failed", "reason": EVIL})
    folder = write_run(
        root, "c", 0, qualities=(1e308, -1e308, 1e-308, float("nan")), samples=1e300, train_seconds=1e-300
    )
    (folder / "run.json").write_text(
        json.dumps({"versions": {EVIL: EVIL}, "environment": {"a": {"b": {"c": {"d": [EVIL]}}}}})
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
    for letter in ("\x1b", "\u202e", "\ud800"):
        assert letter not in found.source
    assert len(found.ids) == len(set(found.ids))
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in found.ids)


def test_no_reference_leads_outside(hostile_page):
    found, _, _ = hostile_page
    for _, name, value in found.attributes:
        if name in ("href", "src", "xlink:href", "action", "data", "srcset"):
            assert value.startswith("#")
            assert value[1:] in found.ids
        if name == "style":
            assert not re.search(r"url\((?!#)", value)
    policy = [
        value for tag, name, value in found.attributes if tag == "meta" and name == "content" and "default-src" in value
    ]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    style = re.search(r"<style>(.*?)</style>", found.source, re.DOTALL).group(1)
    assert "url(" not in style
    assert "@import" not in style


def test_figure_files_stay_in_their_folder(hostile_page):
    _, folder, new = hostile_page
    figures = folder / "figures"
    assert {path.parent for path in new} == {folder, figures}
    names = sorted(path.name for path in figures.iterdir())
    assert all(re.fullmatch(r"[a-z0-9-]+\.(svg|png)", name) for name in names)
    assert len([name for name in names if name.endswith(".svg")]) == len(names) / 2 > 3
    for path in figures.glob("*.svg"):
        assert "<script" not in path.read_text()
    for path in figures.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_same_logs_give_the_same_bytes(tmp_path):
    root = tmp_path / "logs"
    sweep(root, runs=1)
    code = "import sys; from pathlib import Path; from suite.results.html.page import write_html;"
    code += "write_html([Path(sys.argv[1])], Path(sys.argv[2]), figures=Path(sys.argv[3]))"
    for name in "ab":  # two processes: hashes of text differ between them
        arguments = [str(root), str(tmp_path / f"{name}.html"), str(tmp_path / name)]
        subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_nothing_is_overwritten(tmp_path):
    root = tmp_path / "logs"
    write_run(root, "ncf-1")
    out = tmp_path / "out.html"
    out.write_text("mine")
    with pytest.raises(ValueError, match="exists already"):
        write_html([root], out)
    assert out.read_text() == "mine"
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.svg").write_text("mine")
    with pytest.raises(ValueError, match="not an empty folder"):
        write_html([root], tmp_path / "new.html", figures=tmp_path / "figures")
    assert not (tmp_path / "new.html").exists()
    with pytest.raises(ValueError, match="does not exist"):
        write_html([root], tmp_path / "no" / "new.html")


def test_a_full_disk_leaves_no_half_page(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    code = "import resource, signal, sys; from pathlib import Path; from suite.cli import main;"
    code += (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000));"
    )
    code += "sys.exit(main(['report', sys.argv[1], '--html', sys.argv[2]]))"
    out = tmp_path / "out.html"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "logs"), str(out)], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr == f"suite report: {out} cannot be written (File too large); give another place\n"
    assert not out.exists()


@pytest.mark.parametrize("folder", ["empty", "missing"])
def test_a_folder_without_logs_is_one_line(tmp_path, capsys, folder):
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out.html"
    assert main(["report", str(tmp_path / folder), "--html", str(out), "--figures", str(tmp_path / "figures")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not out.exists()
    assert not (tmp_path / "figures").exists()


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


def test_a_page_of_many_runs_is_bounded(tmp_path):
    root = tmp_path / "logs"
    for index in range(60):
        write_run(root, "ncf-1", index, seconds_per_epoch=1 + index / 100)
    for index in range(22):
        write_run(root, f"other-{index}", system=f"machine {index}")
    found = page(root, tmp_path)
    assert "20 more runs are not drawn (at most 40 of one colour)" in found.text
    assert "The last 3 tables have no figures" in found.text
    assert found.tags.count("details") == 82


def test_text_reports_import_no_matplotlib(tmp_path):
    write_run(tmp_path, "ncf-1")
    code = "import sys; from suite.cli import main; main(['report', sys.argv[1]]);"
    code += "assert not {'matplotlib', 'jinja2'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, stdout=subprocess.DEVNULL)


def test_logs_of_other_programs_share_a_table_for_each_workload(tmp_path, monkeypatch):
    for system, seconds in (("old box", 90.0), ("new box", 30.0)):
        monkeypatch.setitem(IDENTITY, "platform", system)
        write_run(tmp_path, system, profile="", seconds_per_epoch=seconds, labels=[])
    found = page(tmp_path, tmp_path)
    assert found.headings == ["Overview: logs of other programs", "Recommendation (NCF)", "ncf", "All runs"]
    assert "4.50 min" in found.text
    assert "90.0 s" in found.text


def test_a_page_of_published_results(tmp_path, capsys):
    out = tmp_path / "rounds.html"
    assert main(["published", "list", "--round", "v0.6,v0.7", "--html", str(out)]) == 0
    found = Page(out.read_text(encoding="utf-8"))
    assert "158 results · v0.6, v0.7" in found.text
    assert found.headings[:2] == [
        "At a glance: the fastest published result of each accelerator, 8 of them",
        "Time to target over accelerators",
    ]
    assert found.tags.count("svg") == 5  # MiniGo has one result
    assert "20.40 min Fujitsu gx_ V100x8_ ngc20.06_ pytorch" in found.text
    rows_of_all = found.source.split('id="all"')[1].count("<tr>")
    assert rows_of_all == 1 + 158
    assert not [value for _, name, value in found.attributes if name in ("src", "onload") or "//" in value]
    assert "script" not in found.tags
    assert main(["published", "list", "--html", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_names_in_own_files_of_published_results_are_escaped(tmp_path, monkeypatch):
    columns = "round,submitter,system,chips,framework,benchmark,minutes"
    lines = [f'"{EVIL[:60].replace(chr(34), "")}",x,"<b>{count}</b>_y",8,"<i>z</i>",ssd,{count}' for count in (1, 2)]
    (tmp_path / "results_own.csv").write_text("\n".join([columns, *lines]), encoding="utf-8")
    monkeypatch.setenv(csv_files.FOLDER_VARIABLE, str(tmp_path))
    csv_files._load.cache_clear()
    try:
        assert main(["published", "list", "--submitter", "x", "--html", str(tmp_path / "out.html")]) == 0
    finally:
        csv_files._load.cache_clear()
    found = Page((tmp_path / "out.html").read_text(encoding="utf-8"))
    assert not {"script", "b", "i", "img"} & set(found.tags)
    assert "own file" in found.text
