"""Code decides by types, not by the words of messages: a changed word must not change a result."""

import pytest

from tests.helpers import PROJECT
from tests.text_control_flow import find_decisions, find_decisions_below

READERS_OF_FOREIGN_LOGS = ("suite/results/logs/",)
"""Folders whose files read logs of foreign programs, which only contain texts."""

CHECKER = "the compliance checker of mlperf-logging reports violations only as messages"
NODE_SELECTOR = "a label of Kubernetes, KEY=VALUE, which the user sets"
OLDER = "versions without codes wrote only the sentence"
DATA_NOTE = "the notes of a data set are texts, also in run.json, and this note has a code"
SRUN = "srun and salloc report only in a message that the scheduler ended a step"
HYDRA = "Hydra names the file of a wrong key only in its message"
ALLOWED = {
    "suite/catalog/deviations.py: note == fingerprints.NOT_VERIFIED": DATA_NOTE,
    "suite/common/run_end.py: 'no space left in' in sentence": OLDER,
    "suite/common/run_end.py: _DIVERGED.match(sentence)": OLDER,
    "suite/compliance/complaints.py: _CHECK.match(message)": CHECKER,
    "suite/compliance/complaints.py: _NEVER.match(message)": CHECKER,
    "suite/compliance/complaints.py: _COUNT.match(message)": CHECKER,
    "suite/compliance/complaints.py: _CRASH.match(message)": CHECKER,
    "suite/config/compose.py: re.match(\"In ('[^']*': )\", str(error))": HYDRA,
    "suite/control/hosts/kubernetes.py: _LABEL.fullmatch(str(label))": NODE_SELECTOR,
    "suite/control/hosts/scheduler_text.py: _ENDED_BY_SCHEDULER.search(message)": SRUN,
    "suite/control/hosts/kubernetes.py: str(label).split('=', 1)": NODE_SELECTOR,
}
"""Code that may read a text, and the reason."""


@pytest.fixture(scope="module")
def found():
    places = find_decisions_below(PROJECT / "suite")
    return {
        key: place for key, place in places.items() if not key.startswith(READERS_OF_FOREIGN_LOGS)
    }


def test_no_code_decides_by_the_words_of_a_text(found):
    new = [f"{key} (line {place.line})" for key, place in found.items() if key not in ALLOWED]
    assert not new, (
        "use a type for the decision and format the text only for output:\n" + "\n".join(new)
    )


def test_every_exception_is_needed(found):
    assert not set(ALLOWED) - set(found), "remove these exceptions"


@pytest.mark.parametrize(
    "code",
    [
        "row.reason.startswith('NonFiniteLossError')",
        "str(record.reason).lower().endswith('disk full')",
        "(row.note or '').startswith(REPEATED)",
        "row.machine_condition.startswith(BUSY)",
        "'no space left in' not in status.reason",
        "'cpu' in row.labels",
        "NULL_DEVICE in settings.labels",
        "report.FAILED in titles",
        "view.title == 'Comparison'",
        "'Comparison' != view.title",
        "self.reason == ANOTHER_CHECKOUT",
        "row.reason == f'worker {rank} died'",
        "re.search('aborted', problem.text)",
        "_PATTERN.fullmatch(label)",
        "_PATTERN.match(message)",
        "re.match('In (.*): ', str(error))",
        "any(text.startswith('data set') for row in rows for text in row.deviations)",
        "[one for one in labels(row) if one.startswith(BUSY)]",
        "[one for one in (*row.labels, *row.notes) if one == 'oversubscribed']",
        "[text.partition(': ')[2] for text in section.below]",
        "sentence.removeprefix('targets ')",
        "titles.index('Failed runs')",
        "text.startswith('data set ')",
        "'is a build for' in text",
        "words == 'time to target'",
        "deviations[0].split(', not ')",
        "row.reason[:8].startswith('NonFiniteLossError')",
        "{one for one in clean(row.note).split('; ')}",
    ],
)
def test_the_check_finds_decisions(code):
    assert [place.code for place in find_decisions(f"def function():\n    return {code}\n")]
    assert [place.code for place in find_decisions(f"VALUE = {code}\n")]


@pytest.mark.parametrize(
    "code",
    [
        "first = view.title\nfirst == 'Comparison'",
        "for one in row.labels:\n    one.startswith('busy')",
        "names, count = [section.title for section in sections], 3\n'Failed' in names",
        "if why := row.reason:\n    other = why\n    other.startswith('D')",
        "match row.status, row.reason:\n    case 'failed', 'disk full': pass",
        "match row.reason:\n    case 'disk full': pass",
    ],
)
def test_the_check_follows_variables(code):
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    assert find_decisions(code)
    assert find_decisions(f"def function():\n{lines}")


@pytest.mark.parametrize(
    "code",
    [
        "row.reason == ''",
        "row.reason != ''",
        "bool(row.reason)",
        "row.kind is Kind.BUSY",
        "row.status == 'success'",
        "text.startswith('+')",
        "'=' in text",
        "'file' in message",
        "message['do'] == 'ask'",
        "line['verdict'] == 'equal runs'",
        "[label for label in labels if label not in shared]",
        "one.reason == other.reason",
        "path.name.startswith('result_')",
        "names.index(label)",
        "re.sub('[^a-z]+', '-', title.lower())",
    ],
)
def test_the_check_allows_decisions_without_texts(code):
    assert not find_decisions(f"def function():\n    return {code}\n")


def test_variables_of_a_function_are_not_texts_in_other_functions():
    code = (
        "def first():\n    one = row.reason\n\n\ndef second(one):\n    return"
        " one.startswith('result_')\n"
    )
    assert not find_decisions(code)
