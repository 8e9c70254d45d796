"""The files in a page of the documentation: code blocks with a path as their title."""

import re

_FILE = re.compile(r'^```\w+ title="([^" ]+)( \(append\))?"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def write_files(page, folder):
    """Write the files of a page below a folder.

    A block with the title `PATH (append)` extends the file.
    """
    for name, append, text in _FILE.findall(page.read_text(encoding="utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") + "\n" if append else ""
        path.write_text(before + text, encoding="utf-8")
