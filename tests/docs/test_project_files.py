"""Files for the host of the repository: workflows and the citation."""

import re

import suite
from suite.catalog.yaml_files import read_yaml
from suite.common.paths import PROJECT

WORKFLOWS = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))


def test_an_action_is_pinned_to_a_commit_and_every_job_ends():
    assert {path.stem for path in WORKFLOWS} == {"ci", "docs", "release"}
    for path in WORKFLOWS:
        used = re.findall(r"uses: (\S+)", path.read_text())
        assert used
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", name) for name in used), path
        workflow = read_yaml(path)
        assert workflow["permissions"] == {"contents": "read"}
        assert all(1 <= job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())


def test_the_citation_names_this_version():
    assert read_yaml(PROJECT / "CITATION.cff")["version"] == suite.__version__
