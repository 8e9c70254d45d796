"""Exports runs to experiment trackers.

`exported.py` defines the exported data. Each tracker has a module that writes the data.
"""
