"""Hydra's features: user-defined configuration files, sweeps, and completion by the Tab key."""

import dataclasses
import subprocess
import sys

import pytest

from suite.common import conf
from suite.config.complete import completions
from suite.config.compose import compose
from suite.config.overrides import in_full, values
from suite.config.sweeps import default_gpus
from tests.helpers import PROJECT, composed, one_line, run_suite_here

NCF = ("workload=ncf", "profile=demo")


@pytest.fixture(autouse=True)
def reset_searched_folders():
    yield
    conf.search(())


@pytest.fixture
def user_files(tmp_path):
    for path, text in {
        "profile/quick.yaml": "defaults: [demo]\nsubmission_org: us\n",
        "system/lab.yaml": "defaults: [local]\nname: lab\nprice_per_device_hour: 2.5\n",
        "environment/mine.yaml": "name: custom\npython: /opt/python\n",
        "workload/ncf_slow.yaml": "defaults: [ncf]\nlearning_rate: 0.001\n",
        "rounds/ours.yaml": "",
        "study/rates.yaml": (
            "sentence: One.\nset: {workload: ncf, profile: demo}\naxes: {seed: [1, 2]}\n"
        ),
        "study/night.yaml": (
            "sentence: One.\nset: {workload: ncf, system: lab, seed: 7, output: 'a, b'}\n"
        ),
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "flag", ["--config-dir ", "--config-dir=", "hydra.searchpath=[file://", "hydra.searchpath=["]
)
def test_user_defined_files_are_choices_of_their_group(user_files, flag):
    overrides = (
        "profile=quick",
        "workload=ncf_slow",
        "system=lab",
        "environment=mine",
        "rules=ours",
    )
    (job,) = compose([*f"{flag}{user_files}{']' * ('[' in flag)}".split(), *overrides]).jobs
    config = job.config
    assert (config.workload["name"], config.workload["learning_rate"]) == ("ncf", 0.001)
    assert (config.system.name, config.system.price_per_device_hour) == ("lab", 2.5)
    assert (config.environment.python, config.rules) == ("/opt/python", "ours")
    assert (config.profile.name, config.profile.submission_org) == ("demo", "us")
    assert job.overrides == overrides


def test_user_defined_studies_and_experiments_are_composed(user_files):
    found = compose(["--config-dir", str(user_files), "study=rates"]).jobs
    assert [job.config.seed for job in found] == [1, 2]
    for override in ("study=night", "+experiment=night"):
        (job,) = compose(["--config-dir", str(user_files), override, "seed=8"]).jobs
        assert (job.config.workload["name"], job.config.system.name, job.config.seed) == (
            "ncf",
            "lab",
            8,
        )
        assert (job.config.output, job.cell) == ("a, b", None)


@pytest.fixture
def experiments(tmp_path):
    """Write experiments in the form of Hydra's example: global packages that override settings."""
    for name, text in {
        "warm": (
            "defaults:\n  - override /workload: ncf\n  - override /profile: demo\ngpus:"
            " 2\nseed: 7\n"
        ),
        "rate": "workload: {learning_rate: 0.25}\n",
        "axes": "hydra: {sweeper: {params: {seed: '1,2', gpus: '1,2'}}}\n",
        "night": "runs: 5\n",
    }.items():
        (tmp_path / "experiment").mkdir(exist_ok=True)
        (tmp_path / "experiment" / f"{name}.yaml").write_text(f"# @package _global_\n{text}")
    return tmp_path


@pytest.mark.parametrize("key", ["experiment", "+experiment"])
@pytest.mark.parametrize("folder", ["--config-dir={}", "hydra.searchpath=[file://{}]"])
def test_an_experiment_is_a_file_with_any_settings(experiments, key, folder):
    (job,) = compose([folder.format(experiments), f"{key}=warm", "seed=8"]).jobs
    assert (job.config.workload_name, job.config.profile.name) == ("ncf", "demo")
    assert (job.config.gpus, job.config.seed) == (2, 8)
    assert job.overrides == ("experiment=warm", "seed=8")


def test_a_sweep_over_experiments(experiments):
    jobs = compose(
        ["-m", f"--config-dir={experiments}", *NCF, "experiment=rate,night", "gpus=1"]
    ).jobs
    assert [(job.config.workload["learning_rate"], job.config.runs) for job in jobs] == [
        (0.25, 1),
        (None, 5),
    ]


