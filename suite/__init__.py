"""The benchmark suite: settings, worker launch, timing to a quality target, and log analysis."""

__version__ = "0.1.0"
