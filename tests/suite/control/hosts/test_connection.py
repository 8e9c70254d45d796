"""The reason for a lost machine: the last line that its client printed."""

import pytest

from suite.control.hosts import launchers
from tests.helpers import wait_until
from tests.suite.control.hosts.test_launchers import LAUNCH


@pytest.mark.parametrize(
    ("stderr", "status"),
    [
        (
            (
                "srun: error: *** STEP 1.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME"
                " LIMIT ***"
            ),
            "interrupted",
        ),
        (
            "srun: Force Terminated StepId=1.0\nsalloc: Job allocation 1 has been revoked.",
            "interrupted",
        ),
        ("ssh: connect to host node1: Connection refused", "rank_died"),
    ],
)
def test_a_scheduler_that_ends_a_machine_interrupts(stderr, status):
    """Check the status, although the client prints the reason after the connection has closed."""
    connection = launchers.connect_agent(
        "node1", ["sh", "-c", f"exec >&-; sleep 0.3; echo '{stderr}' >&2; exit 1"], LAUNCH
    )
    try:
        lost = wait_until("the line ends", connection.failure)
        why = f"machine node1 is lost: sh ended with exit code 1: {stderr.splitlines()[-1]}"
        assert (lost.status, lost.reason) == (status, why)
    finally:
        connection.close()
