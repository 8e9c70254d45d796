import csv
import io
import re

import pytest

from suite.results.published import csv_files
from suite.results.report.published_list import Filters, listing
from tests.helpers import PROJECT, suite, suite_here

HEADER = "round,submitter,system,chips,framework,benchmark,minutes,runs,note\n"


def rows(**filters):
    kind = filters.pop("kind", "results")
    return list(csv.DictReader(io.StringIO(listing(kind, Filters(**filters), "csv"))))


def values(found, name):
    return {row[name] for row in found}


def test_everything_is_listed_without_filters():
    found = rows()
    assert len(found) == 445 + 18
    assert values(found, "round") == {"v0.5", "v0.6", "v0.7", "v1.1", "v2.1", "v3.0", "dgx1-article"}
    assert list(found[0])[:12] == [
        *("round", "submitter", "system", "chips", "framework", "benchmark", "minutes", "runs", "epochs", "batch"),
        *("target", "throughput"),
    ]


def test_filters_go_together_without_regard_to_case():
    found = rows(
        round="0.7", submitter="nvidia", workload="mask_rcnn", framework="PyTorch", chips="1-16", division="Closed"
    )
    assert values(found, "round") == {"v0.7"}
    assert values(found, "submitter") == {"NVIDIA"}
    assert values(found, "benchmark") == {"maskrcnn"}
    assert values(found, "framework") == {"pytorch"}
    assert {int(chips) for chips in values(found, "chips")} == {8, 16}
    assert [float(row["minutes"]) for row in found] == sorted(float(row["minutes"]) for row in found)


@pytest.mark.parametrize(
    ("chips", "allowed"), [("8", {8}), ("0", {0}), ("1,4,8", {1, 4, 8}), ("1-16,2048", {*range(1, 17), 2048})]
)
def test_chips(chips, allowed):
    found = {int(row["chips"]) for row in rows(chips=chips)}
    assert found
    assert found <= allowed


def test_several_values_and_part_of_a_system():
    assert values(rows(round="v0.5,v0.6", submitter="Google,Intel"), "submitter") == {"Google", "Intel"}
    assert all("dgx2h" in name for name in values(rows(system="DGX2H"), "system"))
    assert len(rows(system="Xeon")) > 0  # stands in the description alone


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"round": "v0.8"}, "--round v0.8"),
        ({"submitter": "NVDIA"}, "nearest: NVIDIA"),
        ({"workload": "resnet51"}, "nearest: resnet50"),
        ({"framework": "pytroch"}, "nearest: pytorch"),
        ({"system": "dgx9_ngc"}, "nearest: dgx"),
        ({"chips": "7"}, "existing: 0, 1, 2, 4, 6, 8"),
        ({"chips": "8-1"}, "a range such as 1-16"),
        ({"chips": "many"}, "a range such as 1-16"),
        ({"division": "ajar"}, "--division ajar"),
        ({"kind": "throughput", "round": "v0.7"}, "--round means nothing for --kind throughput"),
        ({"kind": "speedups", "submitter": "x"}, "--submitter means nothing for --kind speedups"),
        ({"round": "v0.5", "workload": "maskrcnn"}, "--workload maskrcnn"),
    ],
)
def test_what_nothing_has_is_one_line_with_the_nearest(filters, says):
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        rows(**filters)
    assert "\n" not in str(error.value)


def test_article_rows_are_labelled_and_their_batch_is_global_where_known():
    found = {(row["benchmark"], row["chips"]): row for row in rows(round="dgx1-article")}
    assert len(found) == 18
    assert all(row["note"].startswith("article; ") for row in found.values())
    assert found["ssd", "8"]["batch"] == "1216"
    assert found["gnmt", "4"]["batch"] == ""
    assert "512 (unknown)" in found["gnmt", "4"]["note"]


def test_speedups_flag_the_entry_that_its_own_tables_do_not_give():
    found = rows(kind="speedups")
    assert len(found) == 12
    assert [(row["benchmark"], row["chips_to"], row["note"]) for row in found if row["note"]] == [
        ("resnet50", "4", "printed 4.76, 4.68 by its own tables 1-6")
    ]


