import json
import os
from pathlib import Path

import pytest

from workloads.common import manifest as manifests
from workloads.common.manifest import Manifest


def make(destination: Path, content: str = "x", source: str = "s") -> Manifest:
    with manifests.workspace(destination) as folder:
        (folder / "raw").mkdir()
        (folder / "a.bin").write_text(content)
        (folder / "raw" / "b.txt").write_text("b")
        manifest = Manifest("toy", {"sha256": source}, {"n": 1}, {"rows": 3}, ["note"])
        return manifests.publish(folder, destination, manifest)


def test_publish_read_verify(tmp_path):
    made = make(tmp_path / "deep" / "toy")
    assert manifests.read(tmp_path / "deep" / "toy") == made
    assert sorted(made.files) == ["a.bin", "raw/b.txt"]
    assert len(manifests.verify(tmp_path / "deep" / "toy", made)) == 2
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["toy"]


def test_the_fingerprint_is_of_the_files_alone(tmp_path):
    one, same, other = make(tmp_path / "a"), make(tmp_path / "b", source="else"), make(tmp_path / "c", "y")
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_nothing_is_left_when_the_work_fails(tmp_path):
    def work():
        with manifests.workspace(tmp_path / "toy") as folder:
            (folder / "a.bin").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_manifest_keeps_its_files(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "download.zip").write_text("mine")
    (tmp_path / "toy" / "a.bin").write_text("mine as well")
    with pytest.raises(ValueError, match=r"a\.bin is there already"):
        make(tmp_path / "toy")
    (tmp_path / "toy" / "a.bin").unlink()
    made = make(tmp_path / "toy")
    (tmp_path / "toy" / manifests.NAME).unlink()
    assert make(tmp_path / "toy") == made, "what a killed preparation left is the same"
    assert (tmp_path / "toy" / "download.zip").read_text() == "mine"
    manifests.verify(tmp_path / "toy", made)


def test_the_same_preparation_twice_is_one_and_another_is_refused(tmp_path):
    assert make(tmp_path / "toy") == make(tmp_path / "toy")
    with pytest.raises(ValueError, match=r"another preparation; .* --to"):
        make(tmp_path / "toy", content="y")
    assert (tmp_path / "toy" / "a.bin").read_text() == "x"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "a.bin").unlink(), r"a\.bin: missing"),
        (lambda folder: (folder / "a.bin").write_text("xx"), r"a\.bin: 2 bytes instead of 1"),
        (lambda folder: (folder / "a.bin").write_text("y"), r"a\.bin: content differs"),
    ],
)
def test_verify_names_the_bad_file(tmp_path, damage, message):
    made = make(tmp_path / "toy")
    damage(tmp_path / "toy")
    with pytest.raises(ValueError, match=message):
        manifests.verify(tmp_path / "toy", made)


class Toy(manifests.Prepared):
    name = "toy"
    prepare = None

    def how(self):
        return "suite data make-demo toy"


@pytest.mark.parametrize("large", [False, True])
def test_what_was_changed_after_preparation_is_refused_with_what_to_type(tmp_path, monkeypatch, large):
    """Of large data sets only what is newer than the manifest is read."""
    folder = tmp_path / "toy"
    make(folder)
    monkeypatch.setattr(manifests, "DIGESTED_BYTES", 0 if large else 1)
    Toy().check(folder)
    (folder / "a.bin").write_text("y")
    written = (folder / manifests.NAME).stat().st_mtime_ns
    os.utime(folder / "a.bin", ns=(written + 1, written + 1))
    with pytest.raises(ValueError, match=r"a\.bin: content differs .*: suite data make-demo toy$"):
        Toy().check(folder)
    os.utime(folder / "a.bin", ns=(written - 1, written - 1))  # the system still notes when that was
    with pytest.raises(ValueError, match="content differs"):
        Toy().check(folder)
    (folder / "a.bin").write_text("yy")
    with pytest.raises(ValueError, match="2 bytes instead of 1"):
        Toy().check(folder)


def test_random_blocks_of_large_data_are_read_whatever_their_times_say(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "DIGESTED_BYTES", 0)
    monkeypatch.setattr(manifests, "BLOCK_BYTES", 4)
    folder = tmp_path / "toy"
    manifest = make(folder, content="abcdefghij")
    assert [len(entry["blocks"]) for entry in manifest.files.values()] == [3, 1]
    Toy().check(folder)
    (folder / "a.bin").write_text("abcdefghiX")
    os.utime(folder / manifests.NAME)  # newer than what was changed
    with pytest.raises(ValueError, match=r"a\.bin: content differs from the manifest at byte 8; .*make-demo toy$"):
        Toy().check(folder)
    monkeypatch.setattr(manifests, "SAMPLED_BLOCKS", 1)
    monkeypatch.setattr("random.sample", lambda blocks, count: blocks[:count])
    Toy().check(folder)  # the first block is whole
    (folder / "a.bin").write_text("abcdefghij")
    Toy().verify(folder)
    times = [(folder / name).stat().st_mtime_ns for name in ("a.bin", manifests.NAME)]
    assert times == sorted(times)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '"x"', "{}", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "what": 2}', "\x00\xff"]
)
def test_a_broken_manifest_is_one_line(tmp_path, text):
    (tmp_path / manifests.NAME).write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"manifest\.json") as caught:
        manifests.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_changed_file_list_is_noticed(tmp_path):
    make(tmp_path / "toy")
    path = tmp_path / "toy" / manifests.NAME
    content = json.loads(path.read_text())
    content["files"]["a.bin"]["bytes"] = 5
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="fingerprint"):
        manifests.read(tmp_path / "toy")


def test_no_manifest_is_none_and_a_file_is_no_folder(tmp_path):
    assert manifests.read(tmp_path) is None
    assert manifests.read(tmp_path / "nowhere") is None
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="not a folder"):
        manifests.read(tmp_path / "file")
