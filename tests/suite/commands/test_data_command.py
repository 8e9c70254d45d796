"""`suite data`: preparing, verifying, listing and generating data sets, and one-line errors."""

import json
from pathlib import Path

import pytest

from suite.cli import main

HEADER = "userId,movieId,rating,timestamp\n"


@pytest.fixture(autouse=True)
def data_root(tmp_path, monkeypatch) -> Path:
    root = tmp_path / "data root"
    monkeypatch.setenv("SUITE_DATA_DIR", str(root))
    return root


def write(folder: Path, ratings_per_user: int = 25) -> Path:
    path = folder / "ratings.csv"
    path.write_text(
        HEADER
        + "".join(f"{u},{i},4.0,{i}\n" for u in range(1, 6) for i in range(u, u + ratings_per_user))
    )
    return path


def suite(*arguments: object) -> int:
    return main([str(word) for word in ("data", *arguments)])


def refused(capsys, *arguments: object) -> str:
    assert suite(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("suite data: ")
    return captured.err


def test_prepare_verify_and_list_report_a_data_set(tmp_path, data_root, capsys):
    assert suite("prepare", "ml-1m", "--from", write(tmp_path)) == 0
    out = capsys.readouterr().out
    assert (
        "5 users, 29 items, 120 training positives, one test item per user, in"
        f" {data_root / 'ml-1m'}" in out
    )
    assert "notice: counts differ from the published ml-1m" in out
    assert suite("prepare", "ml-1m", "--from", write(tmp_path)) == 0
    assert "already prepared" in capsys.readouterr().out
    assert suite("verify", "ml-1m") == 0
    assert "sound" in capsys.readouterr().out
    assert suite("list") == 0
    states = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert " prepared " in states["ml-1m"]
    assert "not prepared" in states["ml-20m"]
    assert str(data_root / "ml-demo") in states["ml-demo"]


EVIL = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202e"


def test_escapes_in_a_manifest_do_not_reach_the_terminal(tmp_path, data_root, capsys):
    assert suite("prepare", "ml-1m", "--from", write(tmp_path)) == 0
    path = data_root / "ml-1m" / "manifest.json"
    content = json.loads(path.read_text())
    content |= {"notes": [f"{EVIL}\nnew line"], "source": {**content["source"], "name": EVIL}}
    path.write_text(json.dumps(content))
    capsys.readouterr()
    assert suite("verify", "ml-1m") == 0
    content["dataset"] = EVIL
    path.write_text(json.dumps(content))
    assert suite("verify", "ml-1m") == 2
    write(tmp_path, 30)
    assert suite("prepare", "ml-1m", "--from", write(tmp_path, 30)) == 2
    captured = capsys.readouterr()
    for line in (captured.out + captured.err).splitlines():
        assert line.isprintable()
        assert "\x1b" not in line
    assert "red" in captured.out
    assert captured.err.count("]0;title") >= 2


@pytest.mark.parametrize(
    "content", ["[]", '{"schema": 1, "counts": 5}', "\x1b[31m", '{"options": {"kind": ["images"]}}']
)
def test_a_damaged_manifest_is_one_line(tmp_path, data_root, capsys, content):
    (data_root / "ml-1m").mkdir(parents=True)
    (data_root / "ml-1m" / "manifest.json").write_text(content)
    assert suite("list") == 0
    capsys.readouterr()
    assert "manifest.json: " in refused(capsys, "verify", "ml-1m")
    assert "manifest.json: " in refused(capsys, "prepare", "ml-1m", "--from", write(tmp_path))


def test_options_to_and_min_ratings_are_used(tmp_path, data_root, capsys):
    source = write(tmp_path, ratings_per_user=6)
    assert "no user has 20 ratings" in refused(
        capsys, "prepare", "ml-100k", "--from", source, "--to", tmp_path / "x"
    )
    assert (
        suite("prepare", "ml-100k", "--from", source, "--to", tmp_path / "x", "--min-ratings", 5)
        == 0
    )
    assert (tmp_path / "x" / "train_user.npy").exists()
    assert not data_root.exists()
    assert suite("verify", "ml-100k", "--to", tmp_path / "x") == 0
    capsys.readouterr()
    assert "--min-ratings 1" in refused(
        capsys, "prepare", "ml-100k", "--from", source, "--min-ratings", 1
    )


def test_make_demo_generates_a_data_set_once(data_root, capsys):
    assert suite("make-demo", "ml-demo") == 0
    assert "2,000 users" in capsys.readouterr().out
    assert (data_root / "ml-demo" / "raw" / "ratings.csv").exists()
    assert suite("make-demo", "ml-demo") == 0
    assert "already generated" in capsys.readouterr().out


def test_mistakes_are_one_line(tmp_path, data_root, capsys):
    source = write(tmp_path)
    assert "did you mean 'ml-20m'" in refused(capsys, "prepare", "ml-20", "--from", source)
    assert "no such file" in refused(capsys, "prepare", "ml-20m", "--from", tmp_path / "nowhere")
    assert "suite data prepare ml-20m --from" in refused(capsys, "verify", "ml-20m")
    assert "cannot be generated" in refused(capsys, "make-demo", "ml-20m")
    assert "make-demo ml-demo" in refused(capsys, "prepare", "ml-demo", "--from", source)
    assert "is not a folder" in refused(
        capsys, "prepare", "ml-20m", "--from", source, "--to", source
    )
    assert "ratings.csv" in refused(
        capsys, "prepare", "ml-1m", "--from", source, "--to", source / "ml-1m"
    )
    assert "--min-ratings is not an option of imagenet" in refused(
        capsys, "prepare", "imagenet", "--from", "x", "--min-ratings", 3
    )
    source.write_text(HEADER + "1,2\n")
    assert "ratings.csv, line 2: expected 4 fields" in refused(
        capsys, "prepare", "ml-20m", "--from", source
    )
    source.write_text(HEADER + "1,2,3,4\n")
    assert "user 1 has 1 rating" in refused(capsys, "prepare", "ml-20m", "--from", source)


@pytest.mark.parametrize(
    "arguments", [[], ["prepare"], ["prepare", "ml-20m"], ["frobnicate"], ["verify"]]
)
def test_incomplete_commands_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        suite(*arguments)
    assert caught.value.code == 2
