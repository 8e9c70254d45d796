"""What GNMT's and Transformer's runs in real processes have in common."""

import json
import re

from tests.helpers import only, run_suite, status, suite

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")


def swept(tmp_path, workload, *overrides, **variables):
    """The folder after a sweep over all frameworks on one CPU device."""
    chosen = (f"workload={workload}", f"framework={','.join(FRAMEWORKS)}", "gpus=1", "device=cpu")
    done = run_suite(tmp_path, "-m", *chosen, *overrides, timeout=900, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path


def succeeded(tmp_path, framework):
    """The folder of a framework's run in a sweep, which ended well."""
    folder = only((tmp_path / "logs").glob(f"*/*-{framework}-*/run_0"))
    assert status(folder)["status"] == "success"
    return folder


def metrics(folder):
    """The rows of a run's `metrics.jsonl`."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_refused(tmp_path, workload, overrides, words):
    """One line that matches `words`, exit code 2, nothing written."""
    done = run_suite(tmp_path, f"workload={workload}", *overrides, timeout=60)
    assert done.returncode == 2
    assert re.search(words, done.stderr)
    assert len([line for line in done.stderr.strip().splitlines() if not line.startswith("environment ")]) == 1
    assert not (tmp_path / "logs").exists()


def assert_demo_reaches_its_target(tmp_path, workload, framework):
    """BLEU 50, not after the first epoch, in a log that the official checker accepts."""
    done = run_suite(tmp_path, f"workload={workload}", f"framework={framework}", "profile=demo", "seed=1", timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = only((tmp_path / "logs").glob("*/*/run_0"))
    scores = [row["quality"]["bleu"] for row in metrics(folder)]
    assert scores[-1] >= 0.5 > scores[0]
    assert scores[0] < 0.1, "the first epoch must not be enough"
    assert suite(tmp_path, "check", folder / "result_0.txt").returncode == 0
