"""Demos of ResNet-50 and LittleCNN in real processes: a short epoch, and rejected settings.

With the marker `full`, every framework trains.
"""

import re
import subprocess

import pytest

from suite.common import registry
from suite.environments.venvs import status
from tests.helpers import PROJECT, events, only, run_suite, run_suite_here
from tests.workloads.common.test_workload_runs import metrics
from workloads.resnet50 import demo as imagenet_demo
from workloads.zoo.datasets import cifar_demo

FULL = pytest.mark.full
FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
WORKLOADS = {"resnet50": "imagenet-demo", "zoo": "cifar-demo"}
MODULES = {"imagenet-demo": imagenet_demo, "cifar-demo": cifar_demo}
STEPS, TRAIN, VAL = 10, 320, 100
LARGEST_RATIO = {"resnet50": 1.002, "zoo": 1.001}
"""Largest ratio of the mean losses of frameworks.

They start from the same weights and use the same images and masks, so that only rounding differs.
"""
LOGGED = {
    "resnet50": {
        "submission_benchmark": "resnet",
        "opt_name": "sgd",
        "model_bn_span": 32,
        "sgd_opt_learning_rate_decay_steps": 21 * STEPS,
    },
    "zoo": {
        "model_name": "littlecnn",
        "model_parameters": 2_168_362,
        "opt_name": "rmsprop",
        "opt_rho": 0.9,
        "opt_epsilon": 1e-7,
        "opt_base_learning_rate": 1e-3,
    },
}


@pytest.fixture(scope="module")
def few_images(tmp_path_factory):
    """Return a data folder with small demos, whose epochs have ten steps."""
    folder = tmp_path_factory.mktemp("few")
    with pytest.MonkeyPatch.context() as patch:
        for name, module in MODULES.items():
            patch.setattr(module, "SIZES", {"train": TRAIN, "val": VAL})
            registry.load_dataset(name).make_demo(folder / name)
    return folder


OF_ALL = [pytest.param((workload, FRAMEWORKS), marks=FULL, id=workload) for workload in LOGGED]
OF_ONE = pytest.param(("resnet50", FRAMEWORKS[:1]), id="resnet50-in-one")


@pytest.fixture(scope="module")
def epoch(request, tmp_path_factory, few_images):
    """Return a workload, and the run folder of a short epoch for each framework."""
    (workload, frameworks), tmp_path = request.param, tmp_path_factory.mktemp("epoch")
    sweep = (
        "-m",
        f"workload={workload}",
        "profile=demo",
        f"framework={','.join(frameworks)}",
        "gpus=1",
        "seed=1",
    )
    done = run_suite(tmp_path, *sweep, "stop=epochs:1", timeout=900, SUITE_DATA_DIR=str(few_images))
    assert done.returncode == 0, done.stdout + done.stderr
    folders = {
        name: only((tmp_path / "logs").glob(f"*/{workload}-{name}-*/run_0")) for name in frameworks
    }
    return workload, folders


@pytest.mark.parametrize("epoch", OF_ALL, indirect=True)
def test_frameworks_have_nearly_equal_losses(epoch):
    workload, folders = epoch
    losses = [only(metrics(folder))["loss"] for folder in folders.values()]
    assert max(losses) <= LARGEST_RATIO[workload] * min(losses), losses


@pytest.mark.parametrize("epoch", [OF_ONE, *OF_ALL], indirect=True)
def test_an_epoch_is_trained_and_evaluated(epoch):
    blocks = [only(metrics(folder)) for folder in epoch[1].values()]
    assert {block["samples"] for block in blocks} == {TRAIN}
    assert all(block["quality"]["top1"] < 0.5 for block in blocks), blocks
    assert all(block["data_wait_seconds"] < block["train_seconds"] for block in blocks)


