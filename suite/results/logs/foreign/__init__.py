"""Reads logs of other programs and infers missing values.

The package infers a log's dialect, attempts, epochs, and targets. `own.py` reads the logs of this
suite.
"""
