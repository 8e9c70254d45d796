"""Configuration of a command: Hydra, the schema of the settings, overrides, and help.

Only the controller uses this package. It is the only package that imports Hydra.
"""
