"""Read logs of other programs and infer missing values.

The package infers the line format, the attempts, the epochs, and the targets of a log. `own.py`
reads the logs of this suite.
"""
