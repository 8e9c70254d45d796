"""Shared code of tests and benchmarks."""
