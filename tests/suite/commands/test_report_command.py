"""`suite report`: what counts as a log, what is said of the rest, and the page that may be written again."""

import subprocess
import sys
from pathlib import Path

from suite.cli import main
from testing.fake_logs import write_run
from tests.helpers import refusal, suite_here

LOGS = Path(__file__).resolve().parents[2] / "data" / "logs"


def test_logs_are_told_by_content_and_the_rest_is_counted(tmp_path):
    folder = tmp_path / "theirs"
    (folder / "job").mkdir(parents=True)
    (folder / "job" / "slurm-17.out").write_text("booting\n" + (LOGS / "0.7.0" / "ssd.txt").read_text())
    (folder / "job" / "as-utf16.log").write_text((LOGS / "0.6.0" / "ssd.txt").read_text(), encoding="utf-16")
    (folder / "notes.md").write_text('A log holds lines such as :::MLLOG {"key": "seed"}.\n')
    (folder / "picture.png").write_bytes(b"\x89PNG\0\0")
    done = suite_here(tmp_path, "report", folder, exits=0)
    assert "ssd" in done.stdout
    assert done.stderr == "suite report: skipped 2 files that are no logs\n"


def test_beside_a_log_of_its_usual_name_nothing_else_counts(tmp_path):
    text = (LOGS / "0.7.0" / "ssd.txt").read_text()
    for name in ("result_0.txt", "stdout.log"):  # the same run, twice written
        (tmp_path / name).write_text(text)
    done = suite_here(tmp_path, "report", tmp_path)
    assert done.stderr == "suite report: skipped 1 file that is no log\n"
    assert suite_here(tmp_path, "report", tmp_path / "result_0.txt").stdout == done.stdout


def test_files_of_a_run_are_not_counted(tmp_path):
    write_run(tmp_path, "ncf-1")
    run = next(tmp_path.rglob("result_0.txt")).parent
    (run / "run.json").write_text("{}")
    (run / "worker-0.log").write_text((LOGS / "0.7.0" / "ssd.txt").read_text())
    assert suite_here(tmp_path, "report", tmp_path).stderr == ""


def test_a_file_that_is_no_log_is_one_line_and_a_code(tmp_path):
    (tmp_path / "README.md").write_text("# Not a log\n")
    line = refusal(suite_here(tmp_path, "report", tmp_path / "README.md"))
    assert "README.md is no log: not a log: no line holds :::MLLOG" in line


def test_a_page_is_written_again_and_nothing_else_overwritten(tmp_path):
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


def test_every_format_and_no_file_overwritten(tmp_path, monkeypatch):
    write_run(tmp_path / "logs", "ncf-1")
    printed = suite_here(tmp_path, "report", tmp_path / "logs").stdout
    for form, begins in (("markdown", b"# Results"), ("csv", b"profile,"), ("json", b"{"), ("parquet", b"PAR1")):
        out = tmp_path / f"out.{form}"
        assert suite_here(tmp_path, "report", tmp_path / "logs", "--format", form, "--output", out).returncode == 0
        assert out.read_bytes().startswith(begins)
        done = suite_here(tmp_path, "report", tmp_path / "logs", "--format", form, "--output", out)
        assert (done.returncode, out.read_bytes().startswith(begins)) == (2, True)
        assert done.stderr == f"suite report: --output {out} exists and is not overwritten; give another path\n"
    assert (tmp_path / "out.markdown").read_text() == printed
    done = suite_here(tmp_path, "report", tmp_path / "logs", "--output", tmp_path / "no" / "x.md")
    assert "cannot be written (No such file or directory)" in done.stderr


def test_parquet_is_no_text_for_a_terminal(tmp_path, monkeypatch, capsys):
    write_run(tmp_path, "ncf-1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["report", str(tmp_path), "--format", "parquet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--format parquet is not text: add --output FILE" in line


def test_a_report_imports_nothing_that_draws_or_fits(tmp_path):
    write_run(tmp_path, "ncf-1")
    code = "import sys; from suite.cli import main; main(sys.argv[1:]); "
    code += "assert not {'matplotlib', 'scipy', 'vl_convert', 'jinja2'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, "report", str(tmp_path)], check=True, capture_output=True)
