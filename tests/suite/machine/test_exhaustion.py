"""The run that is ended before a machine has no memory left, with a fake /proc and this machine."""

import os
import re

import psutil
import pytest

from suite.machine import exhaustion
from tests.suite.machine.tree import tree

KIB_OF_GIB = 1 << 20


@pytest.fixture
def machine(tmp_path):
    """Return a function that writes /proc of a machine with 16 GiB and two processes.

    Its arguments are the available memory and the memory of each process.
    """

    def write_proc(left_gib, process_gib):
        meminfo = {"MemTotal": 16, "MemFree": 0, "MemAvailable": left_gib}
        lines = [f"{name}: {int(size * KIB_OF_GIB):>15} kB" for name, size in meminfo.items()]
        pages = int(process_gib * (1 << 30)) // os.sysconf("SC_PAGE_SIZE")
        files = {f"proc/{pid}/statm": f"{2 * pages} {pages} 7 1 0 9 0" for pid in (1, 2)}
        return tree(
            tmp_path, {**files, "proc/meminfo": "\n".join([*lines, "HugePages_Total:       0"])}
        )

    return write_proc


def test_only_a_run_that_exhausts_the_machine_itself_is_ended(machine, tmp_path):
    assert not exhaustion.exhausts([1], tmp_path)  # /proc has no figures
    assert not exhaustion.exhausts([1], machine(1, 14))  # enough memory is available
    assert not exhaustion.exhausts([1, 2, 3], machine(0.4, 3))  # other processes use the memory
    assert exhaustion.exhausts([1, 2, 3], machine(0.4, 7)) == (  # process 3 has ended
        "ended before the machine's memory was exhausted: this run used 14.0 GiB of 16.0 GiB, and"
        " 0.4 GiB were available"
    )


def test_the_figures_of_this_machine_agree_with_psutil(monkeypatch):
    monkeypatch.setattr(exhaustion, "LEFT_SHARE", 1.0)
    monkeypatch.setattr(exhaustion, "OWN_SHARE", 0.0)
    found = re.findall(r"([0-9.]+) GiB", exhaustion.exhausts([os.getpid()]))
    memory, used = psutil.virtual_memory(), psutil.Process().memory_info().rss
    expected = [used / 2**30, memory.total / 2**30, memory.available / 2**30]
    assert list(map(float, found)) == pytest.approx(expected, abs=1.0)
    assert float(found[1]) == pytest.approx(memory.total / 2**30, abs=0.06)
