"""DatasetInfo about this machine: devices, topology, control groups, and load.

This package imports no framework, and of the suite only `suite.common`.
"""
