"""Errors on the command line: one line, exit code 2, within seconds, and no files are written."""

import os
import subprocess
import sys

import pytest

from tests.helpers import (
    PROJECT,
    TOY_RUN,
    cpu_seconds,
    refusal,
    run_suite,
    run_suite_here,
    suite_here,
    written,
)

NCF = ("workload=ncf", "profile=demo")
GLOBAL_OR_EACH = "did you mean batch=global:64 or batch=per_device:64?"
COMMANDS = [
    ("workload=nfc",
     "gnmt, llama31_8b, maskrcnn, ncf, resnet50, ssd, toy, transformer, zoo (did you mean 'ncf'?)"),
    ("workload=NCF", "(did you mean 'ncf'?)"),
    ("", "no workload given (allowed: "),
    ("gpus=1", "no workload given (allowed: "),
    ("optimizer=adam",
     "a file sets the optimizer, "
     "conf/hyperparameters/WORKLOAD/NAME.yaml (docs/how-to/configure_a_run.md)"),
    ("wandb=true", "wandb: runs write log files only"),
    ("--info", "no workload given (allowed: "),
    ("worklod=ncf", "worklod: unknown key (did you mean workload="),
    ("workload=ncf profile=dmo",
     "profile=dmo: allowed: demo, reference, synthetic (did you mean 'demo'?)"),
    ("workload=maskrcnn workload.target=0.3",
     "Set one of workload.target.BBOX=…, workload.target.SEGM=…"),
    ("workload=maskrcnn workload.target.bbox=0.3", "Set workload.target.BBOX=0.3"),
    ("workload=maskrcnn workload.target.AP=0.3",
     "Set workload.target.BBOX=0.3 or workload.target.SEGM=0.3"),
    ("workload=ncf workload.target.BBOX=0.3", "unknown target. Set workload.target=0.3"),
    ("workload=toy profile=demo", "framework (for workload=toy)=pytorch: allowed: plain"),
    ("workload=ncf profile=synthetic stop=target device=cpu", "Set stop=steps:50"),
    ("--workload=ncf", "--workload=ncf: settings have no dashes. Set workload=ncf"),
    ("ncf", "ncf: expected key=value. Set workload=ncf"),
    ("workload=ncf demo", "demo: expected key=value. Set profile=demo"),
    ("-m workload=glob(x*)", "the pattern matches no value, allowed: allreduce"),
    ("study=batch", "(did you mean 'batch_size'?)"),
    ("study.size=ci workload=ncf", "Set study=NAME too"),
    ("study=frameworks study.size=small", "study.size=small: allowed: ci, full"),
    ("study=image_size workload=ncf",
     "varies workload.image_size, which this workload does not have"),
    ("study=dgx1_article gpus=3", "Allowed: gpus=1,4,8"),
    ("study=frameworks batsh=1", "batsh=1: unknown key (did you mean batch=1?)"),
    ("study=frameworks resume=true,false", "expected a single value for the whole study"),
    *[(f"workload=resnet50 {key}=adam",
       "sets optimizer (allowed: sgd, lars). Write hyperparameters/")
      for key in ("optimizer", "optim", "workload.optimizer", "workload.optim")],
    ("workload=ssd optimizer=adam", "add --config-dir FOLDER workload.hyperparameter_set="),
    ("workload=ncf --config-dir none", "/none: no such folder"),
    ("workload=ncf hydra.searchpath=[pkg://nope/conf]",
     "hydra.searchpath=pkg://nope/conf: the package nope is not installed"),
    ("workload=maskrcnn workload.target.BBOX=high",
     "workload.target.BBOX=high: expected a number of at least 0"),
]  # fmt: skip
MEANT = {
    **{
        "framework=tf": "framework=tensorflow",
        "framework=torch": "framework=pytorch",
        "gpuz=1": "gpus=1",
    },
    **dict.fromkeys(
        ("lr=0.1", "learning_rate=0.1", "workload.lr=0.1"), "workload.learning_rate=0.1"
    ),
    **{"workload.learning_rat=1": "workload.learning_rate=1", "target=0.5": "workload.target=0.5"},
    **{
        "epochs=3": "stop=epochs:3 or workload.max_epochs=3",
        "precision=bfloat16": "precision=bf16",
    },
    **{
        "environment=singularity": "environment=apptainer",
        "environment=conda": "environment=custom",
    },
}
WITH_NCF = [
    ("checkpoint=every:0", "checkpoint.when=every:0: "),
    *[(f"checkpoint=every:1 stop=steps:5 environment=current {override}",
       f"checkpoint=every:1: a run with {override} cannot be resumed. Leave either of them out")
      for override in ("mode=forward", "timing=steps", "timing.warmup_steps=2")],
    *[(override, f"did you mean {meant}?")
      for override, meant in {**MEANT, "device=gpu": "device=cuda"}.items()],
    ("output=", "output=: expected a folder, got an empty value. Set output=FOLDER"),
    ("stop.max_epoch=1", "stop.max_epoch: unknown key, stop has no subkeys. Set stop=VALUE"),
    ("framework=pytroch", "(did you mean 'pytorch'?)"),
    ("rules=v9", "rules=v9: allowed: auto, v0.5, v0.7"),
    ("zzz=1", "zzz=1: unknown key. Run with workload=ncf --help for the available keys"),
    *[(f"{key}=64", GLOBAL_OR_EACH)
      for key in ("batch_size", "global_batch_size", "workload.batch_size")],
    ("global_batch_size=", "did you mean batch=global:N or batch=per_device:N?"),
    ("batch=big", "batch=big: allowed: default | (global | per_device):N"),
    ("optimizer=adam", "workload=ncf has a fixed optimizer. Run with workload=ncf --help"),
    ("wandb=true",
     "send the logs to a tracker with suite export (docs/how-to/export_to_trackers.md)"),
    ("data_dir=/data", "set SUITE_DATA_DIR"),
    ("environment.name=troch", "(did you mean 'torch'?)"),
    ("framework=mxnet framework.kvstore=horovod",
     "docs/how-to/multiple_nodes.md). Leave this key out"),
    ("cpu.cores=1", "unknown key. Allowed: cpu.cores_per_device, cpu.threads_per_device"),
    ("+gpus=1", "keys can be neither added nor removed. Set gpus=VALUE"),
    ("+x=y", "x: unknown key. Run with --help"),
    ("environment.path_map={/a:/b}",
     "environment.path_map: a mapping cannot be an override. Write it into a"),
    ("environment.path_map=${gpus}", ": expected a mapping. Write it into a file"),
    ("environment.command_prefix=${gpus}", ": expected a list. Set environment.command_prefix="),
    ("system.cache_clear_command=${gpus}", ": expected a list. Set system.cache_clear_command="),
    ("foo", "foo: expected key=value. Run with --help"),
    *[(f"gpus={value}", f"gpus={value}: expected at least 1. ") for value in (0, -1)],
    *[(f"gpus={value}", f"gpus={value}: expected an integer of at least 1, for example gpus=8")
      for value in ("eight", 1.5)],
    ("-m gpus=1,eight", "gpus=eight: expected an integer"),
    ("gpus=1,2", "several values need a sweep. Add -m"),
    ("device=cuda environment=current", "device=cuda: no NVIDIA GPU is visible"),
    ("stop=epochs:none", "for example stop=epochs:5"),
    ("seed=-3", "seed=-3: expected at least 0"),
    ("precision=tf32 device=cpu", "Set precision=fp32 or bf16, or device=cuda"),
    ("runs=few", "runs=few: allowed: official | N"),
    ("workload.learning_rate=nan", "workload.learning_rate=nan: expected a finite number"),
    ("workload.hyperparameter_set=nvidia", "allowed: demo, intel_v0.5, nvidia_v0.5, reference"),
    ("workload.dataset=ml-2m", "workload.dataset=ml-2m: allowed:"),
    ("-m gpus=1,,2,", "gpus=1,,2,: there is an empty value next to a comma. Set gpus=1,2"),
    ("-m seed=interval(1,4)",
     "seed=interval(1,4): an interval has infinitely many values. Set a list"),
    ("batch=[x", "batch=[x: expected key=value. Quote text with special characters: key="),
    ("--gpus 2", "--gpus: settings have no dashes. Set gpus=2"),
    ("hydra.sweep.dir=/tmp/x", "hydra.sweep.dir=/tmp/x: Hydra's folders are not used"),
    ("-m hydra/sweeper=optuna", "Add -m and set lists of values"),
    ("-m hydra/launcher=submitit_slurm", "set launch=slurm"),
    ("hydra.mode=MULTIRUN", "hydra.mode=MULTIRUN: add -m for a sweep"),
    ("--config-name other", "add --config-dir FOLDER"),
    ("--nope", "unrecognized arguments: --nope. Run with --help"),
    ("--cfg nope", "invalid choice: 'nope'"),
    ("--info nope", "invalid choice: 'nope'"),
    ("--resolve", "--resolve: only --cfg prints resolved values. Add --cfg job"),
    ("--package workload", "Add --cfg job"),
    ("hydra.sweeper.params=3", "hydra.sweeper.params=3: expected a mapping"),
    ("--experimental-rerun config.pickle",
     "--experimental-rerun: set the overrides of the run again"),
    ("output=${nope}", "Interpolation key 'nope' not found"),
    ("update=never", "update.kind=never: allowed: "),
    ("timing=never", "timing.each=never: allowed: "),
    ("framework.linear_backend=blas", "framework.linear_backend=blas: allowed: auto, mkl, onednn"),
    ("--cfg job --package nope", "--package=nope: allowed: "),
    ("workload.evaluation_users_per_batch=0", "workload.evaluation_users_per_batch=0: "),
    ("rules=v0.7", "Set rules=v0.5, and workload.target=X "),
    ("cpu.threads_per_device=2",
     "cpu.threads_per_device=2: a device has 1 core(s). Set 1 to 1, or auto, or set cpu."),
]  # fmt: skip
WITH_TOY = [
    ("output=/dev/null/below", "/dev/null"),
    ("gpus=64", "Set gpus="),
    ("resume=true", "resume=true needs the folder of the sweep to finish. Set output=FOLDER"),
    ("-m gpus=1,64", "oversubscribe=true"),
    ("gpus=2 batch=global:1 oversubscribe=true", "cannot be divided among 2 devices"),
    ("precision=bf16", "precision (for toy in plain)=bf16: allowed: fp32"),
    (
        "nodes=2 gpus=2",
        "nodes=2: no machines are named. Set launch.hosts=[a,b] (ssh), run this inside",
    ),
    ("-m nodes=2,3 gpus=1", "unlike gpus=1 nodes=2, gpus=1 nodes=3. Set different values"),
    ("launch=mpi", "launch.by=mpi: allowed: auto, external, here, kubernetes, local, slurm, ssh"),
    ("nodes=2 gpus=2 launch.hosts=a[1", "a[1: expected a list of hosts"),
    ("nodes=2 gpus=2 launch.hosts=[a]", "nodes=2: 1 named (a). Set nodes=1"),
    ("launch.lease_seconds=1", "launch.lease_seconds=1: expected at least 2"),
    (
        "setup_watchdog_seconds=inf",
        "expected a finite number of at least 1, for example setup_watchdog_seconds=1200",
    ),
    ("watchdog_seconds=nan", "watchdog_seconds=nan: expected a finite number of at least 1"),
    ("launch.wait_seconds=inf", "launch.wait_seconds=inf: expected a finite number of at least 1"),
    ("launch.wait_seconds=1e300", "expected at most 1e+06, for example launch.wait_seconds=30"),
    ("system.price_per_device_hour=-inf", "expected a finite number of at least 0"),
]
MISTAKES = [
    *[(arguments.split(), message) for arguments, message in COMMANDS],
    *[([*NCF, *arguments.split()], message) for arguments, message in WITH_NCF],
    *[([*TOY_RUN, *arguments.split()], message) for arguments, message in WITH_TOY],
]


