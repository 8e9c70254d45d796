"""Reads foreign logs, and infers their dialects, attempts, epochs and targets. Logs of this suite are read by `own.py`."""
