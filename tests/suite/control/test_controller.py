"""The folder names of jobs."""

from dataclasses import replace

import pytest

from suite.common.job_name import NAME_BYTES
from suite.config.compose import compose
from suite.control.controller import job_name


def one(*words):
    (job,) = compose(["workload=ncf", "profile=demo", "device=cpu", "gpus=1", *words]).jobs
    return job


def test_what_is_typed_stands_in_the_name():
    assert job_name(one("seed=3", "lr_scaling=none")) == "ncf-pytorch-demo-1dev-cpu-lr_scaling=none-seed=3"


@pytest.mark.parametrize("long", ["a" * 300, "字" * 100], ids=["ascii", "wide"])
def test_jobs_that_differ_behind_the_cut_have_names_of_their_own(long):
    words = [(f"workload.dataset={long}", f"workload.embedding={number}") for number in (1, 2)]
    names = [job_name(replace(one(), overrides=pair)) for pair in words]
    assert len(set(names)) == 2
    assert all(len(name.encode()) <= NAME_BYTES and name.startswith("ncf-pytorch-demo-1dev-cpu-wo") for name in names)
    assert job_name(replace(one(), overrides=words[0])) == names[0]


def test_how_caches_are_cleared_is_not_in_the_name():
    assert job_name(one("system.cache_clear_command=[sudo,drop-caches]")) == "ncf-pytorch-demo-1dev-cpu"