def test_an_experiment_is_a_study_unless_a_file_of_the_user_has_its_name(experiments, user_files):
    (job,) = compose([f"--config-dir={user_files}", *NCF, "experiment=night"]).jobs
    assert (job.config.runs, job.config.system.name) == (5, "local")
    (user_files / "experiment" / "night.yaml").unlink()
    (job,) = compose([f"--config-dir={user_files}", "experiment=night"]).jobs
    assert job.config.system.name == "lab"


def test_a_mistake_in_an_experiment_is_one_line(experiments):
    for text, message in (("gpus: [\n", "night.yaml: line 3"), ("gpu: 2\n", "gpu: unknown key")):
        (experiments / "experiment" / "night.yaml").write_text(f"# @package _global_\n{text}")
        with pytest.raises(ValueError, match=one_line(message)):
            compose([f"--config-dir={experiments}", *NCF, "experiment=night"])
    with pytest.raises(ValueError, match=r"^study=nihgt: allowed: "):
        compose([f"--config-dir={experiments}", *NCF, "experiment=nihgt"])


def test_parameters_of_hydras_sweeper_are_swept(experiments):
    folder = f"--config-dir={experiments}"
    jobs = compose(["-m", folder, *NCF, "experiment=axes"]).jobs
    assert [(job.config.gpus, job.config.seed) for job in jobs] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    jobs = compose(["-m", folder, *NCF, "experiment=axes", "seed=5"]).jobs
    assert [(job.config.gpus, job.config.seed) for job in jobs] == [(1, 5), (2, 5)]
    for override in (
        "hydra.sweeper.params.seed='3,4'",
        "+hydra.sweeper.params.seed=3,4",
        'hydra.sweeper.params={seed: "3,4"}',
    ):
        jobs = compose(["-m", *NCF, "gpus=1", override]).jobs
        assert [job.config.seed for job in jobs] == [3, 4]
    (experiments / "experiment" / "axes.yaml").write_text(
        "# @package _global_\nhydra: {sweeper: {params: {seed: 'range(0,2000)'}}}\n"
    )
    with pytest.raises(ValueError, match=r"^2,000 jobs"):
        compose(["-m", folder, *NCF, "experiment=axes"])


def test_verbose_switches_on_debug_messages(tmp_path):
    script = "import logging; from suite.config.compose import compose; compose({}); print({})"
    level = "logging.getLogger({}).level == logging.DEBUG"
    for word, logger in (
        ("hydra.verbose=true", ""),
        ("hydra.verbose=suite", "'suite'"),
        ("hydra.verbose=[suite,a]", "'a'"),
    ):
        code = script.format([*NCF, word], level.format(logger))
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT, check=True
        )
        assert done.stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (("--hydra-help",), "Hydra"),
        (("--cfg", "hydra", "--package", "hydra.sweeper"), "BasicSweeper"),
        (("--cfg", "all"), "learning_rate: null"),
        (("--cfg", "hydra", "--resolve", "--package", "hydra.job"), "name: "),
        (("--info", "defaults-tree"), "workload: ncf"),
        (("--info", "searchpath"), "conf"),
        (("-i", "config"), "gpus: 3"),
        (("--info",), "Defaults List"),
    ],
)
def test_hydras_flags_print_and_run_nothing(tmp_path, flags, shown):
    done = run_suite_here(tmp_path, *NCF, "gpus=3", *flags, exits=0)
    assert shown in done.stdout
    assert not (tmp_path / "logs").exists()


def test_composing_imports_neither_environments_nor_uv():
    code = (
        "import sys; import suite.config.compose; print([n for n in sys.modules if n == 'uv' or"
        " 'suite.environ' in n])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT, check=True
    )
    assert done.stdout == "[]\n"


def test_a_config_dir_does_not_affect_the_next_command(user_files):
    compose(["--config-dir", str(user_files), *NCF])
    with pytest.raises(ValueError, match=r"^profile=quick: allowed: demo, reference, synthetic"):
        compose(["workload=ncf", "profile=quick"])


