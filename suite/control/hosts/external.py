"""Connect the processes of a run with `launch=external`.

An external launcher (srun, mpirun, or Kubernetes) has already started at least one process on each
machine. The process with rank 0 becomes the controller. On every other machine, the process with
local rank 0 becomes the agent and connects to the controller. The controller and the agent prove to
each other that they have the same secret token, without sending the token.
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
from typing import IO, TypeVar

from suite.agent.agent import Agent
from suite.agent.message_stream import MessageStream
from suite.agent.messages import decode, encode
from suite.common.run_config import PORTS, LaunchConfig
from suite.control.hosts.agents import Agents
from suite.control.hosts.connection import AgentConnection
from suite.control.hosts.launchers import agent_argv, connect_agent, expanded
from suite.launch.children import TOKEN

T = TypeVar("T")

PORT = 29400
"""Port to which agents connect if neither `launch.port` nor MASTER_PORT is set."""
HANDSHAKE_SECONDS = 2.0
"""Time limit in seconds for the handshake of a connection."""
MAX_HANDSHAKES = 64
"""Maximum number of concurrent handshakes.

The controller closes further connections, and the agents then try to connect again.
"""
LINE_BYTES = 4096
"""Maximum size of a handshake message in bytes."""
_MAX_PROCESSES = 1 << 20
_ADDRESS = re.compile(r"(?=.{1,253}$)[\w:%-]{1,63}(\.[\w-]{1,63})*\.?")
"""Pattern of a host name, or of an IPv4 or IPv6 address. Each component of a host name has at
most 63 characters.
"""


@dataclass(frozen=True)
class Challenge:
    """First message of the handshake, from the controller."""

    nonce: str
    """Random value that the controller generated."""


@dataclass(frozen=True)
class AgentProof:
    """Second message of the handshake, from the agent."""

    rank: int
    name: str
    """Host name of the agent's machine."""
    nonce: str
    """Random value that the agent generated."""
    proof: str


@dataclass(frozen=True)
class ControllerProof:
    """Last message of the handshake, from the controller."""

    proof: str = ""
    """Proof that the controller has the token. The string is empty if the controller sent a
    `Refusal`.
    """


@dataclass(frozen=True)
class Refusal:
    """Last message of the handshake if the controller rejects the agent."""

    refused: str
    """Name of the incorrect key in the agent's message. The only such key is `token`."""


@dataclass(frozen=True)
class RankVariables:
    """Names of the environment variables through which a launcher passes the rank."""

    number: str
    """Variable that contains the global rank."""
    local: tuple[str, ...]
    """Variables that contain the rank within the machine.

    The first variable that is set is used.
    """
    count: str
    """Variable that contains the total number of processes."""


RANKS = {
    "SLURM": RankVariables("SLURM_PROCID", ("SLURM_LOCALID",), "SLURM_STEP_NUM_TASKS"),
    "OpenMPI": RankVariables(
        "OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_LOCAL_RANK",), "OMPI_COMM_WORLD_SIZE"
    ),
    "MVAPICH": RankVariables(
        "MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_LOCAL_RANK",), "MV2_COMM_WORLD_SIZE"
    ),
    "MVAPICH 3": RankVariables(
        "MVP_COMM_WORLD_RANK", ("MVP_COMM_WORLD_LOCAL_RANK",), "MVP_COMM_WORLD_SIZE"
    ),
    "Flux": RankVariables("FLUX_TASK_RANK", ("FLUX_TASK_LOCAL_ID",), "FLUX_JOB_SIZE"),
    "jsrun": RankVariables(
        "JSM_NAMESPACE_RANK", ("JSM_NAMESPACE_LOCAL_RANK",), "JSM_NAMESPACE_SIZE"
    ),
    "MPICH": RankVariables(
        "PMI_RANK", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"), "PMI_SIZE"
    ),
    "its launcher": RankVariables("RANK", ("LOCAL_RANK",), "WORLD_SIZE"),
}
"""Maps the name of each launcher to the environment variables that the launcher sets.

Intel MPI, Cray PALS, and all launchers with the PMI interface set the same variables as MPICH.
"""


@dataclass(frozen=True)
class Rank:
    """Rank of this process among the processes that a launcher started."""

    number: int
    """Global rank."""
    local: int
    """Rank within the machine."""
    count: int
    """Total number of processes."""
    source: str
    """Name of the launcher, which is a key of RANKS."""


