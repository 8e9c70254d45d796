"""`launch=external`: the processes are there already, one or several on each machine, started by srun, mpirun or Kubernetes.

The first of all is the controller; on every other machine the first one becomes the agent, which connects to it. Both sides
prove that they know one token without sending it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import platform
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any

from suite.agent.agent import Agent
from suite.agent.message_stream import MessageStream
from suite.common.run_config import PORTS, LaunchConfig
from suite.control.hosts.agents import Agents
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.launchers import agent_argv, connect_agent, expanded
from suite.launch.children import TOKEN

PORT = 29400
"""Where agents connect unless `launch.port` or MASTER_PORT says otherwise."""
HANDSHAKE_SECONDS = 2.0
"""For the whole handshake of a connection, however slowly its bytes come."""
MAX_HANDSHAKES = 64
"""Connections that are being asked who they are; further ones are closed, and agents come again."""
LINE_BYTES = 4096
_MAX_PROCESSES = 1 << 20
_ADDRESS = re.compile(r"(?=.{1,253}$)[\w:%-]{1,63}(\.[\w-]{1,63})*\.?")
"""A host's name, whose parts have at most 63 characters, or an address of IPv4 or IPv6."""


@dataclass(frozen=True)
class RankVariables:
    """Names of the environment variables by which a launcher numbers its processes."""

    number: str
    """Number of the process among all processes."""
    local: tuple[str, ...]
    """Number of the process on its machine: the first variable of these that is set."""
    count: str
    """Number of processes on all machines."""


RANKS = {
    "SLURM": RankVariables("SLURM_PROCID", ("SLURM_LOCALID",), "SLURM_STEP_NUM_TASKS"),
    "OpenMPI": RankVariables("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_LOCAL_RANK",), "OMPI_COMM_WORLD_SIZE"),
    "MVAPICH": RankVariables("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_LOCAL_RANK",), "MV2_COMM_WORLD_SIZE"),
    "MVAPICH 3": RankVariables("MVP_COMM_WORLD_RANK", ("MVP_COMM_WORLD_LOCAL_RANK",), "MVP_COMM_WORLD_SIZE"),
    "Flux": RankVariables("FLUX_TASK_RANK", ("FLUX_TASK_LOCAL_ID",), "FLUX_JOB_SIZE"),
    "jsrun": RankVariables("JSM_NAMESPACE_RANK", ("JSM_NAMESPACE_LOCAL_RANK",), "JSM_NAMESPACE_SIZE"),
    "MPICH": RankVariables("PMI_RANK", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"), "PMI_SIZE"),
    "its launcher": RankVariables("RANK", ("LOCAL_RANK",), "WORLD_SIZE"),
}
"""Launcher to its variables. Intel MPI, Cray PALS, and every other launcher with the PMI interface set those of MPICH."""


@dataclass(frozen=True)
class Rank:
    """Which of the processes this is."""

    number: int
    """Among all."""
    local: int
    """On its machine."""
    count: int
    source: str
    """Name of the launcher in RANKS."""


def rank_here(variables: Mapping[str, str] = os.environ) -> Rank | None:
    """Return the rank of this process, or None if no launcher started it as one of several processes.

    A launcher that started one process is ignored if another one started several: `mpiexec` inside `srun --pty bash`.

    Raises:
        ValueError: Two launchers contradict each other, or a variable is not a number in its range.
    """
    names_by_launcher = {
        launcher: names for launcher, names in RANKS.items() if names.number in variables and names.count in variables
    }
    ranks = [_rank_from(variables, launcher, names) for launcher, names in names_by_launcher.items()]
    ranks = [rank for rank in ranks if rank.count > 1] or ranks
    if len({(rank.number, rank.count) for rank in ranks}) > 1:
        listed = [names_by_launcher[rank.source] for rank in ranks]
        ranks_text = ", ".join(f"{names.number}={variables[names.number]}" for names in listed)
        unused = [name for names in listed[1:] for name in (names.number, *names.local, names.count)]
        options = " ".join(f"-u {name}" for name in unused if name in variables)
        raise ValueError(
            f"launch: {' and '.join(rank.source for rank in ranks)} both say which process this is ({ranks_text}); "
            f"take away what does not hold, for example: env {options} python run_suite.py …"
        )
    return ranks[0] if ranks else None


def _rank_from(variables: Mapping[str, str], launcher: str, names: RankVariables) -> Rank:
    """Return the rank according to one launcher. Raises ValueError for a variable that is not a number in its range."""
    count = _whole(variables, names.count, 1, _MAX_PROCESSES)
    local_name = next((name for name in names.local if variables.get(name)), names.local[0])
    return Rank(
        _whole(variables, names.number, 0, count - 1),
        _whole(variables, local_name, 0, count - 1, 0),
        count,
        launcher,
    )


