"""Whatever deletes, renames or cuts files stands in one table of the docs, with how it knows that
they are the suite's.
"""

import re

from tests.helpers import PROJECT

OF_OS = r"os\.(replace|rename|remove|f?truncate)|\.truncate\("
DELETES = re.compile(
    rf"shutil\.(rmtree|move)|\.(unlink|rmdir)\(|\.rename\((?!columns)|{OF_OS}|unfinished\.replace"
)


def test_every_module_that_deletes_is_in_the_table():
    found = {
        str(path.relative_to(PROJECT))
        for room in ("suite", "workloads")
        for path in (PROJECT / room).rglob("*.py")
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
