"""Configuration of a command: Hydra, the schema of the settings, overrides, and help.

Only the controller uses this package. No other package imports Hydra.
"""
