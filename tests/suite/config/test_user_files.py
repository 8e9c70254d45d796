"""Errors in user-defined files: one message with the file and the line, for every kind of file."""

import re
import time

import pytest

from suite.catalog.yaml_files import MAX_BYTES, parse_yaml, read_yaml
from tests.helpers import refusal, run_suite_here, suite_here

BOMB = (
    "a: &a ["
    + "x, " * 9
    + "x]\n"
    + "".join(
        f"{name}: &{name} [" + ", ".join([f"*{chr(ord(name) - 1)}"] * 10) + "]\n"
        for name in "bcdefghijklmnopqr"
    )
)
"""A YAML bomb: 1 kB of text whose aliases expand to 10^18 values."""
MISTAKES = {
    "quote": ('gpus: 1\nseed: "1\n', "line 3"),
    "tab": ("seed:\n\tx: 1\n", "line 2: a tab"),
    "twice": ("seed: 1\nruns: 2\nseed: 3\n", "line 3: the key seed occurs twice"),
    "tag": (
        "seed: !!python/object/apply:os.system ['true']\n",
        "line 1: could not determine a constructor for the tag",
    ),
    "number": ("seed: 1\nruns: !!int x\n", "line 2: x"),
    "NUL": ("seed: 1\nruns: \0\n", "line 2: the character U+0000"),
    "deep": ("seed: " + "[" * 20_000 + "]" * 20_000, "nested too deeply"),
    "anchor": ("seed: *nowhere\n", "line 1: found undefined alias 'nowhere'"),
    "bomb": (BOMB, "line 4: aliases (*NAME) repeat more than 10,000 values. Write fewer aliases"),
    "cycle": ("seed: &a [1, *a]\n", "line 1: an alias contains itself"),
    "documents": ("seed: 1\n---\nseed: 2\n", "line 2: but found another document"),
    "key": ("seed: 1\n? [a, b]\n: 2\n", "line 2: found unhashable key"),
    "Latin-1": (b"seed: 1\n# \xe9\n", "line 2: not UTF-8"),
    "large": ("#" * (MAX_BYTES + 1), "more than 262,144 bytes"),
    "text": ("hello\n", "lines of the form KEY: VALUE"),
}
KINDS = {
    "system": ("system/mine.yaml", ("system=mine",)),
    "set": ("hyperparameters/ncf/mine.yaml", ("workload.hyperparameter_set=mine",)),
    "study": ("study/mine.yaml", ("study=mine",)),
}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(tmp_path, *arguments):
    return refusal(
        run_suite_here(tmp_path, "workload=ncf", f"--config-dir={tmp_path / 'conf'}", *arguments)
    )


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_the_file_and_the_line(tmp_path, mistake):
    content, message = MISTAKES[mistake]
    for name, arguments in KINDS.values():
        path = write(tmp_path / "conf" / name, content)
        line = refused(tmp_path, "profile=demo", *arguments)
        assert path.stem in line
        assert message in line or (mistake, arguments) == ("text", ("study=mine",))
        path.unlink()
    path = write(tmp_path / "mine.yaml", content)
    for arguments in (
        ("check", "--rules", path, tmp_path),
        ("scaling", "demo", "--devices", "8", "--system", path),
    ):
        done = suite_here(tmp_path, *arguments)
        if arguments[0] == "check" and mistake == "twice":
            continue  # Rules may contain a key twice.
        assert str(path) in refusal(done)
        assert message in done.stderr or mistake == "text"


@pytest.mark.parametrize(
    ("defaults", "other_text", "message"),
    [
        *(
            (defaults, "defaults: [mine]\n", "includes this file again")
            for defaults in ("[mine]", "[other]", "[/system/mine]")
        ),
        *(
            (defaults, "", "must be a list of NAME or GROUP: NAME")
            for defaults in ("{a: b}", "[[mine]]")
        ),
        *(("[other]", text, "conf/system/other.yaml: ") for text in ("[1]\n", "text\n", "a: [\n")),
    ],
)
def test_cyclic_and_invalid_defaults_are_refused(tmp_path, defaults, other_text, message):
    write(tmp_path / "conf/system/mine.yaml", f"defaults: {defaults}\nname: a\n")
    write(tmp_path / "conf/system/other.yaml", other_text)
    line = refused(tmp_path, "system=mine")
    assert message in line
    assert "mine.yaml" in line or message.endswith("other.yaml: ")


def test_a_long_chain_of_defaults_is_refused(tmp_path):
    """Refuse long chains of defaults.

    Hydra reads each file again for every file above it, so 300 files would take minutes.
    """
    for number in range(300):
        write(tmp_path / f"conf/system/n{number}.yaml", f"defaults: [n{number + 1}]\n")
    assert "n10.yaml: a chain of defaults lists has more than 10 files" in refused(
        tmp_path, "system=n0"
    )


def test_defaults_include_other_files(tmp_path):
    write(tmp_path / "conf/system/mine.yaml", "defaults: [other]\nname: mine\n")
    write(tmp_path / "conf/system/other.yaml", "price_per_device_hour: 3\n")
    arguments = (
        "workload=ncf",
        "profile=demo",
        f"--config-dir={tmp_path / 'conf'}",
        "system=mine",
        "--cfg",
        "job",
    )
    shown = run_suite_here(tmp_path, *arguments, exits=0).stdout
    assert re.search(r"^  name: mine$(.|\n)*^  price_per_device_hour: 3", shown, re.MULTILINE)


def test_values_and_aliases_are_read_as_by_pyyaml(tmp_path):
    text = "a: &a {b: [1, 2.5, true, null, 2001-01-01x], c: 'x'}\nd: *a\n"
    assert read_yaml(write(tmp_path / "x", text))["d"] == {
        "b": [1, 2.5, True, None, "2001-01-01x"],
        "c": "x",
    }
    assert read_yaml(write(tmp_path / "x", "")) is None


def aliased(lists, length):
    """Return YAML with a list of `length` values, and `lists` lists with an alias of this list."""
    return f"a: &a [{', '.join(['1'] * length)}]\nb: [{', '.join(['[*a]'] * lists)}]\n"


def test_aliases_are_counted_over_the_whole_file(tmp_path):
    assert len(parse_yaml(aliased(90, 100), tmp_path)["b"]) == 90
    for lists, length in ((110, 100), (12_000, 5)):
        with pytest.raises(ValueError, match="line 2: aliases"):
            parse_yaml(aliased(lists, length), tmp_path)
    assert len(parse_yaml(f"a: [{'{a,b},' * 40_000}]", tmp_path)["a"]) == 40_000, (
        "values without aliases are not limited"
    )


def test_a_yaml_bomb_is_refused_immediately(tmp_path):
    assert 700 < len(BOMB) < 1100
    begin = time.monotonic()
    with pytest.raises(ValueError, match="aliases"):
        parse_yaml(BOMB, tmp_path)
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize("group", ["environment", "framework", "profile", "rounds"])
def test_no_group_of_the_configuration_reads_a_bomb(tmp_path, group):
    path = write(tmp_path / "conf" / group / "mine.yaml", BOMB)
    choices = {
        "framework": "pytorch",
        "profile": "demo",
        {"rounds": "rules"}.get(group, group): "mine",
    }
    arguments = [f"{key}={choice}" for key, choice in choices.items()]
    line = refused(tmp_path, *arguments)
    assert f"{path}: line 4: aliases" in line
