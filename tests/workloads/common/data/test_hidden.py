"""Hidden names, which belong to an operating system or a tool and not to a data set."""

import pytest

from workloads.common.data.hidden import is_hidden, is_hidden_path

HIDDEN = (".ipynb_checkpoints", ".DS_Store", "._a.jpg", ".git", "__MACOSX", "Thumbs.db",
          "THUMBS.DB", "desktop.ini", "Desktop.ini", "lost+found", "$RECYCLE.BIN",
          "@eaDir")  # fmt: skip
DATA = (
    "n01440764",
    "a.jpg",
    "a.b.c",
    "macosx",
    "lost and found",
    "_private",
    "~",
    "desktop",
    ".",
    "..",
    "Thumbs",
)


@pytest.mark.parametrize("name", HIDDEN)
def test_names_of_systems_and_tools_are_hidden(name):
    assert is_hidden(name)
    assert is_hidden_path(f"data/{name}")
    assert is_hidden_path(f"./{name}/below/a.jpg")


@pytest.mark.parametrize("name", DATA)
def test_names_of_data_are_not_hidden(name):
    assert not is_hidden(name)
    assert not is_hidden_path(f"./{name}/a.jpg")
