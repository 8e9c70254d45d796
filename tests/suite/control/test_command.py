"""The folder names of jobs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.common.job_name import NAME_BYTES
from suite.config.compose import compose
from suite.control.command import job_name
from tests.helpers import TOY_RUN, examples, run_suite_here


def composed_job(*words):
    (job,) = compose(["workload=ncf", "profile=demo", "device=cpu", "gpus=1", *words]).jobs
    return job


BASE = composed_job()


def test_the_name_contains_all_overrides_except_the_cache_command():
    words = ("seed=3", "lr_scaling=none", "system.cache_clear_command=[sudo,drop-caches]")
    assert job_name(composed_job(*words)) == "ncf-pytorch-demo-1dev-cpu-lr_scaling=none-seed=3"


@pytest.mark.parametrize("long", ["a" * 300, "字" * 100], ids=["ascii", "wide"])
def test_jobs_that_differ_after_the_length_limit_have_different_names(long):
    words = [(f"workload.dataset={long}", f"workload.embedding={number}") for number in (1, 2)]
    names = [job_name(replace(composed_job(), all_overrides=pair)) for pair in words]
    assert len(set(names)) == 2
    assert all(
        len(name.encode()) <= NAME_BYTES and name.startswith("ncf-pytorch-demo-1dev-cpu-wo")
        for name in names
    )
    assert job_name(replace(composed_job(), all_overrides=words[0])) == names[0]


TEXT = st.text(st.sampled_from("ab_. -/:=,é字\u0301ÅK"), min_size=1, max_size=12)


@examples(300)
@given(TEXT, TEXT)
def test_settings_that_differ_have_folders_that_differ(first, second):
    """Check characters that are invalid in folder names, separators in values, and accents.

    The separators between settings are dashes and `=`.
    """
    pairs = [(f"system.name={text}",) for text in (first, second)]
    pairs += [(f"system.name={first}-seed=1",), (f"system.name={first}", "seed=1")]
    names = {words: job_name(replace(BASE, all_overrides=words)) for words in pairs}
    assert len(set(names.values())) == len(names)
    assert not any(set(name) & set("/:, ") for name in names.values())


def test_usual_settings_are_named_without_a_hash():
    words = (
        "batch=per_device:8",
        "stop=epochs:3",
        "workload.target=0.5",
        "system.name=DGX-1_v2",
        "rules=v0.7",
    )
    name = (
        "ncf-pytorch-demo-1dev-cpu-batch=per_device_8-rules=v0.7-stop=epochs_3"
        "-system.name=DGX-1_v2-workload.target=0.5"
    )
    assert job_name(replace(BASE, all_overrides=words)) == name


def test_names_with_and_without_a_space_are_two_jobs(tmp_path):
    done = run_suite_here(
        tmp_path,
        "-m",
        *TOY_RUN,
        "system.name=x y,x_y,x/y",
        f"output={tmp_path / 'out'}",
        toy=True,
        exits=0,
    )
    assert len(list((tmp_path / "out").glob("*/run_0/result_0.txt"))) == 3
    assert done.stdout.count("target reached") == 3
