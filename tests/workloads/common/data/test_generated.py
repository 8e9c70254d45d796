"""What every generated data set keeps: it is made once, by whoever comes first, and never read from
files of others.
"""

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
    for name, one in LOADED.items()
    if one.generated and type(one).__module__.startswith("workloads.")
]
"""The suite's own: what tests of plugins have on the path stays aside."""
SMALL = {
    "imagenet-demo": (imagenet_demo, "images/val/*/*.JPEG"),
    "coco-demo": (coco_demo, "images/val*/*.jpg"),
    "cifar-demo": (cifar_demo, "val_image.npy"),
}
"""Data set to the module whose SIZES make it small, and to files that hold what a run reads."""


@pytest.fixture(params=SMALL)
def small(request, monkeypatch):
    """A data set of 40 + 20 images, and where its validation images are."""
    module, files = SMALL[request.param]
    monkeypatch.setattr(module, "SIZES", {"train": 40, "val": 20})
    return registry.load_dataset(request.param), files


def test_all_are_looked_at():
    assert {*SMALL, "ml-demo"} <= set(GENERATED)


def test_their_names_end_alike_and_no_others():
    assert [
        name for name in registry.names(registry.DATASETS) if name.endswith(registry.GENERATED)
    ] == GENERATED


@pytest.mark.parametrize("name", GENERATED)
def test_it_is_generated_and_not_read(name, tmp_path):
    dataset = registry.load_dataset(name)
    for read in (
        lambda: dataset.prepare(tmp_path / "x", tmp_path / "y"),
        lambda: dataset.verify(tmp_path / "y"),
    ):
        with pytest.raises(ValueError, match=f"Run: suite data make-demo {name}"):
            read()


@pytest.mark.parametrize("name", GENERATED)
def test_a_folder_of_another_data_set_is_refused(name, tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    manifests.publish(made, tmp_path / "other", manifests.Manifest("another", {}, {}, {}))
    with pytest.raises(ValueError, match=r"holds another\. Set a different folder with --to"):
        registry.load_dataset(name).make_demo(tmp_path / "other")


def test_it_is_made_once_and_can_be_moved_and_a_changed_file_is_found(small, tmp_path):
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


def test_processes_at_the_same_time_agree(tmp_path):
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
