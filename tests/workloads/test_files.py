"""Files of other programs: which are opened, how much is read, and by which functions."""

import ast
import codecs
import os
from pathlib import Path

import pytest

from tests.helpers import PROJECT
from workloads.files import open_regular, read_bytes, read_json, read_text

SPECIAL = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("make", SPECIAL.values(), ids=SPECIAL)
def test_special_files_are_rejected_at_once(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(OSError, match="x"):
        open_regular(tmp_path / "x")


def test_no_more_is_read_than_the_limit(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_bytes(path, 4)
    os.truncate(path, 1 << 40)  # sparse
    with pytest.raises(OSError, match="more than 67,108,864 bytes"):
        read_bytes(path)
    assert read_text("/proc/self/stat").startswith(f"{os.getpid()} "), "its size is reported as 0"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_text_in_any_encoding_with_a_mark_and_with_any_line_ends(tmp_path, mark, encoding, end):
    (tmp_path / "x").write_bytes(mark + f"ä{end}\ufeffb{end}".encode(encoding))
    assert read_text(tmp_path / "x") == read_text(tmp_path / "x", "replace") == "ä\n\ufeffb\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n\xe4", "line 2: not UTF-8. Save the file with this encoding"),
        (codecs.BOM_UTF8 + b"a\n\xe4", "line 2: not UTF-8. Save the file with this encoding"),
        (
            codecs.BOM_UTF16_LE + b"a",
            "not UTF-16, although it has the byte order mark of UTF-16. Save the file as UTF-8",
        ),
    ],
)
def test_text_in_another_encoding_is_reported_in_one_line(tmp_path, content, message):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match=f"^{tmp_path / 'x'}: {message}$"):
        read_text(tmp_path / "x")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 100_000, b"\xff"], ids=["empty", "cut", "deep", "no UTF-8"]
)
def test_invalid_json_raises_value_error(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match=r"\w"):
        read_json(tmp_path / "x")


EXCEPTIONS = {
    "suite/launch/processes.py": "/proc",
    "suite/agent/file_tailer.py": "files that the agent's workers write into its folder",
    "workloads/process_identity.py": "/proc",
    "suite/common/installed_copy.py": "metadata that pip wrote for this package",
    "suite/common/runspec.py": "overwrites a file that it created, on a full disk",
    "suite/common/source_code.py": "source files of the suite and of plugins",
    "suite/control/hosts/remote_host.py": (
        "run.json and arrays that the controller has just written"
    ),
    "suite/control/progress.py": "metrics.jsonl of a run that it started",
    "suite/environments/suite_package.py": "setup.cfg and metadata of the package",
    "suite/environments/plugin_install.py": "metadata that pip has just written",
    "suite/results/predict/epochs_to_target.py": "tables of the installed checker",
    "suite/results/render/html/page_file.py": "templates of the package",
    "suite/worker/runlog.py": "the log that the same process writes",
    "workloads/common/text/sources.py": "codes that the same process has just learned",
    "workloads/frameworks/pytorch/gloo.py": "/proc",
    "workloads/ncf/ratings.py": "a stream that is open",
}
"""Modules that read a file without `workloads.files`, and the file.

Other programs write none of these files.
"""


def reads_without_files(module):
    """Check whether a module opens a file for reading without `workloads.files`.

    Arrays of prepared data are excluded, because their manifest is compared before.
    """
    for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
        words = [ast.unparse(word) for word in call.args]
        name, _, attribute = ast.unparse(call.func).rpartition(".")
        opens = (
            attribute == "open"
            and (not name or words == ["'rb'"])
            and "'w" not in str(words)
            and "'x" not in str(words)
        )
        if opens and not any(
            "open_stream(" in word or "open_regular(" in word or word == "'ab'" for word in words
        ):
            return True
        if attribute in ("read_text", "read_bytes", "read_csv") and name and name != "files":
            return True
    return False


def test_only_the_exceptions_read_without_workloads_files():
    modules = [path for room in ("suite", "workloads") for path in (PROJECT / room).rglob("*.py")]
    found = [
        str(path.relative_to(PROJECT))
        for path in modules
        if reads_without_files(ast.parse(path.read_text("utf-8")))
    ]
    assert sorted(found) == sorted(EXCEPTIONS)