def _whole(variables: Mapping[str, str], name: str, least: int, most: int, default: int | None = None) -> int:
    """The whole number in a variable. Raises ValueError with its name and what is allowed."""
    if default is not None and not variables.get(name):
        return default
    with contextlib.suppress(KeyError, ValueError):
        if least <= (number := int(variables[name])) <= most:
            return number
    raise ValueError(f"launch: {name}={variables[name][:40]}: a whole number from {least} to {most} is needed")


def refuse_ranks(variables: Mapping[str, str] = os.environ) -> None:
    """Raise ValueError in a process that is one of several: each would start the whole run."""
    rank = rank_here(variables)
    if rank is not None and rank.count > 1:
        raise ValueError(
            f"this is process {rank.number} of {rank.count} that {rank.source} started; type launch=external, "
            f"or start the command once, without it"
        )


@dataclass(frozen=True)
class ExternalProcess:
    """One of the processes that an external launcher started."""

    rank: Rank
    token: str
    """Secret that all processes share."""
    first: tuple[str, int]
    """Address and port at which the agents reach the first process. The address is empty on the first process if it has no
    address of this machine: it then listens on all interfaces."""

    @property
    def is_controller(self) -> bool:
        """Whether this process is the first of all."""
        return self.rank.number == 0

    def gather(self, launch: LaunchConfig, count: int) -> Agents:
        """On the first process, return the agents of `count` machines, once all have connected. Raises ValueError."""
        return _gathered(launch, count, *self.first, self.token)

    def serve(self, launch: LaunchConfig) -> None:
        """On another machine, serve the controller until it ends. Processes after the first one of a machine do nothing.

        Raises:
            ValueError: The controller cannot be reached, or has a different token.
        """
        if self.rank.local == 0:
            _serve(launch, self.rank, self.first, self.token)


def external_process(launch: LaunchConfig, variables: Mapping[str, str] = os.environ) -> ExternalProcess:
    """Return which of the processes of `launch=external` this is.

    Raises:
        ValueError: A variable is missing or not in its range.
    """
    rank = rank_here(variables)
    if rank is None:
        raise ValueError(
            f"launch=external: no variable says which process this is "
            f"({', '.join(names.number for names in RANKS.values())}); start it with srun, mpirun or a job that sets them"
        )
    token = variables.get(TOKEN, "")
    if not token:
        raise ValueError(
            f"launch=external needs a secret of all processes; type: export {TOKEN}=$(openssl rand -hex 16)"
        )
    address = variables.get("MASTER_ADDR")
    if address and not _ADDRESS.fullmatch(address):
        raise ValueError(
            f"launch: MASTER_ADDR={address[:40]}: a name or an address of at most 253 characters is needed"
        )
    port = int(launch.port or _whole(variables, "MASTER_PORT", PORTS[0], PORTS[-1], PORT))
    first = ""
    if rank.number == 0:
        first = _own_address(variables)
    elif rank.local == 0:
        first = _first_machine(variables)
    return ExternalProcess(rank, token, (first, port))


def _first_machine(variables: Mapping[str, str]) -> str:
    if variables.get("MASTER_ADDR"):
        return variables["MASTER_ADDR"]
    listed = variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_JOB_NODELIST")
    if not listed:
        raise ValueError("launch=external: where is the first process? set MASTER_ADDR to its machine's address")
    return expanded([listed])[0]


def _own_address(variables: Mapping[str, str]) -> str:
    """Where agents are told to connect, if that is an address of this machine; else empty: all of its interfaces."""
    try:
        address = _first_machine(variables)
        with socket.create_server((address, 0)):
            return address
    except (OSError, ValueError):
        return ""


def _gathered(launch: LaunchConfig, count: int, address: str, port: int, token: str) -> Agents:
    """The fleet of this machine and those that connect within `launch.wait_seconds`, whoever else connects."""
    deadline = time.monotonic() + launch.wait_seconds
    connections: dict[int, AgentConnection] = {}
    shakes: set[Future[None]] = set()

    def shake(connection: socket.socket) -> None:
        with contextlib.suppress(EOFError, OSError, ValueError, KeyError, TypeError):
            number, link = _welcome(connection, launch, token)
            connections.setdefault(number, link)

    try:
        listener = socket.create_server((address, port))
    except OSError as error:
        raise ValueError(f"port {port} cannot be listened on: {error.strerror}; type launch.port=N") from None
    with listener, ThreadPoolExecutor(MAX_HANDSHAKES) as pool:
        listener.settimeout(0.1)
        while len(connections) < count - 1:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"nodes={count}: {len(connections) + 1} machine(s) came within {launch.wait_seconds:g} s "
                    f"({', '.join([platform.node(), *(link.name for link in connections.values())])}); "
                    f"type launch.wait_seconds=N if the others start late"
                )
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                shakes = {one for one in shakes if not one.done()}
                if len(shakes) < MAX_HANDSHAKES:
                    shakes.add(pool.submit(shake, connection))
                else:
                    connection.close()
    own_line = connect_agent(platform.node(), agent_argv(launch.lease_seconds), launch)
    return Agents([own_line, *(connections[number] for number in sorted(connections))], launch)


