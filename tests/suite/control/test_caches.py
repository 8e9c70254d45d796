"""`cache_clear`, checked with the kernel's page cache: no file stays in memory after clearing."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.common import registry
from suite.common.run_config import SystemConfig
from suite.control import caches
from suite.results.logs.reader import read
from tests.helpers import PROJECT, TOY_RUN, events, only, python, run_suite_here, status
from tests.workloads.resnet50 import synthetic_images as synthetic

PAGE = os.sysconf("SC_PAGE_SIZE")
SHM = Path("/dev/shm")
TRAIN, VAL = 60, 23


def written(path, pages):
    with open(path, "wb") as file:
        file.write(os.urandom(pages * PAGE))
        os.fsync(file.fileno())
    return path


def drop(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_page(path, number):
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        assert len(os.pread(file.fileno(), 1, number * PAGE)) == 1


def drops_pages(folder):
    path = written(folder / "probe", 16)
    try:
        drop(path)
        return caches.resident_pages(path) == (0, 16)
    finally:
        path.unlink()


@pytest.fixture
def disk(tmp_path):
    """Return a folder on a file system whose pages can be dropped.

    Without such a file system, a test could only check that `clear` reports the resident pages.
    """
    with contextlib.ExitStack() as stack:
        for parent in (tmp_path, PROJECT, Path("/var/tmp"), Path.home()):
            if not os.access(parent, os.W_OK):
                continue
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(dir=parent, prefix=".caches-"))
            )
            if drops_pages(folder):
                yield folder
                return
        pytest.fail(
            "no folder here is on a file system that drops pages: temporary files, the project,"
            " /var/tmp, home"
        )


@pytest.fixture
def images(disk):
    """Return the settings of a prepared data set whose images are next to the prepared folder."""
    folder, _ = synthetic.prepare(disk, TRAIN, VAL)
    return replace(synthetic.settings(folder), dataset="imagenet")


def files_of(settings):
    return list(registry.load_dataset(settings.dataset).files(Path(settings.data_dir)))


def read_all(paths):
    for path in paths:
        Path(path).read_bytes()


def resident(paths):
    return tuple(map(sum, zip(*map(caches.resident_pages, paths), strict=True)))


def cleared(settings, **system):
    return caches.clear(SystemConfig(**system), settings.dataset, settings.data_dir)


@contextlib.contextmanager
def held(path):
    program = (
        "import mmap, sys; file = open(sys.argv[1], 'rb'); held = mmap.mmap(file.fileno(), 0,"
        " flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ); print('held',"
        " flush=True); sys.stdin.read()"
    )
    with python(program, path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield


def test_resident_pages_are_those_that_were_read(disk, monkeypatch):
    monkeypatch.setattr(caches, "PAGES_AT_ONCE", 16)
    path = written(disk / "file", 100)
    drop(path)
    assert caches.resident_pages(path) == (0, 100)
    assert caches.resident_pages(path) == (0, 100)  # the query itself reads no page
    for count, number in enumerate((0, 17, 63, 99), start=1):
        read_page(path, number)
        assert caches.resident_pages(path) == (count, 100)


def test_resident_pages_of_files_of_odd_sizes(disk):
    (disk / "empty").touch()
    assert caches.resident_pages(disk / "empty") == (0, 0)
    (disk / "odd").write_bytes(bytes(3 * PAGE + 1))
    assert caches.resident_pages(disk / "odd") == (4, 4)
    with pytest.raises(FileNotFoundError):
        caches.resident_pages(disk / "none")


def test_the_list_of_files_contains_every_file_that_a_run_reads(images):
    folder = Path(images.data_dir)
    outside = {str(path) for path in (folder.parent / "images").rglob("*.JPEG")}
    below = {str(path) for path in folder.rglob("*") if path.is_file()}
    assert len(outside) == TRAIN + VAL
    names = files_of(images)
    assert set(names) == outside | below
    # Listing the images reads the index, so the index must be dropped after them.
    assert set(names[: len(outside)]) == outside
    assert len(names) == len(outside | below)


@pytest.mark.parametrize("place", ["next to", "inside"])
def test_images_leave_memory_and_are_named_once(images, place):
    """Check images next to the prepared folder, and inside it as for generated data."""
    folder = Path(images.data_dir)
    if place == "inside":
        os.replace(folder.parent / "images", folder / "images")
        content = json.loads((folder / "manifest.json").read_text())
        content["options"]["images"] = "images"
        (folder / "manifest.json").write_text(json.dumps(content))
    names = files_of(images)
    assert len(names) == len(set(names)) > TRAIN + VAL
    read_all(names)
    here, pages = resident(names)
    assert here == pages > TRAIN + VAL
    assert cleared(images) == (True, "")
    assert resident(names) == (0, pages)


def test_dirty_pages_leave_memory(images):
    late = Path(images.data_dir) / "late.npy"
    late.write_bytes(bytes(300 * PAGE))
    assert cleared(images) == (True, "")
    assert caches.resident_pages(late) == (0, 300)


@pytest.mark.parametrize("which", ["an image", "the index"])
def test_a_file_that_another_process_has_mapped_is_reported(images, which):
    names = files_of(images)
    path = (
        names[TRAIN // 2] if which == "an image" else str(Path(images.data_dir) / "train_names.npy")
    )
    with held(path):
        done, text = cleared(images)
        assert (done, "\n" in text) == (False, False)
        pages = caches.resident_pages(path)[1]
        assert re.search(rf"\b1 of [\d,]+ checked files are still in memory \({pages} of", text)
        assert path in text
    assert cleared(images) == (True, "")


def test_one_small_resident_file_next_to_a_large_file_is_detected(images):
    written(Path(images.data_dir) / "large.npy", 3000)
    with held(Path(images.data_dir) / "classes.txt"):
        assert not cleared(images)[0]
    assert cleared(images)[0]


def test_a_resident_part_of_one_large_file_is_detected(images, monkeypatch):
    large = written(Path(images.data_dir) / "large.npy", 3000)
    real = caches._kept

    def read_some(paths, count):
        for number in range(count):
            read_page(large, 7 * number)
        return real(paths)

    monkeypatch.setattr(caches, "_kept", lambda paths: read_some(paths, 2))
    assert cleared(images)[0]
    monkeypatch.setattr(caches, "_kept", lambda paths: read_some(paths, 300))
    assert not cleared(images)[0]


DROP = """
import os, pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*"):
    if path.is_file():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
