"""Tests of the benchmarks: every script starts, and figures are computed from printed values."""
