"""Workload `toy_loss`: fits the line of the toy until the mean error is at most 0.02."""

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