"""


@pytest.mark.parametrize("program", ["", DROP], ids=["clears nothing", "clears"])
def test_the_page_cache_is_checked_after_a_user_defined_command(images, program):
    names = files_of(images)
    read_all(names)
    pages = resident(names)[1]
    command = [sys.executable, "-c", program, str(Path(images.data_dir).parent)]
    done, text = cleared(images, cache_clear_command=command)
    assert done is bool(program)
    assert f"({pages:,} of {pages:,} pages)" in text or done
    assert resident(names) == (0 if done else pages, pages)


def test_a_command_that_fails_ends_the_sweep(images):
    with pytest.raises(ValueError, match=r"^system\.cache_clear_command: "):
        cleared(images, cache_clear_command=["false"])


@pytest.mark.parametrize("works", [True, False])
def test_the_page_cache_is_checked_after_dropping_all_caches(images, monkeypatch, works):
    names = files_of(images)
    read_all(names)
    # Dropping all caches for real would slow down every process of this machine.
    monkeypatch.setattr(caches, "_drop_everything", lambda: [drop(path) for path in names if works])
    assert cleared(images, drop_caches=True)[0] is works


def test_synthetic_data_has_nothing_to_clear(images):
    synthetic_data = replace(images, profile="synthetic", data_dir="")
    assert cleared(synthetic_data) == (False, "")
    assert cleared(synthetic_data, cache_clear_command=["true"]) == (False, "")


def test_a_missing_image_does_not_fail_the_clearing(images):
    Path(files_of(images)[0]).unlink()
    assert cleared(images) == (True, "")


@pytest.mark.skipif(not os.path.ismount(SHM), reason="no file system in memory here")
def test_files_on_tmpfs_cannot_be_cleared(tmp_path):
    with tempfile.TemporaryDirectory(dir=SHM) as folder:
        prepared, _ = synthetic.prepare(Path(folder), 6, 5)
        done, text = cleared(replace(synthetic.settings(prepared), dataset="imagenet"))
    assert (done, "\n" in text, "on tmpfs: " in text) == (False, False, True)


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 200, 201, 12_345])
def test_a_sample_is_full_and_random(count):
    def sampled():
        sample = caches.CacheSample(100)
        for number in range(count):
            sample.add(str(number))
        return sorted(int(path) for path in sample.paths)

    numbers = sampled()
    assert len(set(numbers)) == len(numbers) == min(count, 100)
    if count == 12_345:
        assert numbers != sampled()
        assert len(set(np.diff(numbers))) > 10
        parts = np.histogram(
            np.concatenate([sampled() for _ in range(50)]), bins=10, range=(0, count)
        )[0]
        assert (abs(parts - 500) < 130).all()  # six standard deviations


def test_all_files_are_dropped_and_not_only_the_sample(images, monkeypatch):
    assert 1 / (caches.SAMPLED_INSIDE + caches.SAMPLED_ELSEWHERE) > caches.MAX_RESIDENT
    monkeypatch.setattr(caches, "FILES_AT_ONCE", 4)
    monkeypatch.setattr(caches, "SAMPLED_ELSEWHERE", 10)
    names = files_of(images)
    read_all(names)
    found = caches.Files(images.data_dir, iter(names))
    os.sync()
    found.drop()
    assert resident(names)[0] == 0
    elsewhere = [path for path in found.sample() if not path.startswith(images.data_dir)]
    assert len(elsewhere) == 10
    assert set(elsewhere) < set(names[: TRAIN + VAL])


@pytest.mark.slow
def test_the_log_records_whether_the_caches_were_cleared(disk):
    logs = []
    for name in ("free", "held"):
        with contextlib.ExitStack() as stack:
            if name == "held":
                stack.enter_context(held(disk / "data" / "toy-demo" / "x.npy"))
            done = run_suite_here(disk, *TOY_RUN, f"output={disk / name}", toy=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("x.npy" in done.stdout) == (name == "held")
        logs.append(only((disk / name).glob("*/run_0")))
    found = [
        {key: value for key, value, _ in events(folder / "result_0.txt")}["cache_clear"]
        for folder in logs
    ]
    assert found == [True, False]
    assert [
        json.loads((folder / "run.json").read_text())["cache_cleared"] for folder in logs
    ] == found


def test_data_that_changed_after_preparation_are_refused(images):
    path = Path(images.data_dir) / "train_names.npy"
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(
        ValueError, match=r"train_names\.npy: content differs .*: suite data prepare imagenet"
    ):
        cleared(images)


def swap_by_writing(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def swap_and_set_the_time_back(path):
    before = path.stat()
    swap_by_writing(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swap_by_renaming(path):
    content = path.read_bytes()
    path.rename(path.with_name("kept"))
    path.write_bytes(content)


def swap_by_a_link(path):
    path.rename(path.with_name("kept"))
    path.symlink_to(path.with_name("other"))
    path.with_name("other").write_bytes(path.with_name("kept").read_bytes())


def swap_the_folder(path):
    folder = path.parent
    shutil.copytree(folder, folder.with_name("copy"), copy_function=shutil.copy2)
    folder.rename(folder.with_name("original"))
    folder.with_name("copy").rename(folder)


SWAPS = {
    "written": swap_by_writing, "written, the time set back": swap_and_set_the_time_back,
    "another file": swap_by_renaming, "a link": swap_by_a_link, "removed": Path.unlink,
    "the whole folder": swap_the_folder,
}  # fmt: skip


@pytest.mark.parametrize("name", ["train_names.npy", "classes.txt"])
@pytest.mark.parametrize("how", SWAPS)
def test_data_that_the_command_swaps_are_refused(images, monkeypatch, how, name):
    path = Path(images.data_dir) / name
    monkeypatch.setattr(caches, "_command", lambda command: SWAPS[how](path))
    with pytest.raises(
        ValueError,
        match=r"^system\.cache_clear_command changed the data set: .* the file that was checked",
    ):
        cleared(images, cache_clear_command=["swap"])


def test_a_manifest_that_the_command_edits_is_refused(images):
    command = ["sh", "-c", f"echo >> {Path(images.data_dir) / 'manifest.json'}"]
    with pytest.raises(ValueError, match=r"changed the data set: .*manifest\.json"):
        cleared(images, cache_clear_command=command)


@pytest.mark.parametrize("how", SWAPS)
def test_a_swap_during_the_run_is_found_when_it_has_ended(images, how):
    path = Path(images.data_dir) / "train_names.npy"
    states = caches.clear_and_watch(SystemConfig(), images.dataset, images.data_dir).states
    read_all(files_of(images))
    os.utime(Path(images.data_dir) / "manifest.json")  # as `suite data verify` does
    assert states.find_change() == ""
    SWAPS[how](path)
    assert states.find_change().startswith(images.data_dir)


@pytest.mark.slow
def test_data_swapped_by_the_command_never_train_a_model(disk):
    run_suite_here(disk, *TOY_RUN, f"output={disk / 'first'}", toy=True, exits=0)
    data = disk / "data" / "toy-demo" / "x.npy"
    command = f"system.cache_clear_command=[touch,{data}]"
    done = run_suite_here(disk, *TOY_RUN, f"output={disk / 'second'}", command, toy=True, exits=2)
    assert f"changed the data set: {data}" in done.stderr
    assert not list((disk / "second").glob("*/run_0/result_0.txt"))


@pytest.mark.slow
def test_data_swapped_while_a_run_trains_make_it_open(disk):
    run_suite_here(disk, *TOY_RUN, f"output={disk / 'first'}", toy=True, exits=0)
    data = disk / "data" / "toy-demo" / "x.npy"
    later = f"system.cache_clear_command=[sh,-c,'(sleep 1.5; touch {data}) >/dev/null 2>&1 &']"
    slow = ("workload.misbehave=sleep", "stop=steps:16")
    done = run_suite_here(
        disk, *TOY_RUN, *slow, f"output={disk / 'second'}", later, toy=True, exits=0
    )
    assert f"division open: the data set changed during the run: {data}" in done.stdout.replace(
        "\n", ""
    )
    log = only((disk / "second").glob("*/run_0")) / "result_0.txt"
    (line,) = [value for key, value, _ in events(log) if key == "suite_open"]
    assert line["reasons"] == [f"the data set changed during the run: {data}"]
    assert status(log.parent)["open_reasons"] == line["reasons"]
    assert [fact["code"] for fact in line["deviation_facts"]] == ["data_changed"]
    assert read(log).division == "open"
