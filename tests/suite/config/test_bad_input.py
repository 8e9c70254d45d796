"""A mistake on the command line: one line, exit code 2, within seconds, nothing written."""

import os
import re
import subprocess
import sys

import pytest

from suite.config.compose import compose
from tests.helpers import PROJECT, TOY_RUN, cpu_seconds, run_suite, run_suite_here, suite_here, written

NCF = ("workload=ncf", "profile=demo")

CASES = {
    "workload": (
        ("workload=nfc",),
        "workload=nfc: allowed: allreduce, gnmt, maskrcnn, ncf, resnet50, ssd, toy, transformer, zoo (did you mean 'ncf'?)",
    ),
    "no workload": (("gpus=1",), "no workload given: type workload=NAME"),
    "nothing at all": ((), "no workload given: type workload=NAME"),
    "output of no name": ((*NCF, "output="), "output= names no folder; type output=FOLDER"),
    "key below a value": (
        (*NCF, "stop.max_epoch=1"),
        "stop.max_epoch: there is no such key, stop has no parts; type stop=VALUE",
    ),
    "framework": ((*NCF, "framework=pytroch"), "(did you mean 'pytorch'?)"),
    "profile": (
        ("workload=ncf", "profile=dmo"),
        "profile=dmo: allowed: demo, reference, synthetic (did you mean 'demo'?)",
    ),
    "rules": ((*NCF, "rules=v9"), "rules=v9: allowed: auto, v0.5, v0.7"),
    "key": ((*NCF, "gpuz=1"), "gpuz=1: there is no such key; did you mean gpus=1?"),
    "no key at all": (
        (*NCF, "zzz=1"),
        "zzz=1: there is no such key; type workload=ncf --help for those that there are",
    ),
    "lr": ((*NCF, "lr=0.1"), "did you mean workload.learning_rate=0.1?"),
    "learning_rate": ((*NCF, "learning_rate=0.1"), "did you mean workload.learning_rate=0.1?"),
    "workload.lr": ((*NCF, "workload.lr=0.1"), "did you mean workload.learning_rate=0.1?"),
    "target": ((*NCF, "target=0.5"), "did you mean workload.target=0.5?"),
    "epochs": ((*NCF, "epochs=3"), "did you mean stop=epochs:3 or workload.max_epochs=3?"),
    "batch_size": ((*NCF, "batch_size=64"), "did you mean batch=global:64 or batch=per_device:64?"),
    "gpu": ((*NCF, "device=gpu"), "device=gpu: did you mean device=cuda?"),
    "float16": ((*NCF, "precision=bfloat16"), "did you mean precision=bf16?"),
    "target of several": (
        ("workload=maskrcnn", "workload.target=0.3"),
        "type one of workload.target.BBOX=…, workload.target.SEGM=…",
    ),
    "target of another metric": (
        ("workload=maskrcnn", "workload.target.AP=0.3"),
        "workload.target.AP=0.3: there is no such target; type workload.target.BBOX=0.3 or workload.target.SEGM=0.3",
    ),
    "store of MXNet": (
        (*NCF, "framework=mxnet", "framework.kvstore=horovod"),
        "framework.kvstore=horovod: MXNet's processes meet at a dist_sync store, and nothing else is offered (Horovod would be "
        "faster on real networks: docs/several_machines.md); leave it out",
    ),
    "key of a group": (
        (*NCF, "cpu.cores=1"),
        "cpu.cores=1: there is no such key; there are cpu.cores_per_device, cpu.threads_per_device",
    ),
    "key of a workload": ((*NCF, "workload.learning_rat=1"), "did you mean workload.learning_rate=1?"),
    "added key": ((*NCF, "+gpus=1"), "keys can be neither added nor removed; type gpus=VALUE"),
    "gpus 0": ((*NCF, "gpus=0"), "gpus=0: at least 1 is needed"),
    "gpus -1": ((*NCF, "gpus=-1"), "gpus=-1: at least 1 is needed"),
    "gpus eight": ((*NCF, "gpus=eight"), "gpus=eight: a whole number of at least 1 is needed, for example gpus=8"),
    "gpus 1.5": ((*NCF, "gpus=1.5"), "gpus=1.5: a whole number"),
    "gpus in a sweep": (("-m", *NCF, "gpus=1,eight"), "gpus=eight: a whole number"),
    "list without -m": ((*NCF, "gpus=1,2"), "several values make a sweep: add -m"),
    "too many": ((*TOY_RUN, "gpus=64"), "type gpus="),
    "sweep with too many": (("-m", *TOY_RUN, "gpus=1,64"), "oversubscribe=true"),
    "cuda": ((*NCF, "device=cuda", "environment=current"), "device=cuda: no NVIDIA device is visible here"),
    "batch": ((*NCF, "batch=big"), "batch=big: allowed: set | (global | per_device):N"),
    "batch too small": ((*TOY_RUN, "gpus=2", "batch=global:1", "oversubscribe=true"), "cannot be shared by 2 devices"),
    "stop": ((*NCF, "stop=epochs:none"), "for example stop=epochs:5"),
    "seed": ((*NCF, "seed=-3"), "seed=-3: at least 0"),
    "precision": ((*TOY_RUN, "precision=bf16"), "precision (for toy in plain)=bf16: allowed: fp32"),
    "precision of GPUs": ((*NCF, "precision=tf32", "device=cpu"), "type precision=fp32 or bf16, or device=cuda"),
    "runs": ((*NCF, "runs=few"), "runs=few: allowed: official | N"),
    "nodes": (
        (*TOY_RUN, "nodes=2", "gpus=2"),
        "nodes=2: which machines? type launch.hosts=[a,b] (ssh), run this inside",
    ),
    "nodes in a sweep": (
        ("-m", *TOY_RUN, "nodes=2,3", "gpus=1"),
        "and gpus=1 nodes=2, gpus=1 nodes=3 do not; type others",
    ),
    "launch": ((*TOY_RUN, "launch=mpi"), "launch.by=mpi: allowed: auto, external, local, slurm, ssh"),
    "hosts": ((*TOY_RUN, "nodes=2", "gpus=2", "launch.hosts=a[1"), "a[1: not a list of hosts"),
    "more nodes than hosts": (
        (*TOY_RUN, "nodes=2", "gpus=2", "launch.hosts=[a]"),
        "nodes=2: 1 named (a); type nodes=1",
    ),
    "lease": ((*TOY_RUN, "launch.lease_seconds=1"), "launch.lease_seconds=1: at least 2"),
    "a patience without end": (
        (*TOY_RUN, "setup_watchdog_seconds=inf"),
        "setup_watchdog_seconds=inf: a finite number of at least 1 is needed, for example setup_watchdog_seconds=1200",
    ),
    "a patience that is no number": (
        (*TOY_RUN, "watchdog_seconds=nan"),
        "watchdog_seconds=nan: a finite number of at least 1 is needed",
    ),
    "an infinite wait": (
        (*TOY_RUN, "launch.wait_seconds=inf"),
        "launch.wait_seconds=inf: a finite number of at least 1",
    ),
    "waits for ever": (
        (*TOY_RUN, "launch.wait_seconds=1e300"),
        "launch.wait_seconds=1e+300: at most 1e+06 is allowed, for example launch.wait_seconds=30",
    ),
    "an infinite price": (
        (*TOY_RUN, "system.price_per_device_hour=-inf"),
        "system.price_per_device_hour=-inf: a finite number of at least 0 is needed",
    ),
    "a rate that is no number": ((*NCF, "workload.learning_rate=nan"), "workload.learning_rate=nan: a finite number"),
    "no such trainer": (("workload=toy", "profile=demo"), "framework (for workload=toy)=pytorch: allowed: plain"),
    "hyperparameter set": (
        (*NCF, "workload.hyperparameter_set=nvidia"),
        "allowed: demo, intel_v0.5, nvidia_v0.5, reference",
    ),
    "data set": ((*NCF, "workload.dataset=ml-2m"), "workload.dataset=ml-2m: allowed:"),
    "target of synthetic": (("workload=ncf", "profile=synthetic", "stop=target", "device=cpu"), "type stop=steps:50"),
    "not an override": ((*NCF, "fast"), "fast: not of the form key=value"),
    "a comma too many": ((*NCF, "-m", "gpus=1,,2,"), "gpus=1,,2,: a comma with no value beside it; type gpus=1,2"),
    "an open bracket": ((*NCF, "batch=[x"), "batch=[x: not of the form key=value; quote unusual text: key="),
    "capital letters": (("workload=NCF",), "(did you mean 'ncf'?)"),
    "a flag": (("--workload=ncf",), "--workload=ncf: settings are typed without dashes; type workload=ncf"),
    "a flag and its value": ((*NCF, "--gpus", "2"), "--gpus: settings are typed without dashes; type gpus=2"),
    "a bare workload": (("ncf",), "ncf: not of the form key=value; type workload=ncf"),
    "a bare profile": (("workload=ncf", "demo"), "demo: not of the form key=value; type profile=demo"),
    "nearly a workload": (("resnet",), "type workload=resnet50"),
    "a folder of Hydra's": ((*NCF, "hydra.sweep.dir=/tmp/x"), "hydra.sweep.dir=/tmp/x: Hydra's folders are not used"),
    "environment": ((*NCF, "environment.name=troch"), "(did you mean 'torch'?)"),
}