def test_throughput_of_articles():
    assert len(rows(kind="throughput")) == 58
    assert values(rows(kind="throughput", workload="resnet50"), "source") >= {"article: Keras and TensorFlow on DGX-1"}
    assert values(rows(kind="throughput", chips="8"), "chips") == {"8"}


def test_table_has_a_note_for_every_remark_and_a_mark_in_the_row():
    text = listing("results", Filters(round="v0.5", submitter="NVIDIA", workload="ncf", chips="8"), "table")
    table, notes = text.split("\n\n")
    assert max(map(len, text.splitlines())) <= 120
    assert "| 86 of 100 |" in table
    assert "| (a) " in table
    assert notes.startswith("(a) first 50 successes in file-number order instead give 28.399 s\n")
    assert "Not verified by MLCommons Association" in notes
    assert notes.endswith("\n1 row.\n")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of the user's; its files are written by the test."""
    monkeypatch.setenv(csv_files.FOLDER_VARIABLE, str(tmp_path))
    csv_files._load.cache_clear()
    yield tmp_path
    csv_files._load.cache_clear()


def test_own_files_are_listed_and_labelled(own):
    (own / "results_lab.csv").write_text(HEADER + "lab,Us,box,4,PyTorch 2,ncf,12.5,3,quiet night\n")
    found = rows(submitter="us")
    assert [(row["round"], row["minutes"], row["note"]) for row in found] == [("lab", "12.5", "own file; quiet night")]
    assert len(rows()) == 445 + 18 + 1


def test_own_files_are_text_for_a_terminal_and_a_spreadsheet(own):
    (own / "results_x.csv").write_text(HEADER + 'v9,=1+1,"a|b <i>\x1b[2J",4,JAX,ncf,1,1,<script>\n')
    table = listing("results", Filters(round="v9"), "table")
    assert "\x1b" not in table
    assert "<script>" not in table
    assert "a\\|b &lt;i>" in table
    assert rows(round="v9")[0]["submitter"] == "'=1+1"


@pytest.mark.parametrize("minutes", ["soon", "nan", "-1", "1e400", "9" * 400])
def test_a_bad_number_names_file_line_and_column(own, minutes):
    (own / "results_x.csv").write_text(HEADER + f"v9,Us,box,4,JAX,ncf,{minutes},1,\n")
    with pytest.raises(ValueError, match=r"results_x\.csv line 2: minutes is '") as error:
        rows()
    assert len(str(error.value)) < 300


def test_a_missing_column_and_a_missing_folder_are_one_line(own, monkeypatch):
    (own / "results_x.csv").write_text("round,system\n")
    with pytest.raises(ValueError, match="no column submitter, chips"):
        rows()
    monkeypatch.setenv(csv_files.FOLDER_VARIABLE, str(own / "none"))
    with pytest.raises(ValueError, match="no such folder"):
        rows()


def test_command(tmp_path):
    done = suite_here(
        tmp_path, "published", "list", "--round", "v0.7", "--submitter", "NVIDIA", "--workload", "ssd", "--chips", "1-8"
    )
    assert done.returncode == 0, done.stderr
    assert "dgx1_ngc20.06_pytorch" in done.stdout
    done = suite_here(tmp_path, "published", "list", "--kind", "speedups", "--format", "csv")
    assert done.stdout.startswith("benchmark,chips_from,chips_to,speedup_printed,speedup_from_tables")
    done = suite(tmp_path, "published", "list", "--workload", "resnet51")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "nearest: resnet50" in done.stderr


def test_every_column_of_the_shipped_files_is_explained():
    text = (PROJECT / "logs" / "published" / "README.md").read_text()
    for path in sorted((PROJECT / "logs" / "published").glob("*.csv")):
        with open(path, newline="") as stream:
            for name in next(csv.reader(stream)):
                assert f"`{name}`" in text, (path.name, name)
        assert f"`{path.name}`" in text