@pytest.mark.parametrize("epoch", [OF_ONE, *OF_ALL], indirect=True)
def test_the_log_describes_the_training(epoch):
    workload, folders = epoch
    for name, folder in folders.items():
        found = {key: value for key, value, _ in events(folder / "result_0.txt")}
        assert (found["suite_run"]["framework"], found["suite_run"]["dataset"]) == (
            name,
            WORKLOADS[workload],
        )
        assert found["suite_run"]["labels"][:2] == ["demo", "cpu"]
        assert found["submission_division"] == "open"
        assert {key: found[key] for key in LOGGED[workload]} == LOGGED[workload]
        assert (found["global_batch_size"], found["train_samples"], found["eval_samples"]) == (
            32,
            TRAIN,
            VAL,
        )
        if workload == "resnet50":
            buckets = 2 if name == "pytorch" else 1
            assert found["suite_gradients"] == {
                "bytes": 4 * 511_514,
                "tensors": 53,
                "buckets": buckets,
            }
        else:
            assert 0 < found["tracked_stats"]["scores"]["eval_loss"] < 10
        assert [key for key, _, _ in events(folder / "result_0.txt")].count("eval_accuracy") == 1


@pytest.mark.full
def test_the_documented_pytorch_code_uses_trained_weights(tmp_path):
    """Run the documented example with the weights of the reference's network after a step."""
    few = (
        "profile=synthetic",
        "device=cpu",
        "batch=global:2",
        "workload.evaluation_batch_size=2",
        "stop=steps:1",
    )
    run_suite(tmp_path, "workload=resnet50", *few, "checkpoint.final=true", timeout=900, exits=0)
    (block,) = re.findall(
        r"```python\n(.*?)```", (PROJECT / "docs" / "checkpoints.md").read_text(), re.DOTALL
    )
    weights = only(tmp_path.glob("logs/**/weights.npz"))
    lines = re.sub(r'load\(".*?"\)', f'load("{weights}")', block)
    done = subprocess.run([status("torch").python, "-c", lines], capture_output=True, text=True)
    assert re.fullmatch(r"tensor\(\d+\)\n", done.stdout), done.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "resnet50 demo gpus=3 oversubscribe=true",
            "batch size 32 cannot be shared equally by 3 devices",
        ),
        (
            "resnet50 demo batch=global:5000",
            "batch size 5000 is larger than the data set (320 images)",
        ),
        ("resnet50 demo precision=fp16", "precision=fp16"),
        ("resnet50 demo workload.compile=yes", "workload.compile=yes: allowed: auto, off, on"),
        ("resnet50 demo data.decode=fast", "data.decode=fast: allowed: exact, scaled"),
        ("resnet50 demo workload.hyperparameter_set=nvidia", "did you mean"),
        (
            "zoo demo workload.image_size=64",
            "images of cifar-demo have 32 pixels a side and are not resized",
        ),
        ("zoo synthetic workload.model=vgg61", "did you mean 'vgg19'"),
        ("zoo synthetic workload.model=vgg16 workload.padding=valid", "Set workload.padding=same"),
        ("zoo synthetic workload.implementation=stock", "pytorch has no littlecnn"),
        (
            "zoo synthetic workload.model=inception_v3 workload.image_size=64",
            "Set workload.image_size=75 or more",
        ),
        (
            "zoo synthetic workload.model=resnet18 update=async gpus=2 oversubscribe=true",
            "Set update=sync or ",
        ),
        ("zoo synthetic precision=fp16", "precision=fp16: only GPUs support it"),
    ],
)
def test_a_mistake_is_reported_in_one_line(tmp_path, few_images, command, message):
    assert message in only(rejection(tmp_path, command, few_images).strip().splitlines())


@pytest.mark.parametrize(
    ("command", "dataset"),
    [
        ("resnet50 reference", "imagenet"),
        ("zoo reference workload.dataset=cifar10", "cifar10"),
        ("zoo reference workload.dataset=fashion-mnist", "fashion-mnist"),
    ],
)
def test_a_reference_without_data_prints_the_command_to_run(tmp_path, few_images, command, dataset):
    assert f"suite data prepare {dataset} --from" in rejection(tmp_path, command, few_images)


def rejection(tmp_path, command, data):
    """Return the standard error of a command that is rejected."""
    workload, profile, *overrides = command.split()
    arguments = (f"workload={workload}", f"profile={profile}", "device=cpu", *overrides)
    done = run_suite_here(tmp_path, *arguments, SUITE_DATA_DIR=str(data))
    assert done.returncode == 2
    assert not (tmp_path / "logs").exists()
    return done.stderr
