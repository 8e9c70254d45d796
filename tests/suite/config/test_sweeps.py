"""Sweeps: counted before anything is made of them, and planned without reading the same files for
every job.
"""

import dataclasses

import hydra
import pytest
from omegaconf import OmegaConf

from suite.common import conf
from suite.common.run_config import RunConfig
from suite.config import composer
from suite.config.compose import compose
from tests.helpers import TOY_RUN, run_suite_here
from tests.suite.config.test_hydra import NCF, no_folders_after_it, own  # noqa: F401, fixtures

HUGE = 10**400


@pytest.mark.parametrize(
    ("words", "said"),
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
def test_a_sweep_is_counted_first(words, said, first):
    with pytest.raises(ValueError, match=said) as error:
        compose([*first, *words.split()])
    assert "\n" not in str(error.value)


def test_a_limit_in_a_file_comes_too_late_and_says_so(own):  # noqa: F811
    (own / "system" / "lab.yaml").write_text(
        "# @package _global_\nsystem: {name: lab}\nsweep: {limit: 5000}\n"
    )
    with pytest.raises(
        ValueError,
        match=r"^sweep.limit: the key is set in a file, which is read too late. Set sweep.limit=N",
    ):
        compose(["--config-dir", str(own), *NCF, "system=lab"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
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
def test_each_job_is_what_it_is_when_hydra_composes_it_alone(own, words):  # noqa: F811
    first = (
        "--config-dir",
        str(own),
        *(("workload=ncf",) if not any("workload=" in one for one in words) else ()),
    )
    jobs = compose(["-m", *first, *words]).jobs
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
    made, known = [], hydra.compose
    monkeypatch.setattr(
        hydra, "compose", lambda *words, **more: made.append(words) or known(*words, **more)
    )
    assert (
        len(compose(["-m", *NCF, "framework=pytorch,mxnet", "gpus=1", "seed=range(0,20)"]).jobs)
        == 40
    )
    assert len(made) == 2


@pytest.mark.slow
def test_the_limit_is_not_in_the_name_of_a_job_and_a_python_is_asked_once(tmp_path, monkeypatch):
    from suite.environments import environment

    asked = []
    describe = environment.describe
    monkeypatch.setattr(
        environment, "describe", lambda *words: asked.append(words) or describe(*words)
    )
    assert (
        run_suite_here(tmp_path, *TOY_RUN, f"output={tmp_path / 'out'}", toy=True).returncode == 0
    )
    asked.clear()
    done = run_suite_here(
        tmp_path, "-m", *TOY_RUN, "seed=1,2,3", "sweep.limit=3", "dry_run=true", toy=True
    )
    assert "toy-plain-demo-1dev-seed=2 " in done.stdout
    assert len(asked) == 1
