"""The `suite` command before any subcommand."""

import pytest

from tests.helpers import suite_here
from tests.suite.results.fake_logs import write_run


def test_text_of_a_log_in_an_error_stays_one_printable_line(tmp_path):
    write_run(tmp_path / "logs", "a", workload="\x1b[2Jevil\nINJECTED")
    done = suite_here(tmp_path, "scaling", "logs", "--devices", "4")
    assert done.returncode == 2
    assert "evil injected in pytorch on laptop" in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("typed", "meant"), [("reprot", "report"), ("Check", "check"), ("tabels", "tables")])
def test_a_mistyped_command_names_the_nearest(tmp_path, typed, meant):
    done = suite_here(tmp_path, typed, "logs")
    assert done.returncode == 2
    assert done.stderr.startswith(f"suite {typed}: no such command; there are run, env, data, check, ")
    assert done.stderr.endswith(f"(did you mean '{meant}'?)\n")
