"""Hints for settings of foreign programs: the suite accepts the settings in a message."""

import re
from unittest import mock

import pytest

from suite.config import hints, overrides
from tests.helpers import refusal, run_suite_here

COMMAND = ("workload=resnet50", "profile=demo")
STEPS = {
    "workload=all": "-m workload="
    "allreduce,gnmt,llama31_8b,maskrcnn,ncf,resnet50,ssd,transformer,zoo",
    "framework=*": "-m framework=jax,mxnet,pytorch,tensorflow",
    "amp=true": "precision=fp16 precision=bf16",
    "use_amp=1": "precision=fp16 precision=bf16",
    "amp=false": "precision=fp32",
    "mixed_precision=bf16": "precision=bf16",
    "precision=amp": "precision=fp16 precision=bf16",
    "precision=16-mixed": "precision=fp16",
    "precision=32": "precision=fp32",
    "fp16=true": "precision=fp16",
    "bf16=true": "precision=bf16",
    "tf32=True": "precision=tf32",
    "logs=DIR": "output=DIR",
    "out=x/y": "output=x/y",
    "save_dir=x": "output=x",
    "checkpoint=5": "checkpoint=every:5",
    "checkpoint=true": "checkpoint=every:1",
    "checkpoint=10min": "checkpoint=every:10min",
    "checkpoint=2h": "checkpoint=every:120min",
    "checkpoint=every:2h": "checkpoint=every:120min",
    "checkpoint=false": "checkpoint=off",
    "checkpoint=3epochs": "checkpoint=every:3",
    "save_every=7": "checkpoint=every:7",
    "seed=0..3": "-m seed=0,1,2,3",
    "seed=0-3": "-m seed=0,1,2,3",
    "seed=0:3": "-m seed=0,1,2,3",
    "seed=[4,5]": "-m seed=4,5",
    "seed=4;5": "-m seed=4,5",
    "seed=0..99": "-m seed=range(0,100)",
    "runs=2..3": "-m runs=2,3",
    "seeds=3": "runs=3 seed=3",
    "seeds=1,2": "-m seed=1,2",
    "random_seed=3": "seed=3",
    "num_runs=5": "runs=5",
    "runs=all": "runs=official runs=N",
    "dry-run": "dry_run=true",
    "dryrun": "dry_run=true",
    "dry_run": "dry_run=true",
    "dry-run=full": "dry_run=full",
    "gpus=0": "device=cpu gpus=1",
    "gpus=0,1": "CUDA_VISIBLE_DEVICES=0,1 gpus=2",
    "gpus=1-4": "-m gpus=1,2,3,4",
    "device=2": "gpus=2",
    "device=cuda:1": "device=cuda CUDA_VISIBLE_DEVICES=1",
    "nodes=all": "nodes=N launch.hosts=[a,b] nodes=$SLURM_NNODES",
    "batch=64": "batch=global:64 batch=per_device:64",
    "batch=32x8": "batch=per_device:32",
    "stop=3": "stop=epochs:3 stop=steps:3",
    "stop=3epochs": "stop=epochs:3",
    "stop=epoch:3": "stop=epochs:3",
    "stop=steps=3": "stop=steps:3",
    "mode=eval": "mode=inference",
    "profile=test": "profile=demo",
    "profile=mlperf": "profile=reference",
    "resume": "output=FOLDER resume=true",
    "resume=1": "resume=true",
    "resume=x/y": "output=x/y resume=true",
    "resume=latest": "output=FOLDER resume=true",
    "continue=true": "output=FOLDER resume=true",
    "oversubscribe=yes": "oversubscribe=true",
    "model=ssd": "workload=ssd",
    "env=torch": "environment=torch",
    "launcher=ssh": "launch=ssh",
    "--epochs=3": "stop=epochs:3 workload.max_epochs=3",
    "--batch-size=64": "batch=global:64 batch=per_device:64",
    "--lr=0.1": "workload.learning_rate=0.1",
    "--fp16": "precision=fp16",
    "--out=x": "output=x",
}
NOT_A_SETTING = ("CUDA_VISIBLE_DEVICES", "runs=N", "nodes=")


def proposed(message):
    """Return the settings that a message proposes, with `-m` if the message contains it."""
    _, _, step = (
        message.partition(". ")
        if "allowed:" in message or "unknown key" in message
        else ("", "", message)
    )
    settings = re.findall(r"[\w.]+=(?:'[^']*'|\[[^]]*\]|[^\s,;']+(?:,[^\s,;']+)*)", step)
    return [
        *(["-m"] if "add -m" in step.lower() else []),
        *(text.replace("'", "") for text in settings),
    ]


@pytest.mark.parametrize(("word", "step"), STEPS.items())
def test_a_setting_of_another_program_gets_an_accepted_hint(tmp_path, word, step):
    kept = [text for text in COMMAND if text.partition("=")[0] != word.partition("=")[0]]
    message = refusal(run_suite_here(tmp_path, *kept, word, CUDA_VISIBLE_DEVICES=""))
    assert message.startswith(f"run_suite.py: {word}: ")
    settings = proposed(message.removeprefix(f"run_suite.py: {word}: "))
    assert settings == step.split()
    settable = [text for text in settings if text != "-m" and not text.startswith(NOT_A_SETTING)]
    overrides.check(
        [overrides.in_full(text) for text in settable], ["resnet50"], multirun="-m" in settings
    )


@pytest.mark.parametrize(("found", "step"), [(8, "set gpus=8"), (0, "set device=cpu gpus=3")])
def test_all_gpus_is_replaced_by_the_count_of_this_machine(found, step):
    with mock.patch.multiple(
        hints.devices, gpus=lambda: [None] * found, cpu_cores=lambda: (0, 1, 2)
    ):
        for value in ("all", "auto", "-1", "max"):
            assert hints.next_step_for_value(f"gpus={value}").endswith(step)


@pytest.mark.parametrize(
    "override",
    [
        "checkpoint=off", "checkpoint=every:1", "checkpoint=every:30min", "seed=3", "stop=epochs:3",
        "batch=global:64", "precision=bf16", "resume=true", "oversubscribe=False", "gpus=1,2",
        "output=all", "system.name=all", "workload=ncf", "--dry-run", "--help", "-m",
        "--config-dir", "--version", "--multirun", "study=devices", "runs=official",
    ],
)  # fmt: skip
def test_valid_settings_get_no_hint(override):
    assert hints.next_step(override) == ""
    assert hints.next_step_for_value(override) == ""


def test_a_user_defined_file_takes_precedence_over_a_hint(tmp_path):
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "test.yaml").write_text("defaults: [demo]\n")
    done = run_suite_here(
        tmp_path,
        *COMMAND[:1],
        "--config-dir",
        str(tmp_path),
        "profile=test",
        "--cfg",
        "job",
        exits=0,
    )
    assert "name: demo" in done.stdout
    assert "did you mean" not in done.stderr
