"""Random changes of command lines end with an exit code and one line, and write no files.

Time and memory are limited.
"""

import random

import pytest

from tests.helpers import run_suite_here, suite_here
from tests.suite.commands.test_special_files import bounded  # noqa: F401 - a fixture

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("bounded")]

RUNS = [
    "workload=ncf profile=demo gpus=2 device=cpu seed=1",
    "-m workload=ncf,zoo framework=pytorch,mxnet gpus=1,2 runs=2 profile=demo",
    "workload=ssd gpus=8 batch=per_device:16 precision=fp32 rules=v0.7",
    (
        "-m workload=zoo workload.model=littlecnn,resnet18 profile=synthetic seed=range(1,4)"
        " timing=steps"
    ),
    "workload=gnmt profile=demo stop=epochs:2 targets={bleu:20} workload.learning_rate=1e-3",
    "study=batch_size study.size=ci device=cpu",
    "workload=resnet50 nodes=2 gpus=16 launch=ssh launch.hosts=[node[1-2]] launch.port=29500",
    (
        "workload=transformer environment=docker environment.image=a:b"
        " environment.mounts=[/a:/b:rw] output=out"
    ),
    (
        "+experiment=night workload=maskrcnn hydra.searchpath=[file://conf] watchdog_seconds=30"
        " --cfg job"
    ),
    "workload=ncf update=async update.straggler_ms=5 system.name='a b' plugins=[x] resume=true",
]
COMMANDS = [
    "report logs --html page.html",
    "tables logs --format csv",
    "compare logs logs",
    "check logs --werror --rules 0.7.0",
    "scaling demo --devices 1,8,64 --workload ssd",
    "published list --round v0.7 --workload resnet50",
    "advise logs --devices 8",
    "package --submitter me logs out",
    "data list",
    "data prepare ml-20m --from x.zip --to y",
    "env list",
    "doctor workload=ncf",
]
PIECES = [
    "", "=", "==", ",", "[", "]", "{", "}", "'", '"', "\\", "$", "${", "${gpus}", "${oc.env:HOME}",
    "..", "~", "+", "++", "-", "--", "-m", "\n", "\t", "é", "\u202e", "😀", "\udcff", "a" * 5000,
    "[" * 300, "{a:" * 100, "null", "true", "nan", "inf", "-1", "0", "1e400", "9" * 400,
    "range(0,1000000000)", "range(3,1)", "glob(*)", "interval(0,1)", "choice(1,2)", "sort(1,2)",
    "shuffle(1,2)", "/dev/zero", "/", ".", "hydra.run.dir=x", "hydra=x", "workload",
    "output=/dev/null", "seed", "gpus=1,1", "*", "#", "%", "&&", "|",
]  # fmt: skip


def changed(arguments, rng):
    arguments = list(arguments)
    for _ in range(rng.randint(1, 3)):
        at, piece = rng.randrange(len(arguments)), rng.choice(PIECES)
        offset = rng.randrange(len(arguments[at]) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            arguments[at] = arguments[at][:offset] + piece + arguments[at][offset:]
        elif kind == 1:
            arguments[at] = arguments[at].partition("=")[0] + "=" + piece
        elif kind == 2:
            arguments.insert(at, piece or arguments[at])
        elif kind == 3 and len(arguments) > 1:
            del arguments[at]
        elif kind == 4:
            arguments[at] = arguments[at][:offset] + arguments[at][offset + rng.randint(1, 4) :]
        else:
            arguments[at] = (
                arguments[at].swapcase() if rng.random() < 0.3 else arguments[at] + "," + piece
            )
    return arguments


@pytest.mark.parametrize("seed", range(30))
def test_changed_command_lines_end_without_a_traceback(tmp_path, seed):
    """Run 100 of 3,000 changed command lines."""
    rng = random.Random(seed)
    for number in range(100):
        if number % 4:
            arguments = [*changed(rng.choice(RUNS).split(), rng), "dry_run=true"]
            done = run_suite_here(tmp_path, *arguments, SUITE_DATA_DIR=str(tmp_path / "data"))
        else:
            arguments = changed(rng.choice(COMMANDS).split(), rng)
            done = suite_here(tmp_path, *arguments, SUITE_DATA_DIR=str(tmp_path / "data"))
        assert done.returncode in (0, 1, 2), (arguments, done.stderr)
        assert "Traceback" not in done.stdout + done.stderr, (arguments, done.stderr)
        if (
            number % 4
            and done.returncode == 2
            and "problems prevent this command" not in done.stderr
        ):
            assert len(done.stderr.strip().splitlines()) == 1, (arguments, done.stderr)
        assert not (tmp_path / "logs").exists(), arguments
        assert not (tmp_path / "out").exists(), arguments