def _welcome(connection: socket.socket, launch: LaunchConfig, token: str) -> tuple[int, AgentConnection]:
    """An agent's number, from 1, and link. Raises OSError or ValueError for a stranger, which is left after SHAKE_SECONDS."""
    given_up = threading.Timer(HANDSHAKE_SECONDS, _hang_up, [connection])
    given_up.daemon = True
    given_up.start()
    try:
        reader, writer = connection.makefile("rb"), connection.makefile("wb")
        nonce = secrets.token_hex(16)
        _say(writer, {"nonce": nonce})
        answer = _hear(reader)
        rank, of_agent = int(answer["rank"]), str(answer["nonce"])
        if rank < 1 or not _same(answer["proof"], _proof(token, "agent", nonce, of_agent, rank)):
            _say(writer, {"refused": "token"})
            raise ValueError("another token, or the rank of this process")
        _say(writer, {"proof": _proof(token, "controller", nonce, of_agent, rank)})
    except BaseException:
        connection.close()
        raise
    finally:
        given_up.cancel()
    link = AgentConnection(
        str(answer["name"]), MessageStream(reader, writer), launch.lease_seconds, launch.wait_seconds
    )
    return rank, link


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side has left already
        connection.shutdown(socket.SHUT_RDWR)


def _serve(launch: LaunchConfig, rank: Rank, place: tuple[str, int], token: str) -> None:
    """Be the agent of this machine until the controller lets it go. Raises ValueError if there is none."""
    deadline = time.monotonic() + launch.wait_seconds
    while True:
        connection = _connected(place, max(0.0, deadline - time.monotonic()))
        try:
            connection.settimeout(HANDSHAKE_SECONDS)
            reader, writer = connection.makefile("rb"), connection.makefile("wb")
            challenge, nonce = str(_hear(reader)["nonce"]), secrets.token_hex(16)
            proof = _proof(token, "agent", challenge, nonce, rank.number)
            _say(writer, {"rank": rank.number, "name": platform.node(), "nonce": nonce, "proof": proof})
            answered = str(_hear(reader).get("proof"))
            break
        except (EOFError, ConnectionError):  # too many others at the same time: again
            connection.close()
            if time.monotonic() > deadline:
                raise ValueError(_stranger(place)) from None
            time.sleep(0.2)
        except (OSError, ValueError, KeyError):
            connection.close()
            raise ValueError(_stranger(place)) from None
    with connection:
        if not _same(answered, _proof(token, "controller", challenge, nonce, rank.number)):
            raise ValueError(f"{place[0]}:{place[1]} knows another {TOKEN}; set the same one for all processes")
        connection.settimeout(None)
        Agent(MessageStream(reader, writer), launch.lease_seconds).run()


def _stranger(place: tuple[str, int]) -> str:
    return f"{place[0]}:{place[1]} does not speak as the first process does; type launch.port=N"


def _connected(place: tuple[str, int], wait_seconds: float) -> socket.socket:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return socket.create_connection(place, timeout=HANDSHAKE_SECONDS)
        except OSError as error:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"the first process is not reached at {place[0]}:{place[1]} within {wait_seconds:g} s: "
                    f"{error.strerror or error}; set MASTER_ADDR, or type launch.port=N"
                ) from None
            time.sleep(0.2)


def _proof(token: str, side: str, challenge: str, nonce: str, rank: int) -> str:
    """Of one connection alone: both sides' random words are in it, and which process the agent says it is."""
    return hmac.new(token.encode(), json.dumps([side, challenge, nonce, rank]).encode(), hashlib.sha256).hexdigest()


def _same(said: Any, proof: str) -> bool:
    """Whether what the other side said, which may be anything, is the proof."""
    return hmac.compare_digest(str(said).encode(errors="replace"), proof.encode())


def _say(writer: IO[bytes], message: Mapping[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    writer.flush()


def _hear(reader: IO[bytes]) -> Mapping[str, Any]:
    line = reader.readline(LINE_BYTES)
    if not line:
        raise EOFError
    try:
        message = json.loads(line)
    except RecursionError:  # brackets alone
        message = None
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message
