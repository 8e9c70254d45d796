"""Turns a composed configuration into `run.json`.

Every decision and check is made before the clock of a run starts. The controller and preflight use
this package.
"""
