"""From a composed configuration to `run.json`: every decision and check before a clock starts.

For the controller and preflight.
"""
