"""Plain subtokenizer: it reads single characters and tries every length, longest first."""

import unicodedata

ESCAPING = set("\\_u;0123456789")


def is_word(character):
    return unicodedata.category(character)[0] in "LN"


def tokens(text):
    """Split a text into runs of word characters and runs of characters that are not in words.

    A run that is a single space is dropped, except at the beginning and at the end.
    """
    runs = []
    for character in text:
        if runs and is_word(runs[-1][-1]) == is_word(character):
            runs[-1] += character
        else:
            runs.append(character)
    return [run for place, run in enumerate(runs) if run != " " or place in (0, len(runs) - 1)]


def encode(text, subtokens):
    """Return the subtokens (strings) of a text.

    `subtokens` contains the vocabulary without padding and EOS.
    """
    alphabet = set("".join(subtokens)) | ESCAPING
    found = []
    for token in tokens(text):
        escaped = ""
        for character in token.replace("\\", "\\\\").replace("_", "\\u"):
            kept = character in alphabet and character != "\n"
            escaped += character if kept else f"\\{ord(character)};"
        escaped += "_"
        while escaped:
            best = max(
                (subtoken for subtoken in subtokens if escaped.startswith(subtoken)), key=len
            )
            found.append(best)
            escaped = escaped[len(best) :]
    return found
