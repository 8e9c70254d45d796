"""Warnings of a sweep."""

import logging

from suite.control.messages import said_once


def test_a_warning_is_said_once_and_again_by_the_next_command(caplog):
    log = logging.getLogger("suite.environments.environment")
    for _ in range(2):
        with said_once(log.name):
            for name in ("torch", "torch", "mxnet-cpu", "torch"):
                log.warning("environment %s is outdated", name)
    texts = [record.getMessage() for record in caplog.records]
    assert texts == ["environment torch is outdated", "environment mxnet-cpu is outdated"] * 2


def test_afterwards_everything_is_said(caplog):
    log = logging.getLogger("suite.environments.environment")
    with said_once(log.name):
        log.warning("first")
    for _ in range(2):
        log.warning("first")
    assert len(caplog.records) == 3
