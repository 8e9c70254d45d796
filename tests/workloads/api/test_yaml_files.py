"""YAML with mistakes of every kind: one line with the file and the line, at once, whatever it would grow to."""

from itertools import pairwise

import pytest

from tests.helpers import cpu_seconds
from workloads.api.yaml_files import DEEPEST, MOST_BYTES, MOST_VALUES, read_yaml

TEN = "[x,x,x,x,x,x,x,x,x,x]"


def bomb(first, repeat):
    """Each anchor is ten of the one before."""
    lines = [
        f"{name}: &{name} {repeat.format(','.join([f'*{before}'] * 10))}\n"
        for before, name in pairwise("abcdefghi")
    ]
    return f"a: &a {first}\n{''.join(lines)}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 'x\nc: 2\n", "line 4: found unexpected end of stream, while scanning a quoted scalar that begins in line 2"),
        ("a:\n\tb: 1\n", "line 2: a tab; indent with spaces"),
        ("a: 1\nb: c: d\n", "line 2: mapping values are not allowed"),
        ("a: 1\nb: {c: 1,\n c: 2}\n", "line 3: c: stands there twice"),
        ("a: 1\nb: !foo 2\n", "line 2: the tag !foo is not known"),
        ("a: !!python/object/apply:os.system [id]\n", "line 1: the tag tag:yaml.org,2002:python/"),
        ("a: 1\nb: x\0y\n", r"line 2: the character U\+0000"),
        (b"a: 1\nb: \xff\n", "line 2: not UTF-8"),
        ("a: " + "[" * 20_000, f"line 1: more than {DEEPEST} lists"),
        ("a: " + "[" * 20_000 + "]" * 20_000, f"line 1: more than {DEEPEST} lists"),
        ("".join(f"{' ' * depth}a:\n" for depth in range(400)), f"line {DEEPEST + 1}: more than {DEEPEST} lists"),
        (bomb(TEN, "[{}]"), f"line 4: more than {MOST_VALUES:,} values"),
        (bomb("{k0: 0, k1: 0, k2: 0, k3: 0, k4: 0, k5: 0}", "{{<<: [{}]}}"), f"line 4: more than {MOST_VALUES:,} values"),
        ("- a\n" * (MOST_VALUES + 1), f"more than {MOST_VALUES:,} values"),
        ("a: " + "x" * MOST_BYTES, f"longer than {MOST_BYTES:,} bytes"),
        ("a: &a [*a]\n", r"line 1: \*a: there is no such anchor"),
        ("a: &a 1\nb: &a [*a]\n", r"line 2: \*a: there is no such anchor"),
        ("a: *b\n", r"line 1: \*b: there is no such anchor"),
        ("a: 1\n? [b, c]\n: 2\n", "line 2: a key is one word"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document"),
        ("a:\n  b: 2001-02-31\n", "line 2: 2001-02-31: day is out of range"),
        ("a: !!int x\n", "line 1: x: invalid literal"),
        ("a: " + "1" * 5_000, "line 1: 1111"),
        ("a: {<<: 3}\n", "line 1: expected a mapping"),
    ],
    ids=range(24),
)  # fmt: skip
def test_a_mistake(tmp_path, text, said):
    path = tmp_path / "own.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = cpu_seconds()
    with pytest.raises(ValueError, match=rf"^{path}: .*{said}") as error:
        read_yaml(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    assert cpu_seconds() - before < 1


def test_what_is_in_a_file(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("\ufeffa: &x {b: 1, c: .5}\nd: {<<: *x, e: [yes, ~, 2001-01-01]}\n'f': !!str 1\n", encoding="utf-8")
    content = read_yaml(path)
    assert content["d"] == {"b": 1, "c": 0.5, "e": [True, None, content["d"]["e"][2]]}
    assert (content["d"]["e"][2].year, content["f"]) == (2001, "1")
    path.write_text("# nothing\n")
    assert read_yaml(path) is None
