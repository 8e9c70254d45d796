"""Controls the machines of a run: the local machine directly, and remote machines through agents.

The modules select the machines, start agents, and check that all machines have the same
environments and data. The controller and its supervisor use them.
"""
