"""Sweeps: their jobs are counted first, and planning reads each file once."""

import dataclasses

import hydra
import pytest
from omegaconf import OmegaConf

from suite.common import conf
from suite.common.run_config import RunConfig
from suite.config import composer
from suite.config.compose import compose
from tests.helpers import TOY_RUN, run_suite_here
from tests.suite.config.test_hydra import (  # noqa: F401, fixtures
    NCF,
    reset_searched_folders,
    user_files,
)

HUGE = 10**400


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("seed=range(1,5,-1)", r"^seed=range\(1,5,-1\): the sweep has no values"),
        *[
            (f"{key}=range({ends})", "the sweep has no values")
            for key, ends in (("runs", "3,1"), ("runs", "0.5,0.1,0.1"))
        ],
        ("seed=range(0,1,0.0001)", r"^10,000 jobs"),
        ("seed=range(0,40) gpus=1,2,4,8 runs=range(1,8)", r"^1,120 jobs .*Set sweep.limit=1120"),
        ("seed=range(0,1200) sweep.limit=1100", r"^1,200 jobs .*Set sweep.limit=1200"),
        *[
            (f"seed=range({ends})", "the range never ends")
            for ends in ("0,5,0", "0.0,5.0,0", "0,inf", "0,nan", "0,1e400")
        ],
        (
            f"seed=range(0,{HUGE}) gpus=range(1,{HUGE})",
            r"^over 10\^15 jobs \(seed: over 10\^15 x gpus: over 10\^15\)",
        ),
        *[
            (f"seed={kind}(range(0,1000000000))", "^1,000,000,000 jobs")
            for kind in ("shuffle", "sort")
        ],
        ("seed=" + ",".join(map(str, range(1001))), "^1,001 jobs"),
        *[
            (f"sweep.limit={value}", f"^sweep.limit={value}: expected a single positive")
            for value in ("1,2", "0", "1e9", "")
        ],
    ],
    ids=range(19),
)
@pytest.mark.parametrize("first", [("-m", *NCF), ("study=batch_size", "study.size=ci"), NCF])
def test_a_sweep_that_is_too_large_is_refused_before_composing(overrides, message, first):
    with pytest.raises(ValueError, match=message) as error:
        compose([*first, *overrides.split()])
    assert "\n" not in str(error.value)


def test_a_limit_in_a_file_is_refused(user_files):  # noqa: F811
    (user_files / "system" / "lab.yaml").write_text(
        "# @package _global_\nsystem: {name: lab}\nsweep: {limit: 5000}\n"
    )
    with pytest.raises(
        ValueError,
        match=r"^sweep.limit: the key is set in a file, which is read too late. Set sweep.limit=N",
    ):
        compose(["--config-dir", str(user_files), *NCF, "system=lab"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        (
            "gpus=1,2",
            "batch=global:1024,per_device:64",
            "seed=3,null",
            "workload.learning_rate=0.001,2e-3",
        ),
        ("framework=pytorch,mxnet", "profile=demo,synthetic", "device=cpu", "seed=1,2"),
        (
            "batch=global:1024,per_device:64",
            "launch=local,ssh",
            "launch.hosts=[a]",
            "gpus=1,2",
            "profile=demo",
        ),
        ("workload=resnet50,ncf", "device=cpu", "gpus=1", "seed=1,2"),
        ("workload.target.BBOX=0.1,0.2", "workload=maskrcnn", "seed=1,2"),
        ("launch.hosts=['a','b'],['c']", "profile=glob(*,exclude=ref*)", "gpus=1"),
        (
            "system.name='a b','c,d'",
            "gpus=1",
            "seed=1,2",
            "system.submission_platform=${profile.name},x",
        ),
        (
            "system=lab",
            "gpus=1",
            "seed=1,2",
            "system.price_per_device_hour=1,2.5",
            "oversubscribe=true,false",
        ),
    ],
)
def test_each_job_of_a_sweep_equals_the_job_that_hydra_composes_alone(user_files, overrides):  # noqa: F811
    first = (
        "--config-dir",
        str(user_files),
        *(("workload=ncf",) if not any("workload=" in override for override in overrides) else ()),
    )
    jobs = compose(["-m", *first, *overrides]).jobs
    assert len(jobs) > 1
    for job in jobs:
        composer.store_schema([job.config.workload_name])
        with hydra.initialize_config_dir(str(conf.CONF), version_base="1.3"):
            added = [
                f"++{word}" if word.startswith("workload.target.") else word
                for word in job.overrides
            ]
            config = hydra.compose("config", [*conf.search_words(), *added])
        alone = OmegaConf.to_container(config, resolve=True)
        alone = {name: value for name, value in alone.items() if name not in ("data", "backbone")}
        assert RunConfig.from_mapping(alone) == dataclasses.replace(
            job.config, data={}, backbone={}
        )


def test_hydra_composes_once_for_each_choice_of_files(monkeypatch):
    calls, compose_with_hydra = [], hydra.compose

    def recorded(*arguments, **options):
        calls.append(arguments)
        return compose_with_hydra(*arguments, **options)

    monkeypatch.setattr(hydra, "compose", recorded)
    assert (
        len(compose(["-m", *NCF, "framework=pytorch,mxnet", "gpus=1", "seed=range(0,20)"]).jobs)
        == 40
    )
    assert len(calls) == 2


@pytest.mark.slow
def test_a_sweep_inspects_a_python_once_and_its_limit_is_not_in_job_names(tmp_path, monkeypatch):
    from suite.environments import environment

    calls = []
    describe = environment.describe
    monkeypatch.setattr(
        environment, "describe", lambda *words: calls.append(words) or describe(*words)
    )
    assert (
        run_suite_here(tmp_path, *TOY_RUN, f"output={tmp_path / 'out'}", toy=True).returncode == 0
    )
    calls.clear()
    done = run_suite_here(
        tmp_path, "-m", *TOY_RUN, "seed=1,2,3", "sweep.limit=3", "dry_run=true", toy=True
    )
    assert "toy-plain-demo-1dev-seed=2 " in done.stdout
    assert len(calls) == 1
