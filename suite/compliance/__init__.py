"""mlperf-logging's checker on logs, with our rule files beside its own, and its complaints in words to act on.

It reads logs and starts no run.
"""
