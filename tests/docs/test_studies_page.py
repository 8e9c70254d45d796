"""docs/how-to/run_a_study.md: every command is a valid study, and the page names every study."""

import re

import pytest

from suite.common.study_file import load_study, study_names
from suite.config import overrides
from suite.config.studies import cells
from tests.helpers import PROJECT

PAGE = (PROJECT / "docs" / "how-to/run_a_study.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`(study=[^`]+)`", PAGE)) - {"study=NAME"})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_the_page_is_a_valid_study(command):
    found = cells([overrides.in_full(word) for word in command.split()])
    assert found
    for job in found:
        overrides.check(
            job.overrides,
            [str(dict(word.split("=", 1) for word in job.overrides)["workload"])],
            multirun=False,
        )


def test_the_page_names_every_study():
    assert len(COMMANDS) >= 14
    missing = [name for name in study_names() if not re.search(rf"`(study=)?{name}\b", PAGE)]
    assert set(missing) <= {"toy_endings"}


def test_small_sizes_of_studies_keep_the_sentence():
    assert all(
        load_study(name, "ci").sentence == load_study(name).sentence for name in study_names()
    )
