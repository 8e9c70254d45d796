"""Studies on the command line: their jobs, additional overrides, and one-line errors."""

import dataclasses
import functools
import operator

import pytest
import yaml

from suite.catalog.sets import named_sets
from suite.common import conf, registry, study_file
from suite.common.study_file import load_study, read_study, study_names
from suite.config import overrides
from suite.config.compose import compose
from suite.config.help import help_text
from suite.config.overrides import texts
from suite.config.studies import cells
from suite.plan.jobs import plan
from suite.results.views.study_columns import STUDY_COLUMNS
from tests.helpers import composed, run_suite_here

SENTENCE = {"sentence": "One."}
TABLE = {"table": {"columns": ["samples/s"]}}
SPECIFIED = [
    "allreduce", "async", "batch_efficiency", "batch_size", "devices", "dgx1_article", "embedding",
    "fixed_samples", "frameworks", "image_size", "links", "lr_scaling", "model_size", "nodes",
    "passes", "scaling_strong",
    "scaling_weak",
]  # fmt: skip


def values(*overrides):
    return [dict(cell.cell.values) for cell in cells(list(overrides))]


def test_the_suite_contains_every_study_of_the_articles():
    assert (
        set(study_names())
        >= set(SPECIFIED)
        == {name for name in conf.files("study") if load_study(name).table}
    )


@pytest.mark.parametrize("name", sorted(set(conf.files("study")) - set(SPECIFIED)))
def test_a_study_without_a_table_gives_the_jobs_of_a_sweep(name):
    found = compose([f"study={name}", "nodes=1,2", "gpus=2"]).jobs
    assert [(job.cell, job.config.nodes) for job in found] == [(None, 1), (None, 2)]
    assert f"workload={load_study(name).settings['workload']}" in found[0].overrides
    assert plan(found[0].config).draft is not None


@pytest.mark.parametrize("size", study_file.SIZES)
@pytest.mark.parametrize("name", SPECIFIED)
def test_a_study_has_a_table_a_figure_and_cells_that_differ(name, size):
    found = load_study(name, size)
    assert found.sentence.endswith((".", ")."))
    assert set(found.table["columns"]) <= set(STUDY_COLUMNS)
    assert found.figure["y"] in found.table["columns"]
    assert found.figure["kind"] in ("lines", "bars", "curves")
    arguments = [f"study={name}", f"study.size={size}"]
    used = {found.settings.get("workload"), *(point.get("workload") for point in found.points)} - {
        None
    }
    listed = cells(arguments)
    assert len({listed_cell.cell.texts for listed_cell in listed}) == len(listed) >= 2
    for listed_cell in listed:
        assert set(listed_cell.cell.texts) <= set(listed_cell.overrides)
        # Users can set every key and value.
        if used <= set(registry.names(registry.WORKLOADS)):
            (workload,) = overrides.texts(
                next(word for word in listed_cell.overrides if word.startswith("workload="))
            )
            overrides.check(list(listed_cell.overrides), [workload], multirun=False)


@pytest.mark.parametrize("name", SPECIFIED)
def test_the_last_cell_of_a_study_composes(name):
    last = cells([f"study={name}", "study.size=ci"])[-1]
    config = dataclasses.asdict(composed(*last.overrides))
    for word in last.overrides:
        *path, key = word.partition("=")[0].split(".")
        value = functools.reduce(operator.getitem, path, config)[key]
        assert [
            value["name"] if isinstance(value, dict) and "name" in value else value
        ] == overrides.values(word)


def test_axes_are_crossed_with_each_other_and_with_the_points(monkeypatch):
    points = [{"batch": "default"}, {"batch": "global:8"}]
    described = {**SENTENCE, **TABLE, "axes": {"gpus": [1, 2], "seed": [5, 6]}, "points": points}
    monkeypatch.setattr(study_file, "study_names", lambda: ["own"])
    monkeypatch.setattr(study_file, "_described", lambda name: described)
    found = values("study=own")
    assert [(cell["batch"], cell["seed"], cell["gpus"]) for cell in found] == [
        ("default", "5", "1"), ("default", "5", "2"), ("default", "6", "1"), ("default", "6", "2"),
        ("global:8", "5", "1"), ("global:8", "5", "2"), ("global:8", "6", "1"),
        ("global:8", "6", "2"),
    ]  # fmt: skip


def test_overrides_take_precedence_over_the_study():
    listed = cells(["study=scaling_weak", "workload=ncf", "batch=per_device:64", "gpus=1,2"])
    assert [dict(cell.cell.values) for cell in listed] == [{"gpus": "1"}, {"gpus": "2"}]
    assert {"workload=ncf", "batch=per_device:64", "profile=synthetic", "gpus=2"} <= set(
        listed[1].overrides
    )
    # NCF has none of the study's keys for workloads.
    assert not any(text.startswith("workload.") for text in listed[0].overrides)


def test_a_list_for_another_key_is_a_further_axis():
    found = values("study=scaling_weak", "workload=ncf", "gpus=1", "framework=pytorch,mxnet")
    assert found == [{"gpus": "1", "framework": "pytorch"}, {"gpus": "1", "framework": "mxnet"}]


def test_the_18_points_of_the_article_have_their_sets_and_can_be_selected():
    found = values("study=dgx1_article", "gpus=8", "workload=ncf,ssd")
    assert [(cell["workload"], cell["gpus"]) for cell in found] == [("ssd", "8"), ("ncf", "8")]
    found = values("study=dgx1_article")
    assert len(found) == 18
    for cell in found:
        assert cell["workload.hyperparameter_set"] in named_sets(
            registry.load_workload(cell["workload"])
        )


def test_the_small_size_is_another_set_of_points():
    assert len(values("study=frameworks")) == 6
    small = cells(["study=frameworks", "study.size=ci"])
    assert len(small) == 3
    assert "profile=demo" in small[0].overrides


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({"set": {}}, "has no sentence"),
        ({**SENTENCE, "axis": {}}, "has unknown keys: axis"),
        ({**SENTENCE, "axes": {"gpus": 2}}, "the axis gpus is not a list"),
        ({**SENTENCE, "axes": {"gpus": []}}, "the axis gpus has no values"),
        ({**SENTENCE, "points": [3]}, "points is not a mapping (key: value)"),
    ],
)
def test_an_invalid_description_is_refused(described, expected):
    with pytest.raises(
        ValueError, match=r"^study=own: [^\n]+See conf/study/batch_size.yaml for an example\Z"
    ) as error:
        read_study("own", "full", described)
    assert expected in str(error.value)


def test_values_of_a_file_are_converted_to_override_text():
    found = read_study("own", "full", {**SENTENCE, "set": {"oversubscribe": True, "gpus": 2}})
    assert found.settings == {"oversubscribe": "true", "gpus": "2"}
    assert texts("batch=per_device:8,per_device:16") == ["per_device:8", "per_device:16"]
    assert texts("plugins=['/a','/b']") == ["['/a','/b']"]


def test_help_lists_the_studies():
    printed = help_text({})
    assert all(f"  {name}".ljust(28) + load_study(name).sentence in printed for name in SPECIFIED)


def test_cfg_prints_each_job_and_runs_none(tmp_path):
    done = run_suite_here(
        tmp_path, "study=scaling_weak", "workload=ncf", "gpus=1,2", "--cfg", "job"
    )
    assert [config["gpus"] for config in yaml.safe_load_all(done.stdout)] == [1, 2]
    assert not (tmp_path / "logs").exists()
