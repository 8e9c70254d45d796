import csv
import io

import pytest

from suite.results.advise.article_csv import results_csv, speedups_csv
from suite.results.advise.article_tables import article_tables, printed_speedups, tables_markdown
from suite.results.published.other_logs import measurements_below
from suite.results.report.report import report_text
from tests import helpers
from tests.helpers import PROJECT, suite_here
from tests.suite.results.fake_logs import write, write_run
from tests.suite.results.score.test_scaling import make_measurement


def suite(*arguments, start=suite_here):
    return start(PROJECT, "tables", *arguments)


def cells(text, beginning):
    """The rows of the Markdown table whose header begins with these cells, with the columns of tables that continue it."""
    parts = [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
        for part in text.split("\n\n")
    ]
    place = next((at for at, lines in enumerate(parts) if lines and lines[0][: len(beginning)] == beginning), None)
    assert place is not None, f"no table {beginning}"
    header, _, *rows = parts[place]
    for lines in parts[place + 1 :]:
        if not lines:
            return rows
        other, _, *more = lines
        keys = next(count for count in range(len(other)) if other[count] != header[count])
        assert [row[:keys] for row in more] == [row[:keys] for row in rows]
        rows = [row + line[keys:] for row, line in zip(rows, more, strict=True)]
    return rows


def tables_of(text):
    """The lines of each Markdown table, without escaped bars."""
    parts = text.replace("\\|", "").split("\n\n")
    return [[line for line in part.splitlines() if line.startswith("|")] for part in parts if part.startswith("|")]


def sweep(root, runs=1, **options):
    """One device: 6 s, 3 epochs; two: 3 s, 2 epochs; four: 2 s, 2 epochs."""
    for index in range(runs):
        more = 1 + index / 100
        sides = {1: ((0.3, 0.5, 0.65), 2.0), 2: ((0.5, 0.65), 1.5), 4: ((0.5, 0.65), 1.0)}
        for devices, (qualities, seconds) in sides.items():
            named = {"qualities": qualities, "seconds_per_epoch": seconds * more, "devices": devices, **options}
            write_run(root, f"ncf-{devices}", index, **named)


def test_the_articles_own_tables():
    tables = article_tables([], with_article=True)
    text = tables_markdown(tables)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert [heading.split(". ")[0] for heading in headings] == [f"## Table {number}" for number in range(1, 8)]
    assert all("(article)" in heading for heading in headings[:6])
    assert "Not verified by MLCommons Association." in text
    seventh = cells(text, ["workload", "1 → 4", "1 → 8"])
    assert seventh[0] == ["resnet50: DGX-1 article (article)", "4.68 (a)", "9.71"]
    assert [row[1:] for row in seventh[1:]] == [
        ["2.47", "6.07"],
        ["3.66", "7.25"],
        ["3.25", "10.41"],
        ["5.39", "15.78"],
        ["1.76", "2.79"],
    ]
    assert "(a) 4.76 printed, 4.68 by its own tables" in text
    assert text.count(" printed, ") == 1
    assert "1 → 8: 15.8× = 7.9× faster epochs × 2.0× fewer epochs" in text
    assert cells(text, ["devices", "batch"])[1] == [
        *("4 (a)", "1,664 (416 per device)", "4.56 min", "63", "287.3 min", "fp16", "figure")
    ]


def test_tables_of_our_runs_by_hand(tmp_path):
    sweep(tmp_path)
    text = tables_markdown(article_tables(measurements_below([tmp_path])))
    assert "## Table 6. Recommendation (NCF): pytorch on laptop (demo, cpu)" in text
    assert cells(text, ["devices", "batch"]) == [
        ["1", "4,096 (4,096 per device)", "2 s", "3", "6 s", "fp32", "1"],
        ["2", "4,096 (2,048 per device)", "1.5 s", "2", "3 s", "fp32", "1"],
        ["4", "4,096 (1,024 per device)", "1 s", "2", "2 s", "fp32", "1"],
    ]
    assert "batch in user-item pairs" in text
    assert cells(text, ["workload", "1 → 2", "1 → 4"]) == [["ncf: pytorch on laptop (demo, cpu)", "2.00", "3.00"]]
    decomposition = cells(text, ["workload", "devices", "batch", "scaling"])
    assert [row[1] for row in decomposition] == ["1 → 2", "1 → 4", "2 → 4"]
    assert decomposition[1][2:] == ["4,096 → 4,096", "strong", "3.00", "2.00", "1.50", "0.50", "– (a)"]
    assert "(a) too few runs on 1 device: 1, and 3 are needed" in text
    assert "1 → 4: 3.0× = 2.0× faster epochs × 1.50× fewer epochs" in text