def rank_here(env: Mapping[str, str] = os.environ) -> Rank | None:
    """Return the rank of this process, or None if no launcher has set the rank.

    If a launcher started a single process and another launcher started several processes, the first
    launcher is ignored. An example is `mpiexec` inside `srun --pty bash`.

    Raises:
        ValueError: Two launchers contradict each other, or a variable is not a number in its
            allowed range.
    """
    names_by_launcher = {
        launcher: names
        for launcher, names in RANKS.items()
        if names.number in env and names.count in env
    }
    ranks = [_rank_from(env, launcher, names) for launcher, names in names_by_launcher.items()]
    ranks = [rank for rank in ranks if rank.count > 1] or ranks
    if len({(rank.number, rank.count) for rank in ranks}) > 1:
        listed = [names_by_launcher[rank.source] for rank in ranks]
        ranks_text = ", ".join(f"{names.number}={env[names.number]}" for names in listed)
        unused = [
            name for names in listed[1:] for name in (names.number, *names.local, names.count)
        ]
        options = " ".join(f"-u {name}" for name in unused if name in env)
        raise ValueError(
            f"launch: {' and '.join(rank.source for rank in ranks)} both set the rank of this"
            f" process ({ranks_text}). Unset the variables that are wrong, for example: env"
            f" {options} python run_suite.py …"
        )
    return ranks[0] if ranks else None


def _rank_from(env: Mapping[str, str], launcher: str, names: RankVariables) -> Rank:
    """Return the rank from the environment variables that a launcher set.

    Raises ValueError if a variable is not a number in its allowed range.
    """
    count = _whole(env, names.count, 1, _MAX_PROCESSES)
    local_name = next((name for name in names.local if env.get(name)), names.local[0])
    return Rank(
        _whole(env, names.number, 0, count - 1),
        _whole(env, local_name, 0, count - 1, 0),
        count,
        launcher,
    )


def _whole(
    env: Mapping[str, str], name: str, least: int, most: int, default: int | None = None
) -> int:
    """Return the integer in an environment variable.

    Args:
        env: Environment variables.
        name: Name of the variable.
        least: Minimum allowed integer.
        most: Maximum allowed integer.
        default: Integer to return if the variable is missing or empty. If None, the variable is
            required.

    Raises:
        ValueError: The variable is not an integer in the allowed range. The message contains the
            name and the allowed range.
    """
    if default is not None and not env.get(name):
        return default
    with contextlib.suppress(KeyError, ValueError):
        if least <= (number := int(env[name])) <= most:
            return number
    raise ValueError(f"launch: {name}={env[name][:40]}: expected an integer from {least} to {most}")


def refuse_ranks(env: Mapping[str, str] = os.environ) -> None:
    """Raise ValueError if a launcher started several processes.

    Without this error, each of the processes would start the complete run.
    """
    rank = rank_here(env)
    if rank is not None and rank.count > 1:
        raise ValueError(
            f"this is process {rank.number} of {rank.count} that {rank.source} started. Set"
            f" launch=external, or start the command once, without {rank.source}"
        )


@dataclass(frozen=True)
class ExternalProcess:
    """A process that an external launcher started."""

    rank: Rank
    token: str
    """Secret token that all processes share."""
    first: tuple[str, int]
    """Address and port of rank 0, to which the agents connect.

    On rank 0, the address is empty if no network interface has the address. Rank 0 then listens on
    all interfaces.
    """

    @property
    def is_controller(self) -> bool:
        """Return True if this process has rank 0."""
        return self.rank.number == 0

    def gather(self, launch: LaunchConfig, count: int) -> Agents:
        """Wait until the agents of `count` machines have connected, and return the agents.

        Only the process with rank 0 calls this method.

        Raises:
            ValueError: The port is in use, or too few agents have connected in time.
        """
        return _gathered(launch, count, *self.first, self.token)

    def serve(self, launch: LaunchConfig) -> None:
        """Run the agent of this machine until the controller ends.

        If the local rank is above 0, the process does nothing. Rank 0 calls `gather` instead of
        this method.

        Raises:
            ValueError: The controller cannot be reached, or has a different token.
        """
        if self.rank.local == 0:
            _serve(launch, self.rank, self.first, self.token)


