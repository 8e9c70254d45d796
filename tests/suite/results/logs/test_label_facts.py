"""Labels and reasons for the open division, logged as data or, in older logs, as text only."""

import json

import pytest

from suite.catalog.deviations import Deviation, DeviationCode
from suite.common.labels import Label, LabelKind
from suite.control.open_reasons import append_open_reasons
from suite.results.logs.reader import read
from suite.results.table import shareable, table
from testing.fake_logs import demo_log, write, write_run

TARGETS = Deviation(
    DeviationCode.SETTING,
    "targets",
    {"hr_at_10": 0.5},
    "hr_at_10 0.635 or above",
    {"hr_at_10": 0.635},
)
CHANGED = Deviation(DeviationCode.DATA_CHANGED, detail="x.npy has another size")


def read_log(folder, **suite_run):
    return read(write(folder / "result_0.txt", demo_log(**suite_run)))


def test_data_is_parsed_and_the_logged_text_is_shown(tmp_path):
    facts = {"label_facts": [{"kind": "cpu"}], "deviation_facts": [TARGETS.to_json()]}
    settings = read_log(
        tmp_path, labels=["processor"], deviations=["a lower target"], **facts
    ).settings
    assert (settings.labels, settings.deviations) == (("processor",), ("a lower target",))
    assert settings.parsed_labels == (Label(LabelKind.CPU),)
    assert settings.parsed_deviations == (TARGETS,)
    assert settings.has_label(LabelKind.CPU)
    assert not settings.has_label(LabelKind.DEMO)
    assert settings.has_label(LabelKind.DEMO, LabelKind.CPU)


def test_texts_of_an_older_log_are_translated(tmp_path):
    settings = read_log(tmp_path, labels=["straggler 50 ms"], deviations=[TARGETS.text]).settings
    assert settings.parsed_labels == (Label(LabelKind.STRAGGLER, "50 ms"),)
    assert settings.parsed_deviations == (TARGETS,)


@pytest.mark.parametrize("facts", ["cpu", {}, ["cpu"], [{"kind": 3}], [None]])
def test_damaged_data_is_a_problem_and_the_texts_are_translated(tmp_path, facts):
    reading = read_log(
        tmp_path,
        labels=["cpu"],
        label_facts=facts,
        deviations=[TARGETS.text],
        deviation_facts=facts,
    )
    problems = " ".join(item.text for item in reading.problems)
    assert "label_facts" in problems
    assert "deviation_facts" in problems
    assert reading.settings.parsed_labels == (Label(LabelKind.CPU),)
    assert reading.settings.parsed_deviations == (TARGETS,)


@pytest.mark.parametrize("with_facts", [True, False])
@pytest.mark.parametrize("earlier", [(), (TARGETS,)])
def test_reasons_added_after_the_run_follow_the_reasons_logged_at_its_start(
    tmp_path, with_facts, earlier
):
    facts = (
        {"deviation_facts": [deviation.to_json() for deviation in earlier]} if with_facts else {}
    )
    log = write(
        tmp_path / "result_0.txt",
        demo_log(deviations=[deviation.text for deviation in earlier], **facts),
    )
    append_open_reasons(log, [CHANGED])
    settings = read(log).settings
    assert settings.deviations == (*(deviation.text for deviation in earlier), CHANGED.text)
    assert settings.parsed_deviations == (*earlier, CHANGED)


def test_an_added_reason_without_data_is_parsed_from_its_text(tmp_path):
    log = write(tmp_path / "result_0.txt", demo_log())
    append_open_reasons(log, [CHANGED])
    text = log.read_text()
    log.write_text(text.replace(json.dumps([CHANGED.to_json()]), "[]"))
    assert log.read_text() != text
    assert [deviation.code for deviation in read(log).settings.parsed_deviations] == [
        DeviationCode.UNKNOWN
    ]


def test_files_contain_only_the_texts(tmp_path):
    write_run(tmp_path, "job", label_facts=[{"kind": "demo"}, {"kind": "cpu"}])
    runs = shareable(table(tmp_path))
    assert list(runs["labels"]) == ['["cpu", "demo"]']
    assert not {"label_facts", "deviation_facts", "busy"} & set(runs.columns)
