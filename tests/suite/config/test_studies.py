"""Studies on the command line: which jobs they become, what is typed beside them, and what is refused in one line."""

import re

import pytest
import yaml

from suite.common import conf, registry, study
from suite.common.study import load_study, read_study, study_names
from suite.config.compose import compose
from suite.config.overrides import texts
from suite.config.studies import cells
from suite.results.views.study_columns import COLUMNS
from tests.helpers import run_suite_here

SENTENCE = {"sentence": "One."}
SPECIFIED = (
    *(
        "allreduce",
        "async",
        "batch_efficiency",
        "batch_size",
        "devices",
        "dgx1_article",
        "embedding",
        "fixed_samples",
        "frameworks",
    ),
    *("image_size", "links", "lr_scaling", "model_size", "nodes", "passes", "scaling_strong", "scaling_weak"),
)


def composed_by_hand(monkeypatch, described):
    monkeypatch.setattr(study, "study_names", lambda: ["own"])
    monkeypatch.setattr(study, "_from_outside", lambda name: described)


def values(*typed):
    return [dict(one.cell.values) for one in cells(list(typed))]


def test_every_study_of_the_articles_is_there():
    assert set(study_names()) >= set(SPECIFIED) == set(conf.files("study"))


@pytest.mark.parametrize(
    "size", [pytest.param(size, marks=[pytest.mark.slow] * (size == "full")) for size in study.SIZES]
)
@pytest.mark.parametrize("name", SPECIFIED)
def test_a_study_composes_where_its_workload_is_installed(name, size):
    found = load_study(name, size)
    assert found.sentence.endswith((".", ")."))
    assert set(found.table["columns"]) <= set(COLUMNS)
    assert found.figure["y"] in found.table["columns"]
    assert found.figure["kind"] in ("lines", "bars", "curves")
    if found.refused:
        with pytest.raises(ValueError, match=rf"^study={name}: [^\n]+\Z"):
            compose([f"study={name}", f"study.size={size}"])
        return
    used = {found.settings.get("workload"), *(point.get("workload") for point in found.points)} - {None}
    assert used
    if used <= set(registry.names(registry.WORKLOADS)):
        jobs = compose([f"study={name}", f"study.size={size}"]).jobs
        assert len({job.cell.texts for job in jobs}) == len(jobs) >= 2
        for job in jobs:
            assert set(job.cell.texts) <= set(job.overrides)


def test_a_study_may_say_why_it_cannot_run(monkeypatch):
    composed_by_hand(monkeypatch, {**SENTENCE, "axes": {"seed": [1, 2]}, "refused": "not on a Sunday"})
    with pytest.raises(ValueError, match=r"^study=own: not on a Sunday\Z"):
        values("study=own")


def test_axes_are_crossed_with_each_other_and_with_the_points(monkeypatch):
    described = {
        **SENTENCE,
        "axes": {"gpus": [1, 2], "seed": [5, 6]},
        "points": [{"batch": "set"}, {"batch": "global:8"}],
    }
    composed_by_hand(monkeypatch, described)
    found = values("study=own")
    assert [(one["batch"], one["seed"], one["gpus"]) for one in found] == [
        *(("set", "5", "1"), ("set", "5", "2"), ("set", "6", "1"), ("set", "6", "2")),
        *(("global:8", "5", "1"), ("global:8", "5", "2"), ("global:8", "6", "1"), ("global:8", "6", "2")),
    ]


def test_what_is_typed_wins_over_the_study():
    words = cells(["study=scaling_weak", "workload=ncf", "batch=per_device:64", "gpus=1,2"])
    assert [dict(one.cell.values) for one in words] == [{"gpus": "1"}, {"gpus": "2"}]
    assert {"workload=ncf", "batch=per_device:64", "profile=synthetic", "gpus=2"} <= set(words[1].words)
    assert not any(text.startswith("workload.") for text in words[0].words)  # keys that ncf does not have


