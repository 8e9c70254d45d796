"""Checks logs with mlperf-logging's compliance checker and with further rules of this suite.

Complaints of the checker are explained, with a remedy. The package reads logs and starts no run.
"""