@pytest.mark.parametrize(
    ("arguments", "message", "run"),
    [
        *[(*mistake, run_suite_here) for mistake in MISTAKES],
        # Some cases run in a separate process, as a user starts it.
        *[
            (["workload=nfc"], COMMANDS[0][1], run_suite),
            (["-m", *TOY_RUN, "gpus=1,64"], "oversubscribe=true", run_suite),
        ],
    ],
    # Names without the addresses of functions are the same in every worker of xdist.
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_mistake_is_one_line_with_exit_code_2(tmp_path, arguments, message, run):
    before = cpu_seconds()
    assert message in refusal(run(tmp_path, *arguments, toy=True, CUDA_VISIBLE_DEVICES=""))
    assert cpu_seconds() - before < 10
    assert not (tmp_path / "logs").exists()
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (NCF, "suite env create torch"),
        (("workload=ncf", "device=cpu", "environment=current"), "suite data prepare ml-20m --from"),
    ],
)
def test_missing_files_are_named_with_the_command_that_creates_them(tmp_path, arguments, expected):
    nothing = dict.fromkeys(("SUITE_ENV_DIR", "SUITE_DATA_DIR"), str(tmp_path / "none"))
    assert expected in run_suite_here(tmp_path, *arguments, **nothing, exits=2).stderr


