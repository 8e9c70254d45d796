"""Gloo's polling thread gets a lower scheduling priority. All other threads are unchanged."""

import os

from tests.frameworks_probe import probe


def test_only_the_polling_thread_has_the_batch_policy():
    found = probe("pytorch", "probes.pytorch_gloo.policies")
    groups = int(found["groups"])
    assert found["poller"].tolist() == [os.SCHED_BATCH] * groups
    assert len(found["named"]) == 2 * groups
    assert {*found["named"].tolist(), *found["own"].tolist()} == {os.SCHED_OTHER}
