"""`suite report`: detection of logs, notes on skipped files, and overwriting of pages."""

import subprocess
import sys
from pathlib import Path

import pytest

from suite.cli import main
from testing.fake_logs import write_run
from tests.helpers import refusal, suite_here

LOGS = Path(__file__).resolve().parents[2] / "data" / "logs"


def test_logs_are_recognized_by_content_and_skipped_files_are_counted(tmp_path):
    folder = tmp_path / "theirs"
    (folder / "job").mkdir(parents=True)
    (folder / "job" / "slurm-17.out").write_text(
        "booting\n" + (LOGS / "0.7.0" / "ssd.txt").read_text()
    )
    (folder / "job" / "as-utf16.log").write_text(
        (LOGS / "0.6.0" / "ssd.txt").read_text(), encoding="utf-16"
    )
    (folder / "notes.md").write_text('A log holds lines such as :::MLLOG {"key": "seed"}.\n')
    (folder / "picture.png").write_bytes(b"\x89PNG\0\0")
    done = suite_here(tmp_path, "report", folder, exits=0)
    assert "SSD" in done.stdout
    assert done.stderr == "suite report: skipped 2 files that are not logs\n"


def test_a_folder_with_a_log_of_the_usual_name_contributes_only_this_log(tmp_path):
    text = (LOGS / "0.7.0" / "ssd.txt").read_text()
    for name in ("result_0.txt", "stdout.log"):  # the same run twice
        (tmp_path / name).write_text(text)
    done = suite_here(tmp_path, "report", tmp_path)
    assert done.stderr == "suite report: skipped 1 file that is not a log\n"
    assert suite_here(tmp_path, "report", tmp_path / "result_0.txt").stdout == done.stdout


def test_files_of_a_run_are_not_counted(tmp_path):
    write_run(tmp_path, "ncf-1")
    run = next(tmp_path.rglob("result_0.txt")).parent
    (run / "run.json").write_text("{}")
    (run / "worker-0.log").write_text((LOGS / "0.7.0" / "ssd.txt").read_text())
    assert suite_here(tmp_path, "report", tmp_path).stderr == ""


def test_a_file_that_is_not_a_log_is_refused_in_one_line(tmp_path):
    (tmp_path / "README.md").write_text("# Not a log\n")
    line = refusal(suite_here(tmp_path, "report", tmp_path / "README.md"))
    assert "README.md is not a log: not a log: no line holds :::MLLOG" in line


def test_a_page_may_be_replaced_and_foreign_files_may_not(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    page = tmp_path / "page.html"
    assert suite_here(tmp_path, "report", tmp_path / "logs", "--html", page).returncode == 0
    first = page.read_text()
    write_run(tmp_path / "logs", "ncf-2", devices=2)
    assert suite_here(tmp_path, "report", tmp_path / "logs", "--html", page).returncode == 0
    assert page.read_text() != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "page.html"]
    page.write_text("<html>mine</html>")
    suite_here(tmp_path, "report", tmp_path / "logs", "--html", page, exits=2)
    assert page.read_text() == "<html>mine</html>"


def test_every_format_is_written_and_never_overwrites_a_file(tmp_path, monkeypatch):
    write_run(tmp_path / "logs", "ncf-1")
    printed = suite_here(tmp_path, "report", tmp_path / "logs").stdout
    for form, begins in (
        ("markdown", b"# Results"),
        ("csv", b"profile,"),
        ("json", b"{"),
        ("parquet", b"PAR1"),
    ):
        out = tmp_path / f"out.{form}"
        assert (
            suite_here(
                tmp_path, "report", tmp_path / "logs", "--format", form, "--output", out
            ).returncode
            == 0
        )
        assert out.read_bytes().startswith(begins)
        done = suite_here(tmp_path, "report", tmp_path / "logs", "--format", form, "--output", out)
        assert (done.returncode, out.read_bytes().startswith(begins)) == (2, True)
        assert (
            done.stderr
            == f"suite report: --output {out} exists and is not overwritten. Give a new path\n"
        )
    assert (tmp_path / "out.markdown").read_text() == printed
    done = suite_here(tmp_path, "report", tmp_path / "logs", "--output", tmp_path / "no" / "x.md")
    assert "cannot be written (No such file or directory)" in done.stderr


@pytest.mark.parametrize(
    ("name", "begins"),
    [("o.md", b"# Results"), ("o.markdown", b"# Results"), ("o.txt", b"# Results"),
     ("o", b"# Results"),
     ("o.csv", b"profile,"), ("o.JSON", b"{"), ("o.parquet", b"PAR1"),
     ("o.html", b"<!doctype html>"),
     ("o.HTM", b"<!doctype html>")],
)  # fmt: skip
def test_the_suffix_of_the_output_decides_the_format(tmp_path, name, begins):
    write_run(tmp_path / "logs", "ncf-1")
    suite_here(tmp_path, "report", "logs", "--output", name, exits=0)
    assert (tmp_path / name).read_bytes().lower().startswith(begins.lower())
    before = (tmp_path / name).read_bytes()
    assert "exists and is not overwritten" in refusal(
        suite_here(tmp_path, "report", "logs", "--output", name)
    )
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("report", "logs", "--output", "o.xlsx"),
            "no format has the suffix .xlsx. Allowed: .md, ",
        ),
        (
            ("report", "logs", "--output", "o.tar.gz"),
            "no format has the suffix .gz. Allowed: .md, ",
        ),
        (
            ("report", "logs", "--output", "o.csv", "--format", "json"),
            "do not match: omit --format",
        ),
        (
            ("report", "logs", "--output", "o.html", "--format", "csv"),
            "is an HTML page: leave out --format csv",
        ),
        (
            ("report", "logs", "--output", "o.html", "--html", "p.html"),
            "are two pages. Omit --html or --output",
        ),
        (
            ("advise", "logs", "--output", "o.html"),
            "suite advise writes no HTML. Allowed suffixes: .md, ",
        ),
        (
            ("compare", "logs", "logs", "--output", "o.htm"),
            "suite compare writes no HTML. Allowed suffixes: .md, ",
        ),
        (
            ("tables", "logs", "--output", "o.html"),
            "suite tables writes no HTML. Allowed suffixes: .md, ",
        ),
        (
            ("scaling", "logs", "--devices", "8", "--output", "o.html"),
            "suite scaling writes no HTML",
        ),
    ],
)
def test_an_output_that_fits_no_format_is_refused_in_one_line(tmp_path, arguments, message):
    write_run(tmp_path / "logs", "ncf-1")
    assert message in refusal(suite_here(tmp_path, *arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_a_format_may_be_written_to_a_file_of_any_other_suffix(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    suite_here(tmp_path, "report", "logs", "--format", "csv", "--output", "o.2026", exits=0)
    assert (tmp_path / "o.2026").read_text().startswith("profile,")


def test_parquet_is_not_printed_to_a_terminal(tmp_path, monkeypatch, capsys):
    write_run(tmp_path, "ncf-1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["report", str(tmp_path), "--format", "parquet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--format parquet is not text: add --output FILE" in line


def test_a_report_imports_nothing_that_draws_or_fits(tmp_path):
    write_run(tmp_path, "ncf-1")
    code = "import sys; from suite.cli import main; main(sys.argv[1:]); "
    code += "assert not {'matplotlib', 'scipy', 'vl_convert', 'jinja2'} & set(sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code, "report", str(tmp_path)], check=True, capture_output=True
    )
