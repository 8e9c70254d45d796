"""Checks logs with mlperf-logging's compliance checker, its rule files and ours, and explains what
it complains about.

It reads logs and starts no run.
"""
