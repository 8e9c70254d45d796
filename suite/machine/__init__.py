"""What this machine is: devices, topology, control groups, load.

Asked without a framework; imports `suite.common` alone.
"""
