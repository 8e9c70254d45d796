"""Tests of the benchmarks: they start, and their figures are computed from what processes printed."""
