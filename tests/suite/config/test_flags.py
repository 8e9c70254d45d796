"""Hydra's flags beside the overrides: where they may stand, what they print, and how a wrong one is
refused.
"""

import hydra
import pytest
import yaml

from suite import __version__
from suite.common import conf
from suite.config.compose import compose
from suite.config.key_suggestions import workload_keys
from suite.config.sweeps import default_gpus
from suite.machine import devices
from suite.plan.jobs import plan
from suite.plan.print_config import settings_text
from tests.helpers import composed, run_suite_here

NCF = ("workload=ncf", "profile=demo")


@pytest.mark.parametrize(
    "typed", ["--cfg job {} {}", "{} {} --cfg job", "{} -c job {}", "--cfg=job {} {}"]
)
def test_flags_may_stand_anywhere(typed):
    request = compose(typed.format(*NCF).split())
    assert (request.shown, [job.config for job in request.jobs]) == ("", [composed(*NCF)])


def test_cfg_prints_resolved_values_and_runs_nothing(tmp_path):
    """Of the set, the profile and the rules, where the composed files have null and auto; all but
    `batch=set`.
    """
    printed = yaml.safe_load(run_suite_here(tmp_path, *NCF, "device=cpu", "--cfg", "job").stdout)
    assert not (tmp_path / "logs").exists()
    assert (printed["gpus"], printed["profile"]["name"]) == (1, "demo")
    of_ncf = {"learning_rate": 0.006, "max_epochs": 12, "target": 0.635, "dataset": "ml-demo"}
    assert of_ncf.items() | {("hyperparameter_set", "demo")} <= printed["workload"].items()
    assert (printed["rules"], printed["lr_scaling"]) == ("v0.5", "linear")


@pytest.mark.parametrize("output", ["", "nowhere/out"])
def test_cfg_does_not_touch_the_output_folder(tmp_path, output):
    """Neither a folder that is refused for runs, nor a link to nothing."""
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    printed = yaml.safe_load(
        run_suite_here(tmp_path, *NCF, f"output={output}", "--cfg", "job", exits=0).stdout
    )
    assert printed["output"] == output
    assert [path.name for path in tmp_path.iterdir()] == ["nowhere"]


def test_cfg_prints_a_part():
    shown = yaml.safe_load(settings_text(composed("workload=maskrcnn"), "workload"))
    assert shown["target"] == {"BBOX": 0.377, "SEGM": 0.339}


def test_the_version_is_the_suites(capsys):
    assert compose(["--version"]).jobs == ()
    assert capsys.readouterr().out == f"suite {__version__} (Hydra {hydra.__version__})\n"


def test_a_sweep_is_the_grid_of_its_values_and_each_job_as_alone():
    words = (*NCF, "environment=custom", "environment.python='/a b'", "workload.learning_rate=0.5")
    request = compose([*words, "--multirun", "seed=5,6", "gpus=2,1"])
    assert [(job.config.gpus, job.config.seed) for job in request.jobs] == [
        (2, 5),
        (2, 6),
        (1, 5),
        (1, 6),
    ]
    alone = (*words, "gpus=1", "seed=6")
    (job,) = compose(alone).jobs
    assert (job.config, job.overrides) == (request.jobs[-1].config, alone)
    assert sorted(request.jobs[-1].overrides) == sorted(alone)


def test_a_sweep_without_gpus_is_over_1_4_and_8_and_says_so():
    request = compose(["-m", "workload=ncf"])
    assert [job.config.gpus for job in request.jobs] == [1, 4, 8]
    assert request.arguments == ("-m", "workload=ncf", "gpus=1,4,8")  # what is typed to resume
    assert "gpus=1,4,8, as in the reference sweep. Set gpus=…" in request.notes[0]


def test_a_sweep_over_machines_leaves_out_what_does_not_divide_and_says_so():
    request = compose(["-m", *NCF, "gpus=1,2", "nodes=1,2"])
    assert [(job.config.gpus, job.config.nodes) for job in request.jobs] == [(1, 1), (2, 1), (2, 2)]
    assert request.notes == ("skipped because gpus must be divisible by nodes: gpus=1 nodes=2",)


def test_a_sweep_over_workloads_gives_each_its_own_keys_alone():
    jobs = [
        job.config for job in compose(["-m", "workload=ncf,ssd", "profile=demo", "gpus=1"]).jobs
    ]
    assert [job.workload_name for job in jobs] == ["ncf", "ssd"]
    assert {*jobs[0].data.values(), *jobs[0].backbone.values()} == {
        None
    }  # keys that NCF does not have
    options = plan(jobs[1]).draft.settings.options
    assert options == plan(composed("workload=ssd", "profile=demo")).draft.settings.options


@pytest.mark.parametrize(
    "typed", [{"gpus": ["2"]}, {"gpus": ["1", "2"]}, {"workload.learning_rate": ["1", "2"]}]
)
def test_the_default_of_a_sweep_acts_where_nothing_is_swept_only(typed):
    assert default_gpus(typed, composed(*NCF)) == ([], "")


@pytest.mark.parametrize(
    ("cores", "words", "counts"),
    [
        (2, (), "1,2"), (1, (), "1"), (3, (), "1,2"), (64, (), "1,2,4,8"),
        (8, ("cpu.cores_per_device=4",), "1,2"), (2, ("oversubscribe=true",), "1,4,8"),
    ],
)  # fmt: skip
def test_a_demo_without_gpus_sweeps_what_the_machine_has(monkeypatch, cores, words, counts):
    monkeypatch.setattr(devices, "gpus", list)
    monkeypatch.setattr(devices, "cpu_cores", lambda: tuple(range(cores)))
    (added,), said = default_gpus({}, composed(*NCF, *words))
    assert added == f"gpus={counts}"
    assert f"{added}, " in said


def test_what_a_file_says_of_devices_holds_for_a_sweep_without_lists(tmp_path):
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "mine.yaml").write_text(
        "# @package _global_\nsystem: {name: mine}\ngpus: 8\n"
    )
    request = compose(["-m", "--config-dir", str(tmp_path), *NCF, "system=mine"])
    assert ([job.config.gpus for job in request.jobs], request.notes) == ([8], ())
    conf.search(())


def test_help_has_the_keys_and_defaults_of_the_chosen_workload_and_the_variables(
    capsys, monkeypatch, tmp_path
):
    monkeypatch.setenv("SUITE_LOG_DIR", str(tmp_path))
    compose(["workload=ncf", "profile=demo", "--help"])
    lines = capsys.readouterr().out.splitlines()
    for key in workload_keys("ncf").keys() - {"workload.name"}:
        assert any(line.startswith(f"  {key}=") for line in lines), key
    (rate,) = (line for line in lines if line.startswith("  workload.learning_rate="))
    assert rate.endswith("Adam's step size [0.006]")
    told = {
        "workload.target=": "[hr_at_10 0.635]",
        "batch=": "[8192]",
        "framework=": "pytorch (fp32, bf16, tf32)",
    }
    for start, text in {
        **told,
        "SUITE_LOG_DIR": f"[{tmp_path}]",
        "SUITE_DATA_DIR": "",
        "SUITE_ENV_DIR": "",
    }.items():
        assert any(line.strip().startswith(start) and text in line for line in lines), start
    compose(["--help"])
    assert "workload=NAME --help" in capsys.readouterr().out