@pytest.mark.parametrize(
    ("word", "text", "message"),
    [
        (
            "system=lab",
            "price_per_device_hour: -1\n",
            "system.price_per_device_hour=-1.0: expected at least 0",
        ),
        (
            "system=lab",
            "submission_platfrm: a\n",
            "unknown key (did you mean system.submission_platform=…?)",
        ),
        (
            "study=night",
            "sentence: One.\nset: {workload: ncf, workload.nme: 1}\n",
            "workload.nme=1: unknown key",
        ),
    ],
)
def test_a_mistake_in_a_file_is_one_line(user_files, word, text, message):
    (user_files / f"{word.replace('=', '/')}.yaml").write_text(text)
    with pytest.raises(ValueError, match=one_line(message)):
        compose(["--config-dir", str(user_files), *NCF, word])


def test_resuming_never_adds_runs():
    resumed = dataclasses.replace(composed("workload=ncf"), resume=True)
    with pytest.raises(ValueError, match=r"^resume=true: set the device counts .* gpus=1,4,8$"):
        default_gpus({}, resumed)
    assert default_gpus({"gpus": ["1", "2"]}, resumed) == ([], "")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seed=1,2", [1, 2]), ("seed=choice(3,1)", [3, 1]), ("seed=range(1,4)", [1, 2, 3]),
        ("seed=sort(3,1,2)", [1, 2, 3]), ("profile=glob(*,exclude=ref*)", ["demo", "synthetic"]),
        ("system.name='a b','c,d'", ["a b", "c,d"]),
        ("launch.hosts=['a','b'],['c']", [["a", "b"], ["c"]]),
    ],
)  # fmt: skip
def test_hydras_sweep_syntax_is_parsed(override, expected):
    assert values(in_full(override)) == expected


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("workload=", {"workload=ncf", "workload=maskrcnn", "workload=zoo"}),
        ("workload=re", {"workload=resnet50"}),
        ("workload=ncf workload.hyperparameter_set=", {"workload.hyperparameter_set=nvidia_v0.5"}),
        ("workload=ssd workload.dataset=co", {"workload.dataset=coco2017"}),
        ("workload=ncf workload.learn", {"workload.learning_rate="}),
        ("device=c", {"device=cpu", "device=cuda"}),
        ("study=batch_", {"study=batch_size", "study=batch_efficiency"}),
        ("oversubscribe=", {"oversubscribe=true", "oversubscribe=false"}),
        ("", {"workload=", "gpus=", "study="}),
    ],
)
def test_tab_completes_keys_and_values(line, offered):
    found = completions({"COMP_LINE": f"python run_suite.py {line}"})
    assert offered <= set(found)
    assert all(word.startswith(line.rpartition(" ")[2]) for word in found)


def test_tab_completes_files_of_the_config_dir(tmp_path):
    (tmp_path / "hyperparameters" / "ncf").mkdir(parents=True)
    (tmp_path / "hyperparameters" / "ncf" / "mine.yaml").write_text("based_on: demo\n")
    line = f"python run_suite.py --config-dir {tmp_path} workload=ncf workload.hyperparameter_set=m"
    assert completions({"COMP_LINE": line}) == ["workload.hyperparameter_set=mine"]
    conf.search([])


def test_tab_completes_in_bash(tmp_path):
    """Call the installed completion as bash does; it ignores the words of unrelated programs."""
    installed = run_suite_here(tmp_path, "-sc", "install=bash").stdout
    script = 'COMP_LINE="$1"; COMP_POINT=${#1}; _suite; echo "${COMPREPLY[@]}"'
    lines = {
        "python run_suite.py workload=nc": "workload=ncf",
        "suite exp": "export",
        "suite report lo": "",
        "python other.py w": "",
    }
    for line, offered in lines.items():
        done = subprocess.run(
            ["bash", "-c", f"{installed}\n{script}", "-", line],
            capture_output=True,
            text=True,
            cwd=PROJECT,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{offered}\n", "")
    assert run_suite_here(tmp_path, "-sc", "install=fish").returncode == 2


def test_the_jobs_of_a_study_are_limited(user_files):
    axes = f"{{seed: {list(range(101))}, runs: {list(range(1, 101))}}}"
    (user_files / "study" / "many.yaml").write_text(
        f"sentence: Many.\nset: {{workload: zoo}}\naxes: {axes}\n"
    )
    with pytest.raises(ValueError, match=r"^10,100 jobs \(seed: 101 x runs: 100\)"):
        compose(["--config-dir", str(user_files), "study=many"])
