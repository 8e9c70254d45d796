"""The image demos in PyTorch over two machines: the losses of two processes of one machine, and data from both sides."""

import json

import pytest

from tests.helpers import only
from tests.suite.control.hosts.test_several import WAYS, folder, run, two  # noqa: F401, its fixtures

STEPS = 3


@pytest.mark.framework
@pytest.mark.full  # NCF's demo takes the steps of one over machines (test_several.py); shares of images: test_image_data.py
@pytest.mark.parametrize("workload", ["resnet50", "ssd"])
def test_two_machines_train_as_one_does(two, folder, workload):  # noqa: F811
    demo = (f"workload={workload}", "profile=demo", "gpus=2", "device=cpu", "seed=1", f"stop=steps:{STEPS}")
    before, over = WAYS["slurm"]
    losses = {}
    for name, words, prefix in (("one", (), ()), ("two", (*over, "nodes=2"), before)):
        done = run(two, folder, *demo, "oversubscribe=true", *words, f"output={folder / name}", before=prefix)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = only(folder.glob(f"{name}/*/run_0/metrics.jsonl")).read_text().splitlines()
        losses[name] = [json.loads(line)["loss"] for line in lines]
    assert losses["one"] == losses["two"]
