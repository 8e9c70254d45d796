"""Every module that deletes, renames or truncates files is listed in a table of the docs.

The table states how each module checks that the files belong to the suite.
"""

import re

from tests.helpers import PROJECT

OF_OS = r"os\.(replace|rename|remove|f?truncate)|\.truncate\("
DELETES = re.compile(
    rf"shutil\.(rmtree|move)|\.(unlink|rmdir)\(|\.rename\((?!columns)|{OF_OS}|unfinished\.replace"
)


def test_the_docs_list_every_module_that_deletes_files():
    found = {
        str(path.relative_to(PROJECT))
        for package in ("suite", "workloads")
        for path in (PROJECT / package).rglob("*.py")
        if DELETES.search(path.read_text(encoding="utf-8"))
    }
    page = (PROJECT / "docs/dev/deletions.md").read_text(encoding="utf-8")
    listed = {
        name
        for row in page.splitlines()
        if row.startswith("|")
        for name in re.findall(r"`((?:suite|workloads)/\S+\.py)`", row)
    }
    assert listed == found
