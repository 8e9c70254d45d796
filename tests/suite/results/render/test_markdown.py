"""Markdown tables of at most 120 columns without loss of content, and the texts of their cells."""

import csv
import io
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.data_table import DataTable
from suite.results.render.document import document
from suite.results.render.markdown import WIDTH, markdown_table, wrap_document
from suite.results.render.text_table import text_table
from suite.results.targets import bleu_scale, targets_text
from suite.results.text import percent_text, shortened, time_text
from suite.results.views.section import NOT_VERIFIED, Section, View


def cells_of(text):
    """Return the cells of each line of each table, and check that all lines fit."""
    assert all(len(line) <= WIDTH for line in text.splitlines())
    tables = [part for part in text.split("\n\n") if part.startswith("|")]
    return [
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        for table in tables
    ]


def test_a_narrow_table_is_not_split():
    text = markdown_table(["a", "b"], [["x", "1"]], [False, True])
    assert text == "| a   |   b |\n| --- | --: |\n| x   |   1 |"


def test_a_wide_table_is_split_and_each_part_repeats_the_keys():
    values = [f"value {index}" for index in range(20)]
    body = [["one", *values], ["two", *["7"] * 10, *["–"] * 10]]
    tables = cells_of(
        markdown_table(["name", *(f"column {index}" for index in range(20))], body, [False] * 21)
    )
    assert len(tables) > 1
    assert {table[0][0] for table in tables} == {"name"}
    assert [value for table in tables for value in table[2][1:]] == values
    assert tables[0][3][:2] == ["two", "7"]
    assert len(tables[-1]) == 3  # The second row has no values in these columns.


def test_long_texts_are_shortened_with_the_full_text_below_the_table():
    texts = ["x" * 100 + "1", "x" * 100 + "2"]
    wide = markdown_table(
        ["name", "text"], [["a" * 30, texts[0]], ["b" * 30, texts[1]]], [False, False]
    )
    assert [row[1][-5:] for row in cells_of(wide)[0][2:]] == ["… (1)", "… (2)"]
    assert wide.splitlines()[-2:] == [f"(1) {texts[0]}", f"(2) {texts[1]}"]


def test_keys_are_shortened_further_if_they_leave_no_space():
    body = [[letter * 40 for letter in "abcd"] + ["9" * 19], ["e", "f", "g", "h", "1"]]
    text = markdown_table(
        ["one", "two", "three", "four", "number"], body, [False] * 4 + [True], keys=4
    )
    assert cells_of(text)
    assert all(f") {letter * 40}" in text for letter in "abcd")


def test_numbers_are_never_cut():
    text = markdown_table(["n", "x", "y"], [["a" * 60, "9" * 40, "8" * 40]], [False, True, True])
    assert {"9" * 40, "8" * 40} <= {cell for table in cells_of(text) for cell in table[2]}


def test_text_is_wrapped_but_tables_and_headings_are_not():
    long = "word " * 40
    lines = wrap_document(f"# {long}\n| {long}\n- {long}\n{long}").splitlines()
    assert [len(line) > WIDTH for line in lines] == [True, True, False, False, False, False]


@pytest.mark.parametrize("block", ["# heading", "> quotation", "- item", "---"])
def test_a_wrapped_line_does_not_begin_a_markdown_block(block):
    long = "x" * (WIDTH - 1)
    assert wrap_document(f"{long} {block}").splitlines()[1] == "\\" + block
    assert wrap_document(f"- {long[2:]} {block}").splitlines()[1] == "  \\" + block


def test_times_below_two_minutes_are_seconds():
    texts = {
        4.56: "4.6 s",
        0.0123: "0.0123 s",
        119.4: "119.4 s",
        120.0: "2.00 min",
        1224.6: "20.41 min",
    }
    assert {seconds: time_text(seconds) for seconds in texts} == texts


def test_shares_are_shown_in_percent_or_as_below_a_tenth_of_a_percent():
    shares = {
        0.0: "0 %",
        9e-5: "below 0.1 %",
        0.0131: "1.3 %",
        0.38: "38 %",
        0.996: "100 %",
        1.2: "120 %",
    }
    assert {share: percent_text(share) for share in shares} == shares


