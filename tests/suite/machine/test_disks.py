"""Detection of a full disk."""

import subprocess

import pytest

from suite.machine import disks


@pytest.fixture
def small(tmp_path):
    """Yield a function that mounts a file system of these options in memory."""

    def mount(options):
        tmp_path.joinpath("disk").mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(tmp_path / "disk")]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting a small file system needs root with CAP_SYS_ADMIN")
        return tmp_path / "disk"

    yield mount
    subprocess.run(["umount", "-l", str(tmp_path / "disk")], capture_output=True)


def test_a_disk_without_free_bytes_is_full(small, tmp_path):
    disk = small("size=2m")
    assert not disks.full(tmp_path / "nowhere", disk)
    (disk / "large").write_bytes(bytes((2 << 20) - 8192))
    assert disks.full(disk) == f"no space left in {disk} (8192 bytes free)"


def test_a_disk_without_free_inodes_is_full(small):
    disk = small("size=2m,nr_inodes=4")
    assert not disks.full(disk)
    for number in range(3):
        (disk / str(number)).touch()
    assert disks.full(disk) == f"no space left in {disk} (no free inodes)"


def test_a_read_only_file_system_is_not_full(small):
    assert not disks.full(small("size=64k,ro"))
