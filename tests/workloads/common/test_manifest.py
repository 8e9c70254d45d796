import contextlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples, json_values
from workloads.common import manifest as manifests
from workloads.common.manifest import Manifest


def make(destination: Path, content: str = "x", source: str = "s") -> Manifest:
    with manifests.workspace(destination) as folder:
        (folder / "raw").mkdir()
        (folder / "a.bin").write_text(content)
        (folder / "raw" / "b.txt").write_text("b")
        manifest = Manifest("toy", {"sha256": source}, {"n": 1}, {"rows": 3}, ["note"])
        return manifests.publish(folder, destination, manifest)


def test_a_manifest_is_published_read_and_verified(tmp_path):
    manifest = make(tmp_path / "deep" / "toy")
    assert manifests.read(tmp_path / "deep" / "toy") == manifest
    assert sorted(manifest.files) == ["a.bin", "raw/b.txt"]
    assert len(manifests.verify(tmp_path / "deep" / "toy", manifest)) == 2
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["toy"]


def test_the_fingerprint_depends_only_on_the_files(tmp_path):
    first, same_files, different_files = (
        make(tmp_path / "a"),
        make(tmp_path / "b", source="else"),
        make(tmp_path / "c", "y"),
    )
    assert first.fingerprint == same_files.fingerprint != different_files.fingerprint


def test_a_failed_preparation_leaves_no_files(tmp_path):
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
    with pytest.raises(ValueError, match=r"a\.bin already exists with different content"):
        make(tmp_path / "toy")
    (tmp_path / "toy" / "a.bin").unlink()
    manifest = make(tmp_path / "toy")
    (tmp_path / "toy" / manifests.NAME).unlink()
    assert make(tmp_path / "toy") == manifest, "files of a killed preparation are reused"
    assert (tmp_path / "toy" / "download.zip").read_text() == "mine"
    manifests.verify(tmp_path / "toy", manifest)


def test_an_equal_preparation_is_accepted_and_a_different_one_is_rejected(tmp_path):
    assert make(tmp_path / "toy") == make(tmp_path / "toy")
    with pytest.raises(ValueError, match=r"a different preparation. .* --to"):
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
    manifest = make(tmp_path / "toy")
    damage(tmp_path / "toy")
    with pytest.raises(ValueError, match=message):
        manifests.verify(tmp_path / "toy", manifest)


class Toy(manifests.Prepared):
    name = "toy"
    prepare = None

    def how(self):
        return "suite data make-demo toy"


@pytest.mark.parametrize("large", [False, True])
def test_a_file_changed_after_preparation_is_rejected_with_the_command_to_run(
    tmp_path, monkeypatch, large
):
    """Check that only files newer than the manifest are read if a data set is large."""
    folder = tmp_path / "toy"
    make(folder)
    monkeypatch.setattr(manifests, "DIGESTED_BYTES", 0 if large else 1)
    Toy().check(folder)
    (folder / "a.bin").write_text("y")
    written = (folder / manifests.NAME).stat().st_mtime_ns
    os.utime(folder / "a.bin", ns=(written + 1, written + 1))
    with pytest.raises(ValueError, match=r"a\.bin: content differs .*: suite data make-demo toy$"):
        Toy().check(folder)
    # The change time (ctime) of the file is still newer than the manifest.
    os.utime(folder / "a.bin", ns=(written - 1, written - 1))
    with pytest.raises(ValueError, match="content differs"):
        Toy().check(folder)
    (folder / "a.bin").write_text("yy")
    with pytest.raises(ValueError, match="2 bytes instead of 1"):
        Toy().check(folder)