def test_intervals_stand_in_the_table_and_behind_the_verdict(tmp_path):
    sweep(tmp_path, runs=4)
    text = tables_markdown(article_tables(measurements_below([tmp_path])))
    decomposition = cells(text, ["workload", "devices", "batch", "scaling"])
    low, high = map(float, decomposition[1][-1].split("–"))
    assert 2.9 < low < 3.0 < high < 3.1
    assert f"fewer epochs (95 % interval {decomposition[1][-1]})" in text


def test_weak_and_strong_scaling_have_tables_of_their_own(tmp_path):
    sweep(tmp_path / "a")
    for devices in (1, 2):
        write_run(tmp_path, f"w{devices}", devices=devices, batch_rule="per_device:64", batch_size_global=64 * devices)
    text = tables_markdown(article_tables(measurements_below([tmp_path])))
    assert text.count("## Table 6.") == 2
    assert "batch rule per_device:64" in text
    decomposition = cells(text, ["workload", "devices", "batch", "scaling"])
    assert sorted(row[3] for row in decomposition) == ["strong"] * 3 + ["weak"]


def test_several_settings_on_a_count_are_marked(tmp_path):
    for rate, devices in ((0.001, 1), (0.002, 1), (0.002, 2)):
        write_run(tmp_path, f"{rate}-{devices}", devices=devices, keys={"opt_base_learning_rate": rate})
    text = tables_markdown(article_tables(measurements_below([tmp_path])))
    assert [row[1] for row in cells(text, ["devices", "differs in"])] == [
        "base_learning_rate=0.001",
        "base_learning_rate=0.002",
        "–",
    ]
    assert cells(text, ["workload", "1 → 2"])[0][1] == "1.00 (base_learning_rate=0.002)"
    assert len(cells(text, ["workload", "devices", "batch", "scaling"])) == 1


def test_one_count_says_what_to_run_next(tmp_path):
    write_run(tmp_path, "a", devices=1)
    text = tables_markdown(article_tables(measurements_below([tmp_path])))
    said = "measured on 1 device only, so there is no speedup. Run next: python run_suite.py workload=ncf"
    assert said in " ".join(text.split())
    assert "Decomposition" not in text


def test_profiles_never_mix(tmp_path):
    write_run(tmp_path, "a", devices=1)
    write_run(tmp_path, "b", devices=2, profile="reference", labels=["cpu"])
    text = tables_markdown(article_tables(measurements_below([tmp_path])))
    assert "Several profiles were given; each has tables of its own, and no speedup is taken across them." in text
    assert "→" not in text
    assert "(a) fewer runs than the rules ask (1 of 100)" in text


def test_fixed_length_is_left_out_and_said(tmp_path):
    sweep(tmp_path / "a")
    write_run(tmp_path / "b", "x", stop="epochs:3")
    text = tables_markdown(article_tables(measurements_below([tmp_path])))
    assert "Left out: 1 results of fixed length" in text
    assert text.count("## Table 6.") == 1


def test_csv_has_labels_on_every_row(tmp_path):
    sweep(tmp_path, runs=3)
    tables = article_tables(measurements_below([tmp_path]), with_article=True)
    results = list(csv.DictReader(io.StringIO(results_csv(tables))))
    speedups = list(csv.DictReader(io.StringIO(speedups_csv(tables))))
    assert (len(results), len(speedups)) == (3 + 18, 3 + 18)
    assert {row["labels"] for row in (*results, *speedups)} == {"demo; cpu", "article"} or {
        row["labels"] for row in (*results, *speedups)
    } == {"demo; cpu", "cpu; demo", "article"}
    assert {row["verification"] for row in (*results, *speedups)} == {"Not verified by MLCommons Association."}
    for row in speedups:
        product = float(row["throughput"]) * float(row["statistical_efficiency"])
        assert float(row["speedup"]) == product
    flagged = [row for row in speedups if "printed" in row["flags"]]
    assert [(row["workload"], row["devices_to"], row["speedup_printed"]) for row in flagged] == [
        ("resnet50", "4", "4.76")
    ]
    ours = next(row for row in speedups if row["profile"] == "demo" and row["devices_to"] == "4")
    assert float(ours["interval_low"]) <= float(ours["speedup"]) <= float(ours["interval_high"])
    assert [row["total_minutes"] for row in results if row["profile"] == "demo"][:1] == [str(6.06 / 60)]


def test_order_changes_nothing():
    found = [make_measurement(count, [(600.0 / count, 10.0)] * 3) for count in (1, 2, 4)]
    assert tables_markdown(article_tables(found)) == tables_markdown(article_tables(found[::-1]))