def test_a_list_for_another_key_is_a_further_axis():
    found = values("study=scaling_weak", "workload=ncf", "gpus=1", "framework=pytorch,mxnet")
    assert found == [{"gpus": "1", "framework": "pytorch"}, {"gpus": "1", "framework": "mxnet"}]


def test_points_are_chosen_by_what_they_have():
    assert len(values("study=dgx1_article")) == 18
    found = values("study=dgx1_article", "gpus=8", "workload=ncf,ssd")
    assert [(one["workload"], one["gpus"]) for one in found] == [("ssd", "8"), ("ncf", "8")]


def test_the_18_points_have_the_article_s_own_sets():
    for one in values("study=dgx1_article"):
        sets = registry.load_workload(one["workload"]).named_sets()
        assert one["workload.hyperparameter_set"] in sets


def test_the_small_size_is_another_set_of_points():
    assert len(values("study=frameworks")) == 6
    small = cells(["study=frameworks", "study.size=ci"])
    assert len(small) == 3
    assert "profile=demo" in small[0].words


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["study=batch"], r"study=batch: allowed: .*did you mean 'batch_size'"),
        (["study.size=ci", "workload=ncf"], r"type study=NAME too"),
        (["study=frameworks", "study.size=small"], r"study\.size=small: allowed: ci, full"),
        (["study=image_size", "workload=ncf"], r"is over workload\.image_size, which this workload does not have"),
        (["study=dgx1_article", "gpus=3"], r"no such point; its points have gpus=1,4,8"),
        (["study=frameworks", "batsh=1"], r"batsh=1: there is no such key; did you mean batch=1\?"),
        (["study=frameworks", "resume=true,false"], r"one value for the whole study"),
    ],
)
def test_a_mistake_is_one_line(typed, expected):
    with pytest.raises(ValueError, match=r"^[^\n]+\Z") as error:
        compose(typed)
    assert re.search(expected, str(error.value))


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({"set": {}}, "has no sentence"),
        ({**SENTENCE, "axis": {}}, "does not know axis"),
        ({**SENTENCE, "axes": {"gpus": 2}}, "the axis gpus is no list"),
        ({**SENTENCE, "axes": {"gpus": []}}, "the axis gpus has no values"),
        ({**SENTENCE, "points": [3]}, "points is not of the form key: value"),
    ],
)
def test_a_description_of_another_form_is_refused(described, expected):
    with pytest.raises(ValueError, match=r"^study=own: [^\n]+conf/study/batch_size.yaml shows the form\Z") as error:
        read_study("own", "full", described)
    assert expected in str(error.value)


def test_values_of_a_file_are_typed_as_on_the_command_line():
    found = read_study("own", "full", {**SENTENCE, "set": {"oversubscribe": True, "gpus": 2}})
    assert found.settings == {"oversubscribe": "true", "gpus": "2"}
    assert texts("batch=per_device:8,per_device:16") == ["per_device:8", "per_device:16"]
    assert texts("plugins=['/a','/b']") == ["['/a','/b']"]


def test_help_lists_the_studies(capsys):
    compose(["--help"])
    printed = capsys.readouterr().out
    assert all(f"  {name}".ljust(28) + load_study(name).sentence in printed for name in SPECIFIED)


def test_cfg_prints_each_job_and_runs_none(tmp_path):
    done = run_suite_here(tmp_path, "study=scaling_weak", "workload=ncf", "gpus=1,2", "--cfg", "job")
    assert [one["gpus"] for one in yaml.safe_load_all(done.stdout)] == [1, 2]
    assert not (tmp_path / "logs").exists()


def test_timing_steps_and_update_async_are_short_for_the_whole_keys():
    config = compose(["workload=ncf", "profile=demo", "timing=steps", "update=async"]).jobs[0].config
    assert (config["timing"]["each"], config["update"]["kind"]) == ("steps", "async")
    with pytest.raises(ValueError, match=r"update\.kind=later: allowed: async, sync"):
        compose(["workload=ncf", "profile=demo", "update=later"])
    with pytest.raises(ValueError, match=r"timing\.each=often: allowed: steps, stretch"):
        compose(["workload=ncf", "profile=demo", "timing=often"])
