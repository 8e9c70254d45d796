"""Hydra's flags beside the overrides: where they may stand, what they print, and how a wrong one is refused."""

import pytest

from suite.config.compose import compose

NCF = ("workload=ncf", "profile=demo")


@pytest.mark.parametrize(
    "arguments", [("--cfg", "job", *NCF), (*NCF, "--cfg", "job"), (NCF[0], "-c", "job", NCF[1]), ("--cfg=job", *NCF)]
)
def test_cfg_prints_and_runs_nothing_wherever_it_stands(arguments, capsys):
    request = compose(arguments)
    printed = capsys.readouterr().out
    assert request.jobs == ()
    assert "gpus: 1\n" in printed
    assert "profile:\n  name: demo\n" in printed


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--cfg", "hydra", *NCF), "gpus: 1,4,8"),
        (("--cfg", "job", "--package", "workload", *NCF), "name: ncf"),
        (("--info", "defaults", *NCF), "Defaults List"),
        (("--info", *NCF), "Config search path"),
        (("--help",), "workload=ncf gpus=8"),
    ],
)
def test_flags_that_print(arguments, expected, capsys):
    assert compose(arguments).jobs == ()
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--hydra-help", "--version"])
def test_what_hydra_says_of_itself_needs_no_workload(flag, capsys):
    with pytest.raises(SystemExit) as ended:
        compose([flag])
    assert not ended.value.code
    assert "Hydra" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["-m", "--multirun"])
def test_a_sweep_is_the_grid_of_its_values(flag):
    request = compose([*NCF, flag, "gpus=2,1", "seed=5,6"])
    assert request.sweep
    assert [(job.config["gpus"], job.config["seed"]) for job in request.jobs] == [(2, 5), (2, 6), (1, 5), (1, 6)]


def test_one_job_is_composed_as_a_sweep_composes_it():
    words = (*NCF, "gpus=2", "environment=custom", "environment.python='/a b'", "workload.learning_rate=0.5")
    alone, swept = compose(words), compose(["-m", *words])
    assert [job.config for job in alone.jobs] == [job.config for job in swept.jobs]
    assert alone.jobs[0].overrides == words
    assert sorted(swept.jobs[0].overrides) == sorted(words)
    assert (alone.sweep, swept.sweep) == (False, True)


def test_a_reference_to_a_key_that_is_not_there_is_one_line():
    with pytest.raises(ValueError, match=r"^[^\n]*Interpolation key 'nope' not found[^\n]*\Z"):
        compose([*NCF, "output=${nope}"])


def test_a_sweep_without_gpus_is_over_1_4_and_8():
    assert [job.config["gpus"] for job in compose(["-m", *NCF]).jobs] == [1, 4, 8]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--nope", *NCF), "unrecognized arguments: --nope; type --help"),
        (("--cfg", "nope", *NCF), "invalid choice: 'nope'"),
        (("--experimental-rerun", "config.pickle", *NCF), "unrecognized arguments: --experimental-rerun"),
        (("-m", "--cfg", "job", *NCF), "Only one of --run, --multirun, --cfg"),
        (("-m", "workload=glob(n*)"), "ConfigLoader is not set"),
        (("-m", *NCF, "seed=interval(1,4)"), "INTERVAL_SWEEP"),
    ],
)
def test_a_wrong_flag_or_sweep_is_one_line(arguments, expected):
    with pytest.raises(ValueError, match=r"^[^\n]+\Z") as error:
        compose(arguments)
    assert expected in str(error.value)
