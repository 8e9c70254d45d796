"""Facts about this machine: devices, topology, control groups, and load.

This package imports no framework. From the suite, it imports only `suite.common`.
"""
