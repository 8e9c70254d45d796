"""Peak memory of each change in `benchmarks.gpu.why`, measured on a stub device without PyTorch."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

from benchmarks.gpu import runs, why

GIB = 2**30


class Counter:
    """Stub of the memory statistics of `torch.cuda`."""

    def __init__(self):
        self.peak = 0

    def allocate(self, size_bytes):
        self.peak = max(self.peak, size_bytes)

    def reset_peak_memory_stats(self):
        self.peak = 0

    def max_memory_allocated(self):
        return self.peak


def test_the_peak_of_a_change_is_independent_of_earlier_changes(monkeypatch):
    cuda = Counter()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr("workloads.frameworks.pytorch.kernels", None, raising=False)

    def trainer(workload, worker):
        def train(items, step):
            cuda.allocate(workload.size_bytes)

        def time_steps(items, seconds):
            seconds.extend([0.002, 0.004, 0.003])
            return items

        done = {"setup": lambda *_: None, "close": lambda: None, "prefetch_to_device": nullcontext}
        return SimpleNamespace(train=train, time_steps=time_steps, **done)

    def workload(settings, facts):
        data = SimpleNamespace(
            train=lambda *_: iter(range(why.AHEAD + why.STEPS)), close=lambda: None
        )
        return SimpleNamespace(
            size_bytes=settings.size_bytes, initial_weights=lambda _: (), open_data=lambda *_: data
        )

    monkeypatch.setattr(runs, "load_workload", lambda name: workload)
    monkeypatch.setattr(runs, "load_trainer", lambda name, framework: trainer)
    monkeypatch.setattr(runs, "worker_context_from_env", lambda run: None)
    settings = (SimpleNamespace(workload="x", size_bytes=size * GIB) for size in (3, 1))
    assert [
        why.step_ms(SimpleNamespace(dataset_info=None, settings=case_settings))
        for case_settings in settings
    ] == [
        {"step_ms": 3.0, "peak_gib": 3.0},
        {"step_ms": 3.0, "peak_gib": 1.0},
    ]