def test_hostile_text_stays_in_its_cell(tmp_path):
    evil = "a|b`c\x1b[31m\n## <script>x</script>[x](y)\u202e"
    for devices in (1, 2):
        write_run(
            tmp_path,
            f"{devices}",
            devices=devices,
            framework=evil,
            system=evil,
            labels=[evil],
            workload=evil,
            precision=evil,
        )
    tables = article_tables(measurements_below([tmp_path]))
    text = tables_markdown(tables)
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(tables_of(text)) >= 3
    assert all(len({line.count("|") for line in table}) == 1 for table in tables_of(text))
    assert "\x1b" not in results_csv(tables) + speedups_csv(tables)


def test_files_are_written_once_and_never_over_others(tmp_path):
    sweep(tmp_path / "logs")
    out = tmp_path / "out" / "deeper"
    done = suite(tmp_path / "logs", "--output", out)
    assert (done.returncode, done.stderr) == (0, "")
    names = ["table_7.csv", "tables.md", "tables_1_to_6.csv"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert sorted(done.stdout.split()) == [str(out / name) for name in names]
    assert suite(tmp_path / "logs", "--output", out).returncode == 0  # the same again
    (out / "tables.md").write_text("mine")
    again = suite(tmp_path / "logs", "--output", out, start=helpers.suite)
    assert again.returncode == 2
    assert "tables.md exists there already and is not overwritten; give another folder" in again.stderr
    assert (out / "tables.md").read_text() == "mine"


def test_figure_6_from_the_tables_alone(tmp_path):
    folder = tmp_path / "figures"
    assert suite("--article", "--figures", folder).returncode == 0
    names = {path.name for path in folder.iterdir()}
    assert names == {f"00-published-time-to-target-over-devices.{kind}" for kind in ("svg", "png")}
    drawn = (folder / "00-published-time-to-target-over-devices.svg").read_text()
    for workload in ("resnet50", "maskrcnn", "ssd", "gnmt", "transformer", "ncf"):
        assert f"{workload}, " in drawn
    assert "total speedup over devices" in drawn
    again = suite("--article", "--figures", folder)
    assert again.returncode == 2
    assert "is not an empty folder; give a new one" in again.stderr


@pytest.mark.parametrize("format_name", ["markdown", "csv"])
def test_output_in_one_format(tmp_path, format_name):
    sweep(tmp_path / "logs")
    assert suite(tmp_path / "logs", "--format", format_name, "--output", tmp_path / "out").returncode == 0
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == (["tables.md"] if format_name == "markdown" else ["table_7.csv", "tables_1_to_6.csv"])


def test_mistakes_are_one_line_and_exit_2(tmp_path):
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "failed", "a", qualities=(0.1,))
    write_run(tmp_path / "fixed", "a", stop="epochs:3")
    (tmp_path / "file").write_text("x")
    write_run(tmp_path / "fine", "a")
    for arguments, words in [
        ((), "give a folder with runs (suite tables logs/) or --article"),
        ((tmp_path / "empty",), "holds no log"),
        ((tmp_path / "none",), "does not exist"),
        ((tmp_path / "failed",), "no run succeeded (1 of 1 did not)"),
        ((tmp_path / "fixed",), "no run was trained to a target"),
        ((tmp_path / "fine", "--output", tmp_path / "file"), "cannot be written"),
    ]:
        done = suite(*arguments)
        assert done.returncode == 2, arguments
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_broken_file_of_printed_speedups_is_one_line(tmp_path):
    write(tmp_path / "dgx1_speedups.csv", ["benchmark,chips_from", "ncf,1"])
    with pytest.raises(ValueError, match="not a table of speedups with the columns benchmark"):
        printed_speedups([tmp_path])
    assert printed_speedups([tmp_path / "none"]) == {}
    assert len(printed_speedups()) == 12


def test_the_report_has_verdicts_below_its_tables(tmp_path):
    sweep(tmp_path, runs=4)
    lines = report_text([tmp_path]).splitlines()
    found = [line for line in lines if "× faster epochs" in line]
    assert len(found) == 2
    assert found[0].startswith("- pytorch, 1 → 2 devices (cpu, demo): 2.0× = 1.33× faster epochs × 1.50× fewer epochs")
    assert "(95 % interval 2.9" in found[1]


def test_the_report_says_why_there_is_no_interval(tmp_path):
    sweep(tmp_path)
    text = report_text([tmp_path])
    assert "- pytorch, 1 → 4 devices (cpu, demo): 3.0× = 2.0× faster epochs × 1.50× fewer epochs\n" in text
    assert "No interval: too few runs on 1 device: 1, and 3 are needed." in text
