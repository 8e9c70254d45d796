"""The peak memory of a change is its own: `benchmarks.gpu.why` on a device that only counts, without PyTorch."""

import importlib.util
import sys
from types import SimpleNamespace

from tests.helpers import PROJECT

GIB = 2**30


class Counter:
    """What `torch.cuda` knows of a device's memory."""

    def __init__(self):
        self.peak = 0

    def allocate(self, size_bytes):
        self.peak = max(self.peak, size_bytes)

    def reset_peak_memory_stats(self):
        self.peak = 0

    def max_memory_allocated(self):
        return self.peak


def test_a_smaller_change_after_a_larger_one_has_its_own_peak(monkeypatch):
    cuda = Counter()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr("workloads.frameworks.pytorch.kernels", None, raising=False)
    spec = importlib.util.spec_from_file_location("why", PROJECT / "benchmarks" / "gpu" / "why.py")
    why = importlib.util.module_from_spec(spec)  # for this test alone: it holds the counting device
    spec.loader.exec_module(why)

    def trainer(workload, place):
        def train(items, step):
            cuda.allocate(workload.size_bytes)

        def marked(items, seconds):
            seconds.extend([0.002, 0.004, 0.003])
            return items

        return SimpleNamespace(setup=lambda *_: None, train=train, marked=marked, close=lambda: None)

    def workload(settings, facts):
        data = SimpleNamespace(train=lambda *_: iter(range(why.AHEAD + why.STEPS)), close=lambda: None)
        return SimpleNamespace(size_bytes=settings.size_bytes, initial_weights=lambda _: (), open_data=lambda *_: data)

    why.load_workload, why.load_trainer = (lambda name: workload), (lambda name, framework: trainer)
    why.place_from_environment = lambda run: None
    runs = [SimpleNamespace(facts=None, settings=SimpleNamespace(workload="x", size_bytes=n * GIB)) for n in (3, 1)]
    assert [why.step_ms(run) for run in runs] == [{"step_ms": 3.0, "peak_gib": 3.0}, {"step_ms": 3.0, "peak_gib": 1.0}]
