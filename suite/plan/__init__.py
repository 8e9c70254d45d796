"""Turns a composed configuration into `run.json`: makes every decision and check before the clock
of a run starts.

Used by the controller and by preflight.
"""
