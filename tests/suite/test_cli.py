"""The `suite` command before any subcommand."""

import pytest

from tests.helpers import suite_here


@pytest.mark.parametrize(("typed", "meant"), [("reprot", "report"), ("Check", "check"), ("tabels", "tables")])
def test_a_mistyped_command_names_the_nearest(tmp_path, typed, meant):
    done = suite_here(tmp_path, typed, "logs")
    assert done.returncode == 2
    assert done.stderr.startswith(f"suite {typed}: no such command; there are run, env, data, check, ")
    assert done.stderr.endswith(f"(did you mean '{meant}'?)\n")