def test_results_below_a_path_with_spaces_commas_and_other_letters_are_never_overwritten(tmp_path):
    output = tmp_path / "Ausgänge, neu 1"
    run_suite_here(tmp_path, *TOY_RUN, f"output={output}", toy=True, exits=0)
    assert (output / "toy-plain-demo-1dev" / "run_0" / "result_0.txt").exists()
    before = written(output)
    second = run_suite_here(tmp_path, *TOY_RUN, f"output={output}", toy=True, exits=2)
    assert "never overwritten. Set a different output=FOLDER" in second.stderr
    assert before == written(output)


@pytest.mark.parametrize(
    ("arguments", "code", "remedy"),
    [
        ((PROJECT / "run_suite.py",), 1, "Run `make demo` once"),
        (("-m", "suite.cli"), 2, "run make demo once"),
    ],
)
def test_a_python_without_packages_prints_the_command_that_installs_them(
    tmp_path, arguments, code, remedy
):
    command = [sys.executable, "-S", *arguments, "env", "list"]  # -S: no site-packages
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    (line,) = done.stderr.strip().splitlines()
    assert (done.returncode, remedy in line) == (code, True)


def test_messages_of_suite_run_name_the_command_and_train_suggests_run(tmp_path):
    command = [sys.executable, "-m", "suite", "run", "nosuch"]
    assert subprocess.run(command, capture_output=True, text=True, cwd=PROJECT).stderr.startswith(
        "suite run: nosuch: "
    )
    assert "did you mean 'run'?" in suite_here(tmp_path, "train").stderr
