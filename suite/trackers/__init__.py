"""Brings runs into experiment trackers: `exported.py` says what, one module for each tracker how."""
