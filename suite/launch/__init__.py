"""Framework definitions, and the start and end of a run's processes.

Workers and the controller use this package.
"""
