"""Pages of workloads have the same headings, and a broken link fails the build."""

import re
import subprocess
import sys

import pytest
import yaml

from suite.common import registry
from tests.helpers import PROJECT

HEADINGS = [
    "Task",
    "Data",
    "Target and evaluation",
    "Model",
    "Optimizer and schedule",
    "Differences from the reference",
    "Demo",
    "Frameworks",
]
WORKLOADS = sorted(
    name
    for name in registry.names(registry.WORKLOADS)
    # Earlier tests may have added plugins to the path.
    if registry.load_workload(name).__module__.startswith("workloads.")
    and name not in ("zoo", "allreduce")
)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_has_a_page_with_the_same_headings(workload):
    text = (PROJECT / "docs" / "reference" / "workloads" / f"{workload}.md").read_text(
        encoding="utf-8"
    )
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS


def test_a_broken_link_fails_the_build(tmp_path):
    """Build a site with a broken link.

    `make docs`, which `make test` calls, builds the real site.
    """
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[gone](nowhere.md)")
    settings = yaml.safe_load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))
    (tmp_path / "mkdocs.yml").write_text(
        yaml.safe_dump({**settings, "nav": ["index.md"], "plugins": []})
    )
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, "nowhere.md" in done.stderr) == (1, True)
