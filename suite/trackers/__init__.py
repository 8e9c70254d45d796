"""Exports runs to experiment trackers.

`exported.py` defines the exported data, and there is one module per tracker that writes them.
"""
