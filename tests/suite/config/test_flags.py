"""Hydra's flags next to overrides: their positions, their output, and invalid flags."""

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
    "template", ["--cfg job {} {}", "{} {} --cfg job", "{} -c job {}", "--cfg=job {} {}"]
)
def test_flags_may_be_at_any_position(template):
    request = compose(template.format(*NCF).split())
    assert (request.shown, [job.config for job in request.jobs]) == ("", [composed(*NCF)])


def test_cfg_prints_resolved_values_and_runs_nothing(tmp_path):
    """Print the values of the set, the profile and the rules, except for `batch=default`.

    The composed files contain null and auto instead.
    """
    printed = yaml.safe_load(run_suite_here(tmp_path, *NCF, "device=cpu", "--cfg", "job").stdout)
    assert not (tmp_path / "logs").exists()
    assert (printed["gpus"], printed["profile"]["name"]) == (1, "demo")
    expected = {"learning_rate": 0.006, "max_epochs": 12, "target": 0.635, "dataset": "ml-demo"}
    assert expected.items() | {("hyperparameter_set", "demo")} <= printed["workload"].items()
    assert (printed["rules"], printed["lr_scaling"]) == ("v0.5", "linear")


@pytest.mark.parametrize("output", ["", "nowhere/out"])
def test_cfg_does_not_touch_the_output_folder(tmp_path, output):
    """Accept an empty output and a broken link, which are refused for runs."""
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    printed = yaml.safe_load(
        run_suite_here(tmp_path, *NCF, f"output={output}", "--cfg", "job", exits=0).stdout
    )
    assert printed["output"] == output
    assert [path.name for path in tmp_path.iterdir()] == ["nowhere"]


def test_cfg_prints_a_package():
    shown = yaml.safe_load(settings_text(composed("workload=maskrcnn"), "workload"))
    assert shown["target"] == {"BBOX": 0.377, "SEGM": 0.339}


def test_version_prints_the_versions_of_the_suite_and_hydra(capsys):
    assert compose(["--version"]).jobs == ()
    assert capsys.readouterr().out == f"suite {__version__} (Hydra {hydra.__version__})\n"


def test_a_sweep_is_a_grid_of_jobs_equal_to_single_jobs():
    arguments = (
        *NCF,
        "environment=custom",
        "environment.python='/a b'",
        "workload.learning_rate=0.5",
    )
    request = compose([*arguments, "--multirun", "seed=5,6", "gpus=2,1"])
    assert [(job.config.gpus, job.config.seed) for job in request.jobs] == [
        (2, 5),
        (2, 6),
        (1, 5),
        (1, 6),
    ]
    alone = (*arguments, "gpus=1", "seed=6")
    (job,) = compose(alone).jobs
    assert (job.config, job.overrides) == (request.jobs[-1].config, alone)
    assert sorted(request.jobs[-1].overrides) == sorted(alone)


def test_a_sweep_without_gpus_uses_1_4_and_8_with_a_note():
    request = compose(["-m", "workload=ncf"])
    assert [job.config.gpus for job in request.jobs] == [1, 4, 8]
    assert request.arguments == (
        "-m",
        "workload=ncf",
        "gpus=1,4,8",
    )  # the arguments that resume the sweep
    assert "gpus=1,4,8, as in the reference sweep. Set gpus=…" in request.notes[0]


def test_a_sweep_over_nodes_skips_indivisible_counts_with_a_note():
    request = compose(["-m", *NCF, "gpus=1,2", "nodes=1,2"])
    assert [(job.config.gpus, job.config.nodes) for job in request.jobs] == [(1, 1), (2, 1), (2, 2)]
    assert request.notes == ("skipped because gpus must be divisible by nodes: gpus=1 nodes=2",)


def test_a_sweep_over_workloads_gives_each_job_the_keys_of_its_workload():
    jobs = [
        job.config for job in compose(["-m", "workload=ncf,ssd", "profile=demo", "gpus=1"]).jobs
    ]
    assert [job.workload_name for job in jobs] == ["ncf", "ssd"]
    # NCF has none of these keys.
    assert {*jobs[0].data.values(), *jobs[0].backbone.values()} == {None}
    options = plan(jobs[1]).draft.settings.options
    assert options == plan(composed("workload=ssd", "profile=demo")).draft.settings.options


@pytest.mark.parametrize(
    "overrides", [{"gpus": ["2"]}, {"gpus": ["1", "2"]}, {"workload.learning_rate": ["1", "2"]}]
)
def test_the_default_sweep_applies_only_without_swept_keys(overrides):
    assert default_gpus(overrides, composed(*NCF)) == ([], "")


@pytest.mark.parametrize(
    ("cores", "arguments", "counts"),
    [
        (2, (), "1,2"), (1, (), "1"), (3, (), "1,2"), (64, (), "1,2,4,8"),
        (8, ("cpu.cores_per_device=4",), "1,2"), (2, ("oversubscribe=true",), "1,4,8"),
    ],
)  # fmt: skip
def test_a_demo_without_gpus_sweeps_the_device_counts_of_the_machine(
    monkeypatch, cores, arguments, counts
):
    monkeypatch.setattr(devices, "gpus", list)
    monkeypatch.setattr(devices, "cpu_cores", lambda: tuple(range(cores)))
    (added,), note = default_gpus({}, composed(*NCF, *arguments))
    assert added == f"gpus={counts}"
    assert f"{added}, " in note


def test_a_device_count_in_a_file_applies_to_a_sweep_without_lists(tmp_path):
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
    expected_text = {
        "workload.target=": "[hr_at_10 0.635]",
        "batch=": "[8192]",
        "framework=": "pytorch (fp32, bf16, tf32)",
    }
    for start, text in {
        **expected_text,
        "SUITE_LOG_DIR": f"[{tmp_path}]",
        "SUITE_DATA_DIR": "",
        "SUITE_ENV_DIR": "",
    }.items():
        assert any(line.strip().startswith(start) and text in line for line in lines), start
    compose(["--help"])
    assert "workload=NAME --help" in capsys.readouterr().out