def test_random_blocks_of_large_data_are_read_regardless_of_file_times(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "DIGESTED_BYTES", 0)
    monkeypatch.setattr(manifests, "BLOCK_BYTES", 4)
    folder = tmp_path / "toy"
    manifest = make(folder, content="abcdefghij")
    assert [len(entry["blocks"]) for entry in manifest.files.values()] == [3, 1]
    Toy().check(folder)
    (folder / "a.bin").write_text("abcdefghiX")
    # The manifest becomes newer than the changed file.
    os.utime(folder / manifests.NAME)
    with pytest.raises(
        ValueError, match=r"a\.bin: content differs from the manifest at byte 8. .*make-demo toy$"
    ):
        Toy().check(folder)
    monkeypatch.setattr(manifests, "SAMPLED_BLOCKS", 1)
    monkeypatch.setattr("random.sample", lambda blocks, count: blocks[:count])
    # The first block has not changed.
    Toy().check(folder)
    (folder / "a.bin").write_text("abcdefghij")
    Toy().verify(folder)
    times = [(folder / name).stat().st_mtime_ns for name in ("a.bin", manifests.NAME)]
    assert times == sorted(times)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '"x"',
        "{}",
        '{"schema": 2}',
        '{"schema": 1}',
        '{"schema": 1, "what": 2}',
        "\x00\xff",
    ],
)
def test_a_broken_manifest_is_rejected_in_one_line(tmp_path, text):
    (tmp_path / manifests.NAME).write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"manifest\.json") as caught:
        manifests.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_changed_file_list_is_detected(tmp_path):
    make(tmp_path / "toy")
    path = tmp_path / "toy" / manifests.NAME
    content = json.loads(path.read_text())
    content["files"]["a.bin"]["bytes"] = 5
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="fingerprint"):
        manifests.read(tmp_path / "toy")


def test_a_folder_without_a_manifest_is_accepted_and_a_file_is_rejected(tmp_path):
    assert manifests.read(tmp_path) is None
    assert manifests.read(tmp_path / "nowhere") is None
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="not a folder"):
        manifests.read(tmp_path / "file")


def change(folder, *keys, value):
    """Write a value into the manifest and update the fingerprint of its files."""
    path = folder / manifests.NAME
    content = json.loads(path.read_text())
    entry = content
    for key in keys[:-1]:
        entry = entry[key]
    entry[keys[-1]] = value
    if keys[0] == "files":
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            content["fingerprint"] = manifests.fingerprint(content["files"])
    path.write_text(json.dumps(content))
    return path


DIGEST = 64 * "a"
WRONG_TYPES = [
    (("dataset",), 5, "dataset: expected a string, got 5"),
    (("dataset",), None, "dataset: expected a string, got null"),
    (("source",), "x", 'source: expected an object, got "x"'),
    (("source", "name"), ["x"], 'source.name: expected a string, got ["x"]'),
    (("source", "bytes"), "5", 'source.bytes: expected an integer from 0 on, got "5"'),
    (("source", "sha256"), 5, "source.sha256: expected a string, got 5"),
    (("options",), [], "options: expected an object, got []"),
    (("options", "images"), 5, "options.images: expected a string, got 5"),
    (("options", "minimum_ratings"), "many",
     'options.minimum_ratings: expected an integer from 0 on, got "many"'),
    (("options", "languages"), "en", 'options.languages: expected a list, got "en"'),
    (("options", "languages"), ["en", 5], "options.languages[1]: expected a string, got 5"),
    (("counts",), [1], "counts: expected an object, got [1]"),
    (("counts", "rows"), 1.5, "counts.rows: expected an integer from 0 on, got 1.5"),
    (("counts", "rows"), True, "counts.rows: expected an integer from 0 on, got true"),
    (("counts", "rows"), -1, "counts.rows: expected an integer from 0 on, got -1"),
    (("counts", "rows"), 10**30,
     "counts.rows: expected an integer from 0 on, got 1000000000000000000000000000000"),
    (("counts", "a\x1b"), "x", 'counts."a\\u001b": expected an integer from 0 on, got "x"'),
    (("notes",), "note", 'notes: expected a list, got "note"'),
    (("notes",), [["note"]], 'notes[0]: expected a string, got ["note"]'),
    (("matches_published",), "yes", 'matches_published: expected true, false or null, got "yes"'),
    (("compared",), None, "compared: expected a string, got null"),
    (("files",), ["a.bin"], 'files: expected an object, got ["a.bin"]'),
    (("files", "a.bin"), DIGEST, f'files: a.bin: expected an object, got "{DIGEST[:39]}'),
    (("files", "a.bin"), {"bytes": 1}, "files: a.bin: no sha256"),
    (("files", "a.bin", "bytes"), "1",
     'files: a.bin.bytes: expected an integer from 0 on, got "1"'),
    (("files", "a.bin", "sha256"), 5,
     "files: a.bin.sha256: expected a SHA-256 of 64 hexadecimal digits, got 5"),
    (("files", "a.bin", "blocks"), [5],
     "files: a.bin.blocks[0]: expected a SHA-256 of 64 hexadecimal digits, got 5"),
    (("fingerprint",), 5, "fingerprint: expected a SHA-256 of 64 hexadecimal digits, got 5"),
    (("schema",), "1", 'schema: expected an integer from 0 on, got "1"'),
    (("schema",), 2, "expected schema 1, got 2"),
    (("what",), 1, 'unknown key "what", allowed: dataset, source,'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "value", "problem"), WRONG_TYPES, ids=lambda part: json.dumps(part)[:40]
)
def test_a_value_of_a_wrong_type_is_rejected_in_one_line(tmp_path, keys, value, problem):
    make(tmp_path / "toy")
    path = change(tmp_path / "toy", *keys, value=value)
    with pytest.raises(ValueError, match=r".") as caught:
        manifests.read(tmp_path / "toy")
    message = str(caught.value)
    assert message.startswith(f"{path}: not a manifest ({problem}")
    assert message.endswith(f". Remove {tmp_path / 'toy'} and prepare the data again")
    assert message.isprintable()


