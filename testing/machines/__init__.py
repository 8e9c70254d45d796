"""Virtual machines for tests, made of Linux namespaces on this machine.

Each machine has a separate network, host name, process tree, and mounts. A bridge connects the
machines. The bridge is in the namespace of an additional machine, `hub`, which represents a login
node:
    from testing.machines import Machines, ssh, slurm
    with Machines.up(folder, 2, rate="200mbit") as machines:
        ssh.start(machines)          # an sshd on each; `ssh node1` works from every machine
        slurm.start(machines)        # slurmd on the nodes, slurmctld on the hub, `srun` everywhere
        machines.hub.run(["srun", "-N2", "hostname"])

The nodes share the cores of this machine equally. The hub may use all cores. As on a cluster, all
machines share their files. The following paths are separate on each machine: `/tmp` (except this
checkout, the environments, and the folder of the machines), `/dev/shm`, `/run`, `/etc/hosts`,
`/etc/slurm`, and the configuration of ssh.

Tests use the fixtures of `testing.machines.fixtures`. `python -m testing.machines --help` describes
the manual use.
"""

from testing.machines.machine import Machine, Started
from testing.machines.machines import Machines

__all__ = ["Machine", "Machines", "Started"]
