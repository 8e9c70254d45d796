"""Control of a run's machines.

The local machine is controlled directly, and remote machines are controlled through agents. The
modules of this package select the machines, start agents, and check that all machines have the same
environments and data. The controller and its supervisor use this package.
"""
