"""Workloads `toy_loss` and `toy_samples`: the toy until its mean error is at most 0.02."""

from toy import Toy

from workloads.api import Defaults

TARGET = 0.02


class ToyLoss(Toy):
    """The toy with the mean absolute error as its metric."""

    name = mlperf_name = "toy_loss"
    falling_metrics = frozenset({"error"})

    @classmethod
    def defaults(cls, profile, round, options):
        return Defaults("toy-demo", "demo", {}, {"error": TARGET})

    def compute_metrics(self, results):
        return {"error": float(results["error"].mean())}


class ToySamples(ToyLoss):
    """The toy with a falling metric whose rules count training in samples."""

    name = mlperf_name = "toy_samples"
    epoch_unit = "samples"