def external_process(launch: LaunchConfig, env: Mapping[str, str] = os.environ) -> ExternalProcess:
    """Return the rank, the token, and rank 0's address of this `launch=external` process.

    Raises:
        ValueError: An environment variable is missing or outside its allowed range.
    """
    rank = rank_here(env)
    if rank is None:
        for names in RANKS.values():
            if names.number in env and names.count not in env:
                raise ValueError(
                    f"launch=external: {names.number} is set, but {names.count} is not. Set both"
                )
        raise ValueError(
            "launch=external: no environment variable contains the rank of this process "
            f"({', '.join(names.number for names in RANKS.values())}). "
            "Start the command with srun, mpirun, or a job that sets the rank"
        )
    token = env.get(TOKEN, "")
    if not token:
        raise ValueError(
            "launch=external needs a secret that all processes share. Run: export"
            f" {TOKEN}=$(openssl rand -hex 16)"
        )
    address = env.get("MASTER_ADDR")
    if address and not _ADDRESS.fullmatch(address):
        raise ValueError(
            f"launch: MASTER_ADDR={address[:40]}: expected a host name or an IP address of at most"
            " 253 characters"
        )
    port = int(launch.port or _whole(env, "MASTER_PORT", PORTS[0], PORTS[-1], PORT))
    first = ""
    if rank.number == 0:
        first = _listen_address(env)
    elif rank.local == 0:
        first = _first_machine(env)
    return ExternalProcess(rank, token, (first, port))


def _first_machine(env: Mapping[str, str]) -> str:
    """Return the name or address of the machine on which rank 0 runs.

    Raises ValueError if no environment variable contains the name or address.
    """
    if env.get("MASTER_ADDR"):
        return env["MASTER_ADDR"]
    listed = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST")
    if not listed:
        raise ValueError(
            "launch=external: the address of rank 0 is unknown. Set MASTER_ADDR to the address of"
            " its machine"
        )
    return expanded([listed])[0]


def _listen_address(env: Mapping[str, str]) -> str:
    """Return the local address on which the controller listens for agents.

    If the address of rank 0 does not belong to this machine, the string is empty, and the
    controller listens on all interfaces.
    """
    try:
        address = _first_machine(env)
        with socket.create_server((address, 0)):
            return address
    except (OSError, ValueError):
        return ""


def _gathered(launch: LaunchConfig, count: int, address: str, port: int, token: str) -> Agents:
    """Return the agents of this machine and of all machines that connect in time.

    The time limit is `launch.wait_seconds`. Connections that fail the handshake are ignored.

    Args:
        launch: `launch.*` settings of the command.
        count: Number of machines, including this machine.
        address: Address on which to listen. An empty string means all interfaces.
        port: Port on which to listen.
        token: Secret token that all processes share.

    Raises:
        ValueError: The port is in use, or too few agents have connected in time.
    """
    deadline = time.monotonic() + launch.wait_seconds
    connections: dict[int, AgentConnection] = {}
    handshakes: set[Future[None]] = set()

    def handle(client: socket.socket) -> None:
        """Perform the handshake, and add the agent if the handshake succeeds."""
        with contextlib.suppress(EOFError, OSError, ValueError):
            number, connection = _welcome(client, launch, token)
            connections.setdefault(number, connection)

    try:
        listener = socket.create_server((address, port))
    except OSError as error:
        raise ValueError(
            f"cannot listen on port {port}: {error.strerror}. Set launch.port=N"
        ) from None
    with listener, ThreadPoolExecutor(MAX_HANDSHAKES) as pool:
        listener.settimeout(0.1)
        while len(connections) < count - 1:
            if time.monotonic() > deadline:
                names = ", ".join(
                    [platform.node(), *(connection.name for connection in connections.values())]
                )
                raise ValueError(
                    f"nodes={count}: {len(connections) + 1} machine(s), including this machine,"
                    f" connected within {launch.wait_seconds:g} s ({names}). Set"
                    " launch.wait_seconds=N if the machines start late"
                )
            with contextlib.suppress(TimeoutError):
                client, _ = listener.accept()
                handshakes = {future for future in handshakes if not future.done()}
                if len(handshakes) < MAX_HANDSHAKES:
                    handshakes.add(pool.submit(handle, client))
                else:
                    client.close()
    local_agent = connect_agent(platform.node(), agent_argv(launch.lease_seconds), launch)
    return Agents([local_agent, *(connections[number] for number in sorted(connections))], launch)


def _welcome(
    client: socket.socket, launch: LaunchConfig, token: str
) -> tuple[int, AgentConnection]:
    """Perform the handshake with a process that connected.

    Returns the rank of the process and the connection to its agent. The connection is shut down if
    the handshake takes longer than HANDSHAKE_SECONDS.

    Raises:
        OSError: The connection closed.
        ValueError: The process does not have the token, or its rank is not positive.
    """
    timer = threading.Timer(HANDSHAKE_SECONDS, _hang_up, [client])
    timer.daemon = True
    timer.start()
    try:
        reader, writer = client.makefile("rb"), client.makefile("wb")
        nonce = secrets.token_hex(16)
        _say(writer, Challenge(nonce))
        agent = _hear(reader, AgentProof)
        if agent.rank < 1 or not _same(
            agent.proof, _proof(token, "agent", nonce, agent.nonce, agent.rank)
        ):
            _say(writer, Refusal("token"))
            raise ValueError("the token differs, or the rank is not positive")
        _say(writer, ControllerProof(_proof(token, "controller", nonce, agent.nonce, agent.rank)))
    except BaseException:
        client.close()
        raise
    finally:
        timer.cancel()
    connection = AgentConnection(
        agent.name, MessageStream(reader, writer), launch.lease_seconds, launch.wait_seconds
    )
    return agent.rank, connection


