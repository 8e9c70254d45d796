"""Definitions of the frameworks, the commands that start a run's processes, and the start and end
of process trees.

Workers and the controller use this package.
"""
