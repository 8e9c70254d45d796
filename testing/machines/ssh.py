"""Start an sshd on each virtual machine, with keys that are created for the test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from testing.machines import needs
from testing.machines.machine import Machine
from testing.machines.machines import Machines

SERVER = """\
Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
UsePAM no
UseDNS no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""
CLIENT = """\
Host *
  IdentityFile {folder}/id
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  LogLevel ERROR
"""
SHELL_FILES = (".bashrc", ".zshenv")
"""Names of the user's shell startup files, which are replaced by empty files on the virtual
machines.

The commands in the real files would run at every login, and could leave a lock file when a
test kills them.
"""


def start(machines: Machines) -> Path:
    """Create keys, start an sshd on every machine, and return the folder of keys and logs.

    `ssh node1` then works as root from every machine.
    """
    folder = machines.folder / "ssh"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    for key in ("id", "host"):
        words = [
            needs.program("ssh-keygen"),
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "",
            "-f",
            str(folder / key),
        ]
        subprocess.run(words, check=True, capture_output=True)
    host_key = (folder / "host.pub").read_text()
    (folder / "authorized").write_text((folder / "id.pub").read_text())
    (folder / "known").write_text("".join(f"{machine.name} {host_key}" for machine in machines.all))
    (folder / "sshd_config").write_text(SERVER.format(folder=folder))
    (folder / "config").write_text(CLIENT.format(folder=folder))
    (folder / "empty").touch()
    for machine in machines.all:
        machine.bind(folder / "config", "/etc/ssh/ssh_config")
        for path in (Path.home() / name for name in SHELL_FILES):
            if path.is_file():
                machine.bind(folder / "empty", str(path))
        serve(machine, folder)
    return folder


def serve(machine: Machine, folder: Path) -> None:
    """Start the machine's sshd and wait until it accepts connections.

    Call this function again after `kill_all`.
    """
    log = folder / f"{machine.name}.log"
    machine.run([needs.program("sshd"), "-f", folder / "sshd_config", "-E", log])
