"""Gloo's polling thread gives way to those that it works for, and nothing else is changed."""

import os

from tests.frameworks_probe import probe


def test_the_poller_alone_is_a_batch_thread():
    found = probe("pytorch", "probes.pytorch_gloo.policies")
    groups = int(found["groups"])
    assert found["poller"].tolist() == [os.SCHED_BATCH] * groups
    assert len(found["named"]) == 2 * groups
    assert {*found["named"].tolist(), *found["own"].tolist()} == {os.SCHED_OTHER}