@given(st.lists(st.text(alphabet="ab", max_size=40), max_size=8), st.integers(12, 30))
def test_shortened_texts_fit_and_stay_distinct(texts, limit):
    short = shortened(texts, limit)
    assert all(len(text) <= limit for text in short)
    assert len(set(short)) == len(set(texts))


def test_the_middle_is_shortened_if_the_ends_differ():
    names = ["v0.5 NVIDIA dgx1_ngc18.11_pytorch", "v0.5 NVIDIA dgx1_ngc18.11_mxnet"]
    assert shortened(names, 26) == ["v0.5 NVIDIA dgx1_…_pytorch", "v0.5 NVIDIA dgx1_…11_mxnet"]


def test_bleu_is_shown_in_points():
    assert targets_text({"bleu": 0.24}) == targets_text({"bleu": 24.0}) == "bleu 24"
    assert targets_text({"top1": 0.759, "map": 0.23}) == "top1 0.759, map 0.23"
    assert bleu_scale("bleu", None, [0.1, 0.25]) == 100.0
    # A BLEU below 1 early in a log is in points if the target is in points.
    assert bleu_scale("bleu", 24.0, [0.9]) == 1.0


ROWS = (
    {
        "framework": "a|b",
        "devices": 2,
        "seconds": 200.0,
        "data_wait_share": 0.0131,
        "notes": ("busy", "late"),
    },
    {"framework": "=x\x1b", "devices": None, "seconds": None, "data_wait_share": 0.5, "notes": ()},
    {
        "framework": "c",
        "devices": 1,
        "seconds": 8.0,
        "data_wait_share": None,
        "notes": ("busy", "late"),
    },
)
SECTION = Section(
    "Part <b>", ("Above.",), DataTable.from_rows(ROWS), ("suite x",), ("Below.",), keys=2
)
VIEW = View("Title", (SECTION,), DataTable.from_rows(ROWS))


def test_column_names_define_headings_alignment_and_units():
    found = text_table(DataTable.from_rows(ROWS), keys=2)
    assert found.header == ("framework", "devices", "time to target", "data wait")
    assert found.right_aligned == (False, True, True, True)
    assert found.body == (
        ("a|b", "2 (a)", "3.33 min", "1.3 %"),
        ("=x", "–", "–", "50 %"),
        ("c", "1 (a)", "8.0 s", "–"),
    )
    # The footnote appears once, and no cell contains only footnote marks.
    assert found.footnotes == ("(a) busy; late",)


def test_a_document_has_one_not_verified_notice_and_escapes_all_text():
    text = document(VIEW)
    assert text.count(NOT_VERIFIED) == 1
    order = (
        "# Title",
        NOT_VERIFIED,
        "## Part &lt;b>",
        "Above.",
        "a\\|b",
        "(a) busy",
        "suite x",
        "- Below.",
    )
    assert sorted(order, key=text.index) == list(order)
    assert "\x1b" not in text


def test_files_contain_raw_numbers():
    found = list(csv.DictReader(io.StringIO(document(VIEW, "csv"))))
    assert [(row["framework"], row["seconds"]) for row in found] == [
        ("a|b", "200.0"),
        ("'=x", ""),
        ("c", "8.0"),
    ]
    stored = json.loads(document(VIEW, "json"))
    assert stored["verification"] == NOT_VERIFIED
    assert [row["devices"] for row in stored["rows"]] == [2, None, 1]
    read = pd.read_parquet(io.BytesIO(document(VIEW, "parquet")))
    assert read["seconds"].tolist()[::2] == [200.0, 8.0]
    assert json.loads(read["notes"][0]) == ["busy", "late"]


def test_unencodable_text_is_replaced_in_files():
    view = View("t", (), DataTable.from_rows([{"name": "half \ud800", "list": ("\ud800",)}]))
    assert "half ?" in document(view, "csv")
    document(view, "json").encode()
    assert pd.read_parquet(io.BytesIO(document(view, "parquet")))["name"][0] == "half ?"
