"""Text from files is printed without control characters."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.common.terminal import clean_lines
from suite.control.interrupts import WholeLines
from tests.helpers import examples, run_suite_here

ESCAPES = (
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\x08\x08",
    "\r",
    "\x00",
    "\u202e",
    "\u2066",
    "\u200b",
    "\x7f",
)


@pytest.mark.parametrize("escape", ESCAPES)
def test_escapes_become_spaces(escape):
    assert (
        clean_lines(f"a{escape}b\n c\xa0d")
        == "a"
        + "".join(letter if letter.isprintable() else " " for letter in escape)
        + "b\n c\xa0d"
    )


def test_paths_that_are_not_utf8_stay_unchanged():
    assert clean_lines("a\udce4b\x1b") == "a\udce4b "


@examples(100)
@given(st.text())
def test_any_text_keeps_its_lines_and_its_length(text):
    cleaned = clean_lines(text)
    assert len(cleaned) == len(text)
    assert cleaned.count("\n") == text.count("\n")
    assert clean_lines(cleaned) == cleaned


@pytest.mark.parametrize("escape", ESCAPES)
def test_the_console_of_runs_prints_no_escapes(escape):
    stream = io.StringIO()
    WholeLines(file=stream, width=200, highlight=False).print(f"a{escape}b", soft_wrap=True)
    assert not set(escape.replace("[2J", "").replace("]0;title", "").replace("31m", "")) & set(
        stream.getvalue()
    )


@pytest.mark.parametrize("text", ["\\e[31mred", "\\x1b]0;t\\a", "\\x9b31m", "\\0", "a\\u007fb"])
def test_a_set_with_escapes_is_refused_in_one_line(tmp_path, text):
    folder = tmp_path / "conf" / "hyperparameters" / "ncf"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(f'based_on: reference\nsource: "{text}"\n')
    done = run_suite_here(
        tmp_path,
        "workload=ncf",
        "profile=synthetic",
        "device=cpu",
        "--config-dir",
        str(tmp_path / "conf"),
        "workload.hyperparameter_set=mine",
        "dry_run=true",
    )
    assert done.returncode == 2
    assert f"{folder}/mine.yaml: line 2: the control character U+00" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr[:-1].isprintable()
