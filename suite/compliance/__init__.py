"""Check logs with mlperf-logging's compliance checker and with additional rules.

The package explains each message of the checker and suggests a remedy. The package only reads logs
and does not start runs.
"""