def _hang_up(client: socket.socket) -> None:
    """Shut down a connection, so that a thread that is blocked in a read continues."""
    with contextlib.suppress(OSError):  # the peer has already closed the connection
        client.shutdown(socket.SHUT_RDWR)


def _serve(launch: LaunchConfig, rank: Rank, address: tuple[str, int], token: str) -> None:
    """Connect to the controller, and run the agent of this machine.

    The function returns when the controller closes the connection.

    Args:
        launch: `launch.*` settings of the command.
        rank: Rank of this process.
        address: Address and port of the controller.
        token: Secret token that all processes share.

    Raises:
        ValueError: The controller cannot be reached, or has a different token.
    """
    deadline = time.monotonic() + launch.wait_seconds
    while True:
        client = _connected(address, max(0.0, deadline - time.monotonic()))
        try:
            client.settimeout(HANDSHAKE_SECONDS)
            reader, writer = client.makefile("rb"), client.makefile("wb")
            challenge, nonce = _hear(reader, Challenge).nonce, secrets.token_hex(16)
            proof = _proof(token, "agent", challenge, nonce, rank.number)
            _say(writer, AgentProof(rank.number, platform.node(), nonce, proof))
            response = _hear(reader, ControllerProof)
            break
        # The controller has too many concurrent handshakes, so try to connect again.
        except (EOFError, ConnectionError):
            client.close()
            if time.monotonic() > deadline:
                raise ValueError(_no_controller(address)) from None
            time.sleep(0.2)
        except (OSError, ValueError):
            client.close()
            raise ValueError(_no_controller(address)) from None
    with client:
        if not _same(response.proof, _proof(token, "controller", challenge, nonce, rank.number)):
            raise ValueError(
                f"{address[0]}:{address[1]} has a different {TOKEN}. Set the same value for all"
                " processes"
            )
        client.settimeout(None)
        Agent(MessageStream(reader, writer), launch.lease_seconds).run()


def _no_controller(address: tuple[str, int]) -> str:
    """Return the error message for a program at `address` that is not the controller."""
    return (
        f"{address[0]}:{address[1]} does not answer as rank 0 of launch=external does. Set"
        " launch.port=N"
    )


def _connected(address: tuple[str, int], wait_seconds: float) -> socket.socket:
    """Connect to the controller, and return the socket.

    Raises ValueError if the controller cannot be reached within `wait_seconds`.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return socket.create_connection(address, timeout=HANDSHAKE_SECONDS)
        except OSError as error:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"cannot reach rank 0 at {address[0]}:{address[1]} within {wait_seconds:g} s: "
                    f"{error.strerror or error}. Set MASTER_ADDR or launch.port=N"
                ) from None
            time.sleep(0.2)


def _proof(token: str, side: str, challenge: str, nonce: str, rank: int) -> str:
    """Return the proof that the controller or the agent has the token.

    The proof is valid for a single connection only, because it depends on the agent's rank and on
    random values that the controller and the agent generate for each connection.

    Args:
        token: Secret token that all processes share.
        side: Sender of the proof: `agent` or `controller`.
        challenge: Random value that the controller generated.
        nonce: Random value that the agent generated.
        rank: Rank of the agent.
    """
    return hmac.new(
        token.encode(), json.dumps([side, challenge, nonce, rank]).encode(), hashlib.sha256
    ).hexdigest()


def _same(received: str, proof: str) -> bool:
    """Compare the received proof with the expected proof in constant time."""
    return hmac.compare_digest(received.encode(errors="replace"), proof.encode())


def _say(writer: IO[bytes], message: Challenge | AgentProof | ControllerProof | Refusal) -> None:
    """Send a handshake message."""
    writer.write(json.dumps(encode(message)).encode() + b"\n")
    writer.flush()


def _hear(reader: IO[bytes], kind: type[T]) -> T:
    """Return the next handshake message.

    Raises EOFError or ValueError if no valid message is received.

    Unknown keys are ignored, because the versions of the suite are only compared after the
    handshake.
    """
    line = reader.readline(LINE_BYTES)
    if not line:
        raise EOFError
    try:
        message = json.loads(line)
    except RecursionError:  # the line consists of deeply nested brackets
        message = None
    return decode(kind, message, ignores_unknown=True)
