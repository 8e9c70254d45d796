"""Framework definitions, and the start and end of a run's processes.

The controller and the workers use this package.
"""
