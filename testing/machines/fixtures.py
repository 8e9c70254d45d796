"""Fixtures for virtual machines. tests/conftest.py makes them available to all tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testing.machines import needs
from testing.machines import slurm as slurm_daemons
from testing.machines import ssh as ssh_daemons
from testing.machines.machines import Machines

Make = Callable[..., Machines]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Make]:
    """Return `machines(count, rate=None, ssh=False, slurm=False)`, which starts nodes.

    The returned function also starts the requested daemons. The nodes stop at the end of the test.
    If a program or the permission to create namespaces is missing, the test is skipped, and the
    reason names the Debian package of the program.
    """
    with factory(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def machines_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Return a function like `machines`, for nodes that all tests of a file share."""
    with factory(tmp_path_factory.mktemp("machines")) as make:
        yield make


@contextlib.contextmanager
def factory(folder: Path) -> Iterator[Make]:
    """Yield a function that creates machines below `folder`.

    The fixtures return this function. All machines are stopped at the end of the `with` block.
    """
    with contextlib.ExitStack() as stack:
        numbers = iter(range(100))

        def make(
            count: int, rate: str | None = None, *, ssh: bool = False, slurm: bool = False
        ) -> Machines:
            require(ssh=ssh, slurm=slurm)
            path = folder / f"machines{next(numbers)}"
            path.mkdir()
            started = stack.enter_context(Machines.up(path, count, rate))
            serve(started, ssh=ssh, slurm=slurm)
            return started

        yield make


def require(*, ssh: bool = False, slurm: bool = False) -> None:
    """Skip the test if this machine cannot run virtual machines with these daemons."""
    groups = [group for group, wanted in ((needs.SSH, ssh), (needs.SLURM, slurm)) if wanted]
    if reason := needs.missing(*groups):
        pytest.skip(reason)


def serve(machines: Machines, *, ssh: bool = False, slurm: bool = False) -> None:
    """Start the requested daemons on the machines."""
    if ssh:
        ssh_daemons.start(machines)
    if slurm:
        slurm_daemons.start(machines)
