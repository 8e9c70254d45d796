"""Planning: converts a composed configuration to the content of `run.json`.

All decisions and checks are made before the clock of a run starts. The controller and the preflight
checks use this package.
"""
