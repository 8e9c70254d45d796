"""Information about this machine: devices, topology, control groups, and load.

This package imports no framework. From the suite, this package imports only `suite.common`.
"""
