"""The corpus of translated program messages, and its baselines without a model."""

import struct

import pytest

from benchmarks import real_text


def catalogue(messages, order="<"):
    texts = [[part.encode() for part in pair] for pair in messages]
    tables, data = [[], []], b""
    first = 28 + 16 * len(texts)
    for pair in texts:
        for table, text in zip(tables, pair, strict=True):
            table.append((len(text), first + len(data)))
            data += text + b"\0"
    header = struct.pack(f"{order}7I", 0x950412DE, 0, len(texts), 28, 28 + 8 * len(texts), 0, 0)
    return (
        header
        + b"".join(struct.pack(f"{order}2I", *each) for table in tables for each in table)
        + data
    )


@pytest.mark.parametrize("order", "<>")
def test_messages_are_read_in_both_byte_orders(order):
    first, opens = ("", "Language: de"), "Die Datei öffnen"
    found = [
        first,
        ("menu\4Open the file", opens),
        ("One file\0Many files", "Eine Datei\0Viele Dateien"),
    ]
    read = list(real_text.messages(catalogue(found, order)))
    assert read == [first, ("Open the file", opens), ("One file", "Eine Datei")]


def test_messages_are_split_into_sentences_if_both_sides_have_equally_many():
    found = list(real_text.sentences("Stop.  Go _on!", "Halt.\n„&Weiter“!"))
    assert found == [("Stop. Go on!", 'Halt. "Weiter"!')], (
        "a quotation mark does not start a sentence"
    )
    found = list(real_text.sentences("Stop.  Go _on!", "Halt.\nGeh &weiter!"))
    assert found == [("Stop.", "Halt."), ("Go on!", "Geh weiter!")]
    assert list(real_text.sentences("One. Two.", "Eins und zwei.")) == [
        ("One. Two.", "Eins und zwei.")
    ]


@pytest.mark.parametrize(
    ("pair", "kept"),
    [
        (("Could not open the file", "Datei konnte nicht geöffnet werden"), True),
        (("Open the file", "Datei jetzt öffnen"), False),
        (("Could not open %s now", "Konnte %s jetzt nicht öffnen"), False),
        (("Made by the same people", "Made by the same people"), False),
        (
            ("This one is four", "Das ist eine sehr viel zu lange Übersetzung davon, oder nicht"),
            False,
        ),
        (("The price in euros: €", "Der Preis ist in €"), False),
    ],
)
def test_only_translated_sentences_are_kept(pair, kept):
    assert real_text.is_kept(pair) is kept


def test_baselines_find_the_right_words_and_the_nearest_sentence():
    english = ["the dog sleeps", "the cat sleeps", "the dog barks", "a cat barks"]
    german = ["der Hund schläft", "die Katze schläft", "der Hund bellt", "eine Katze bellt"]
    source, target = ([line.split() for line in side] for side in (english, german))
    words = real_text.lexicon(source, target)
    found = [words[word] for word in ("dog", "cat", "sleeps", "barks")]
    assert found == ["Hund", "Katze", "schläft", "bellt"]
    assert real_text.suggestion(source, [["my", "cat", "sleeps"], ["dog", "barks"]]) == [1, 2]
