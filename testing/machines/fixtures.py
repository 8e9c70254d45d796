"""Fixtures of machines; tests/conftest.py hands them to all tests."""

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
    """`machines(count, rate=None, ssh=False, slurm=False)`: nodes that live as long as the test,
    with these daemons.

    Skips the test, naming what is missing here: the Debian package of a program, or the right to
    make namespaces.
    """
    with made(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def machines_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """The same for nodes that all tests of a file use."""
    with made(tmp_path_factory.mktemp("machines")) as make:
        yield make


@contextlib.contextmanager
def made(folder: Path) -> Iterator[Make]:
    """What the fixtures give; below `folder`, to be ended together."""
    with contextlib.ExitStack() as stack:
        numbers = iter(range(100))

        def make(
            count: int, rate: str | None = None, *, ssh: bool = False, slurm: bool = False
        ) -> Machines:
            require(ssh=ssh, slurm=slurm)
            own = folder / f"machines{next(numbers)}"
            own.mkdir()
            up = stack.enter_context(Machines.up(own, count, rate))
            serve(up, ssh=ssh, slurm=slurm)
            return up

        yield make


def require(*, ssh: bool = False, slurm: bool = False) -> None:
    """Skip the test if such machines cannot be had here."""
    groups = [group for group, wanted in ((needs.SSH, ssh), (needs.SLURM, slurm)) if wanted]
    if reason := needs.missing(*groups):
        pytest.skip(reason)


def serve(machines: Machines, *, ssh: bool = False, slurm: bool = False) -> None:
    """Start these daemons."""
    if ssh:
        ssh_daemons.start(machines)
    if slurm:
        slurm_daemons.start(machines)