OWN_PROCESS = ("workload", "sweep with too many")
"""Cases that a Python of its own is started for, too: as a user starts it."""


@pytest.mark.parametrize(
    ("name", "run"),
    [*((name, run_suite_here) for name in CASES), *((name, run_suite) for name in OWN_PROCESS)],
)
def test_one_line_and_exit_code_2(tmp_path, name, run):
    arguments, expected = CASES[name]
    before = cpu_seconds()
    done = run(tmp_path, *arguments, toy=True, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2, done.stdout + done.stderr
    assert expected in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert cpu_seconds() - before < 10
    assert not (tmp_path / "logs").exists()
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (NCF, "suite env create torch"),
        (("workload=ncf", "device=cpu", "environment=current"), "suite data prepare ml-20m --from"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_makes_it(tmp_path, words, expected):
    nothing = dict.fromkeys(("SUITE_ENV_DIR", "SUITE_DATA_DIR"), str(tmp_path / "none"))
    done = run_suite_here(tmp_path, *words, **nothing)
    assert done.returncode == 2
    assert expected in done.stderr


def test_results_below_a_path_with_spaces_commas_and_other_letters_are_never_overwritten(tmp_path):
    output = tmp_path / "Ausgänge, neu 1"
    first = run_suite_here(tmp_path, *TOY_RUN, f"output={output}", toy=True)
    assert first.returncode == 0, first.stdout + first.stderr
    assert (output / "toy-plain-demo-1dev" / "run_0" / "result_0.txt").exists()
    before = written(output)
    second = run_suite_here(tmp_path, *TOY_RUN, f"output={output}", toy=True)
    assert second.returncode == 2
    assert "never overwritten; type another output=FOLDER" in second.stderr
    assert before == written(output)


def test_output_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = run_suite_here(tmp_path, *TOY_RUN, f"output={tmp_path / 'file' / 'below'}", toy=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code"), [((str(PROJECT / "run_suite.py"), *NCF), 1), (("-m", "suite.cli", "env", "list"), 2)]
)
def test_a_python_without_the_controllers_packages_says_what_to_type(tmp_path, words, code):
    command = [sys.executable, "-S", *words]  # -S: no site-packages
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == code
    (line,) = done.stderr.strip().splitlines()
    assert "is not installed for" in line
    assert "type make demo once" in line


@pytest.mark.parametrize(
    ("word", "typed"),
    [
        ("optimizer=adam", "workload=ncf has one optimizer, which no setting changes; type workload=ncf --help"),
        ("data_dir=/data", "set SUITE_DATA_DIR"),
        ("environment=conda", "environment=custom"),
        ("global_batch_size=", "batch=global:N or batch=per_device:N"),
        ("foo", "type --help"),
        ("+x=y", "x: there is no such key; type --help"),
        ("framework=tf", "framework=tensorflow"),
        ("framework=torch", "framework=pytorch"),
        ("gpus=all", "gpus=8"),
        ("global_batch_size=64", "batch=global:64 or batch=per_device:64"),
        ("environment=singularity", "environment=apptainer"),
        ("wandb=true", "suite.results.curves"),
        ("+gpus=2", "type gpus=VALUE"),
        ("nfc", "type workload=ncf"),
    ],
)
def test_what_others_call_it_is_answered_with_what_to_type(word, typed):
    with pytest.raises(ValueError, match=re.escape(typed)) as error:
        compose(["workload=ncf", word])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("workload", "allowed"), [("resnet50", "sgd, lars"), ("ssd", "sgd"), ("zoo", "sgd, rmsprop")])
@pytest.mark.parametrize("key", ["optimizer", "optim", "workload.optimizer"])
def test_what_a_set_alone_says_names_the_file_the_allowed_and_the_page(workload, allowed, key):
    with pytest.raises(
        ValueError, match=rf"^{key}=adam: a file sets optimizer \(of workload={workload}: {allowed}\)"
    ) as e:
        compose([f"workload={workload}", f"{key}=adam"])
    for part in (
        f" hyperparameters/{workload}/NAME.yaml ",
        "workload.hyperparameter_set=NAME",
        "docs/hyperparameters.md",
    ):
        assert part in str(e.value)


def test_suite_run_calls_itself_so_and_training_is_run(tmp_path):
    asked = subprocess.run(
        [sys.executable, "-m", "suite", "run", "nosuch"], capture_output=True, text=True, cwd=PROJECT
    )
    assert asked.stderr.startswith("suite run: nosuch: ")
    assert "did you mean 'run'?" in suite_here(tmp_path, "train").stderr
    with pytest.raises(ValueError, match="type workload=NAME"):
        compose(["--info"])
