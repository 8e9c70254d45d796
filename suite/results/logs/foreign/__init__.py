"""Reads logs of other programs, and infers their dialects, attempts, epochs, and targets.

`own.py` reads logs of this suite.
"""
