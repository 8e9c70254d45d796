"""Benchmark suite: settings, worker launch, time to target, and log analysis."""

__version__ = "0.1.0"
