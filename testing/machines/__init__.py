"""Machines for tests, made out of this one: each has a network, a host name, processes and mounts
of its own.

They are Linux namespaces, joined by a bridge in the namespace of one more machine, `hub`, which
stands for a login node:

    from testing.machines import Machines, ssh, slurm

    with Machines.up(folder, 2, rate="200mbit") as machines:
        ssh.start(machines)          # an sshd on each; `ssh node1` works from every machine
        slurm.start(machines)        # a slurmd on each node, slurmctld on the hub; `srun` works from every machine
        machines.hub.run(["srun", "-N2", "hostname"])

The nodes share the cores of this machine equally; the hub may use all. What is shared as on a
cluster: files. What is not: `/tmp` (but for this checkout, the environments and the folder of the
machines itself), `/dev/shm`, `/run`, `/etc/hosts`, `/etc/slurm`, and the configuration of ssh.
Tests take the fixtures of `testing.machines.fixtures`; by hand it is `python -m testing.machines`
(which says what there is).
"""

from testing.machines.machine import Machine, Started
from testing.machines.machines import Machines

__all__ = ["Machine", "Machines", "Started"]
