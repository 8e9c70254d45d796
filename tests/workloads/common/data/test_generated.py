"""Generated data sets: generated once, also by concurrent processes, and never read from files."""

import subprocess
import sys

import pytest

from suite.common import registry
from tests.helpers import PROJECT, written
from workloads.common import manifest as manifests
from workloads.common.coco import demo as coco_demo
from workloads.resnet50 import demo as imagenet_demo
from workloads.zoo.datasets import cifar_demo

LOADED = {name: registry.load_dataset(name) for name in registry.names(registry.DATASETS)}
GENERATED = [
    name
    for name, dataset in LOADED.items()
    if dataset.generated and type(dataset).__module__.startswith("workloads.")
]
"""Generated data sets of the suite. Data sets of test plugins on the path are excluded."""
SMALL = {
    "imagenet-demo": (imagenet_demo, "images/val/*/*.JPEG"),
    "coco-demo": (coco_demo, "images/val*/*.jpg"),
    "cifar-demo": (cifar_demo, "val_image.npy"),
}
"""For each data set, the module that defines SIZES, and a pattern of files that runs read."""


@pytest.fixture(params=SMALL)
def small(request, monkeypatch):
    """Return a data set of 40 + 20 images and the pattern of its files."""
    module, files = SMALL[request.param]
    monkeypatch.setattr(module, "SIZES", {"train": 40, "val": 20})
    return registry.load_dataset(request.param), files


def test_the_list_of_generated_data_sets_is_complete():
    assert {*SMALL, "ml-demo"} <= set(GENERATED)


def test_only_names_of_generated_data_sets_have_the_suffix():
    assert [
        name for name in registry.names(registry.DATASETS) if name.endswith(registry.GENERATED)
    ] == GENERATED


@pytest.mark.parametrize("name", GENERATED)
def test_preparing_a_generated_data_set_is_rejected_with_the_command_to_run(name, tmp_path):
    dataset = registry.load_dataset(name)
    for read in (
        lambda: dataset.prepare(tmp_path / "x", tmp_path / "y"),
        lambda: dataset.verify(tmp_path / "y"),
    ):
        with pytest.raises(ValueError, match=f"Run: suite data make-demo {name}"):
            read()


@pytest.mark.parametrize("name", GENERATED)
def test_a_folder_with_a_different_data_set_is_rejected(name, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    manifests.publish(folder, tmp_path / "other", manifests.Manifest("another", {}, {}, {}))
    with pytest.raises(ValueError, match=r"holds another\. Set a different folder with --to"):
        registry.load_dataset(name).make_demo(tmp_path / "other")


def test_a_data_set_is_generated_once_may_be_moved_and_is_verified(small, tmp_path):
    dataset, files = small
    dataset.make_demo(tmp_path / "a")
    before = written(tmp_path / "a")
    assert dataset.make_demo(tmp_path / "a") == [
        f"{dataset.name}: already generated in {tmp_path / 'a'}"
    ]
    assert written(tmp_path / "a") == before
    (tmp_path / "a").rename(tmp_path / "b")
    assert "sound" in dataset.verify(tmp_path / "b")[-1]
    victim = next((tmp_path / "b").glob(files))
    content = bytearray(victim.read_bytes())
    content[-100] ^= 1
    victim.write_bytes(content)
    with pytest.raises(ValueError, match=victim.name):
        dataset.verify(tmp_path / "b")


def test_concurrent_processes_generate_a_single_data_set(tmp_path):
    destination = tmp_path / "data" / "cifar-demo"
    code = "import sys, pathlib; from workloads.zoo.datasets import cifar_demo; "
    code += (
        "cifar_demo.SIZES = {'train': 60, 'val': 20};"
        " cifar_demo.CifarDemo().make_demo(pathlib.Path(sys.argv[1]))"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code, destination], cwd=PROJECT) for _ in range(3)
    ]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    cifar_demo.CifarDemo().verify(destination)
    assert [path.name for path in destination.parent.iterdir()] == ["cifar-demo"]