@pytest.mark.parametrize(
    "key", ["dataset", "source", "options", "counts", "files", "fingerprint", "schema"]
)
def test_a_missing_key_is_rejected_in_one_line(tmp_path, key):
    make(tmp_path / "toy")
    path = tmp_path / "toy" / manifests.NAME
    content = json.loads(path.read_text())
    del content[key]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"not a manifest \(no {key}\)"):
        manifests.read(tmp_path / "toy")


KEYS = [("dataset",), ("source",), ("source", "name"), ("options",), ("options", "images"),
        ("counts",), ("counts", "rows"), ("notes",), ("matches_published",), ("compared",),
        ("files",), ("files", "a.bin"), ("files", "a.bin", "bytes"), ("files", "a.bin", "blocks"),
        ("fingerprint",), ("schema",)]  # fmt: skip


@examples(150)
@given(st.sampled_from(KEYS), json_values(6))
def test_any_value_at_any_key_is_read_or_rejected_in_one_line(tmp_path_factory, keys, value):
    folder = tmp_path_factory.mktemp("manifests") / "toy"
    make(folder)
    change(folder, *keys, value=value)
    manifest, error = None, ""
    try:
        manifest = manifests.read(folder)
    except ValueError as refusal:
        error = str(refusal)
    assert "\n" not in error
    if manifest is not None:
        assert all(line.isprintable() for line in (*manifest.notices, *manifests.notes(manifest)))
        with contextlib.suppress(ValueError):
            Toy().verify(folder)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../outside",
        "raw/../../outside",
        "..",
        ".",
        "",
        "raw//b.txt",
        "./a.bin",
        "raw/",
        "a\x1b[31m",
        "a\nb",
        "x" * 256,
        "\u00e4" * 128,
        "raw/" + "x" * 5000,
        "x/" * 600 + "x",
        manifests.NAME,
    ],
)
def test_names_of_files_outside_the_folder_are_rejected(tmp_path, name):
    (tmp_path / "outside").write_text("x")
    manifest = make(tmp_path / "toy")
    change(
        tmp_path / "toy", "files", value={**manifest.files, name: {"bytes": 1, "sha256": DIGEST}}
    )
    with pytest.raises(ValueError, match=r"not a manifest \(files: ") as caught:
        manifests.read(tmp_path / "toy")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_links_to_the_outside_of_the_folder_are_rejected(tmp_path, is_folder, is_absolute):
    make(tmp_path / "toy")
    path = tmp_path / "toy" / ("raw" if is_folder else "a.bin")
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside" if is_absolute else "../outside")
    for read in (Toy().verify, Toy().check):
        with pytest.raises(
            ValueError,
            match=rf": a link to {tmp_path}/outside.*, outside of .*. Replace the link by the file",
        ):
            read(tmp_path / "toy")


def test_links_inside_the_folder_and_to_the_folder_are_accepted(tmp_path):
    make(tmp_path / "elsewhere" / "toy")
    (tmp_path / "toy").symlink_to(tmp_path / "elsewhere" / "toy")
    (tmp_path / "toy" / "a.bin").rename(tmp_path / "toy" / "moved")
    (tmp_path / "toy" / "a.bin").symlink_to("moved")
    Toy().check(tmp_path / "toy")
    assert Toy().verify(tmp_path / "toy")


def test_text_of_a_manifest_is_printed_without_escape_sequences(tmp_path):
    make(tmp_path / "toy")
    evil = "\x1b]0;title\x07\x1b[31mred\u202e\nnew\x9b2J"
    change(tmp_path / "toy", "notes", value=[evil])
    change(tmp_path / "toy", "compared", value=evil)
    manifest = manifests.read(tmp_path / "toy")
    for text in (*manifest.notices, *manifests.notes(manifest), manifest.compared):
        assert text.isprintable()
        assert "red" in text
