"""Export runs to experiment trackers.

`exported.py` defines the exported data. For each tracker, a module writes the data.
"""
