"""Every workload in every framework, on one device and on two: killed at three random places and gone on, it has the weights
and the scores of a sweep that nobody interrupted."""

import random
import time

import pytest

from tests.helpers import events, wait_until
from tests.stress.kill import KEPT, start, weights, workers

WORKLOADS = ("ncf", "resnet50", "ssd", "maskrcnn", "gnmt", "transformer")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """With the generated data of all of them."""
    return tmp_path_factory.mktemp("continued")


def scores(output):
    """What the evaluations of all runs gave, and the losses of their blocks."""
    found = {}
    for log in sorted(output.glob("*/run_*/result_*.txt")):
        kept = [(key, value) for key, value, _ in events(log) if key in ("eval_accuracy", "tracked_stats")]
        found[log.parent.parent.name] = [value if key == "eval_accuracy" else value["loss"] for key, value in kept]
    return found


@pytest.mark.full
@pytest.mark.framework
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_killed_three_times(scratch, workload, framework):
    sweep = (
        "-m",
        f"workload={workload}",
        f"framework={framework}",
        "profile=demo",
        "device=cpu",
        "stop=epochs:3",
        *KEPT,
    )
    whole, cut = (scratch / f"{workload}-{framework}-{name}" for name in ("whole", "cut"))
    begin, rng = time.monotonic(), random.Random(f"{workload} {framework}")
    text = start(sweep, scratch, whole).communicate(timeout=1200)[0].decode()
    seconds = time.monotonic() - begin
    assert len(weights(whole)) == 2, text
    for _ in range(3):
        controller = start(sweep, scratch, cut, *(["resume=true"] if cut.exists() else []))
        time.sleep(rng.uniform(0.2, 0.6) * seconds)
        controller.kill()
        controller.communicate(timeout=60)
        wait_until("nothing of it is left", lambda: not workers(cut), 60)
    text = start(sweep, scratch, cut, "resume=true").communicate(timeout=1200)[0].decode()
    assert scores(cut) == scores(whole), text
    assert weights(cut) == weights(whole)
