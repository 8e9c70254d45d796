"""SLURM on virtual machines, with slurmctld on the hub and a slurmd on each node.

The daemons run without systemd, cgroups, and munge.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from testing.machines import needs
from testing.machines.machine import Machine
from testing.machines.machines import Machines

CONFIG = """\
ClusterName=suite
SlurmctldHost=hub({hub})
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=30
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=5
UnkillableStepTimeout=20
SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2
JobRequeue=1
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={name} NodeAddr={address} CPUs={cpus} RealMemory=4000"
    " State=UNKNOWN\n"
)
SPOOL = "/etc/slurm/spool"
"""Path of SLURM's spool folder on the machines, which contains sockets.

The path of a socket may have at most 107 characters.
"""
IDLE_SECONDS = 60.0


def start(machines: Machines, cpus: int = 8) -> Path:
    """Start the SLURM daemons, wait until all nodes are idle, and return their folder.

    `srun` then works on every machine for every user. Each node reports `cpus` CPUs. The returned
    folder contains the configuration and the logs. The function raises AssertionError if the nodes
    are not idle after IDLE_SECONDS.
    """
    folder = machines.folder / "slurm"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("state", "spool", "log"):
        (folder / name).mkdir(parents=True)
    nodes = [
        NODE.format(name=node.name, address=node.address, cpus=cpus) for node in machines.nodes
    ]
    config = CONFIG.format(folder=folder, spool=SPOOL, hub=machines.hub.address)
    (folder / "slurm.conf").write_text("".join([config, *nodes]))
    for machine in machines.all:
        machine.bind(folder, "/etc/slurm")
    machines.hub.run([needs.program("slurmctld"), "-c"])
    for node in machines.nodes:
        serve(node)
    _wait_until_idle(machines, folder)
    return folder


def serve(node: Machine) -> None:
    """Start the slurmd of a node.

    Call this function again after `kill_all`.
    """
    node.run([needs.program("slurmd"), "-N", node.name])


def _wait_until_idle(machines: Machines, folder: Path) -> None:
    deadline = time.monotonic() + IDLE_SECONDS
    wanted = str(len(machines.nodes))
    while (
        found := machines.hub.run(
            ["sinfo", "-h", "-t", "idle", "-o", "%D"], check=False
        ).stdout.strip()
    ) != wanted:
        logs = "\n".join(path.read_text()[-500:] for path in (folder / "log").iterdir())
        assert time.monotonic() < deadline, f"{found or 0} of {wanted} nodes are idle\n{logs}"
        time.sleep(0.1)
