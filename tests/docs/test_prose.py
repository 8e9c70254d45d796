"""The project's text stays within the rates of hard-to-read constructs of `tests/docs/prose.py`."""

from pathlib import Path

import pytest

from tests.docs.prose import (
    CONSTRUCTS,
    KINDS,
    OPENERS_LIMIT,
    Text,
    find_openers,
    rate,
    read_markdown,
    read_python,
    read_repository,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def texts():
    return read_repository(ROOT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_rate_is_within_its_limit(texts, name, kind):
    construct = CONSTRUCTS[name]
    hits = [text for text in texts[kind] if construct.count(text.sentence)]
    listed = "\n".join(f"{text.location}: {text.sentence[:160]}" for text in hits[:40])
    message = f"`{name}`: use {construct.remedy}. Sentences with it:\n{listed}"
    assert rate(texts[kind], construct) <= construct.limit(kind), message


def test_function_docstrings_begin_with_a_verb(texts):
    found = find_openers(texts["opener"])
    listed = "\n".join(f"{text.location}: {text.sentence.splitlines()[0]}" for text in found[:40])
    assert len(found) <= OPENERS_LIMIT * len(texts["opener"]), listed


def test_each_kind_of_text_is_found(texts):
    assert min(len(texts[kind]) for kind in (*KINDS, "opener")) > 100


def test_markdown_yields_paragraphs_and_list_items_only():
    page = "# Title of a page\n\nA first line\nand its end.\n\n- The item of a list\n"
    code_and_table = "```\nthis is code\n```\n| this is a table |\n"
    found = list(read_markdown("a.md", page + code_and_table))
    assert found == [
        Text("a.md:3", "A first line and its end."),
        Text("a.md:6", "The item of a list"),
    ]


def test_python_yields_docstrings_comments_and_messages():
    module = (
        '"""Docstring of the module."""\n'
        "def f(x):\n"
        '    """What is read, of course."""\n'
        "    # A comment of one line\n"
        "    # and its second line.\n"
        '    raise ValueError(f"{x}: what is typed is not a number")\n'
    )
    found = [
        (kind, text.location, text.sentence) for kind, text in read_python("suite/a.py", module)
    ]
    assert sorted(found) == [
        ("code", "suite/a.py:1", "Docstring of the module."),
        ("code", "suite/a.py:3", "What is read, of course."),
        ("code", "suite/a.py:4", "A comment of one line and its second line."),
        ("messages", "suite/a.py:6", "{}: what is typed is not a number"),
        ("opener", "suite/a.py:2", "What is read, of course."),
    ]
    texts = [Text("suite/a.py:3", "What is read, of course.")]
    assert rate(texts, CONSTRUCTS["what"]) == 1000 / 5
    assert find_openers(texts) == texts
