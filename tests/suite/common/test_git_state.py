"""The commit and the changes of a checkout, independent of environment variables and the index."""

import os
import subprocess

import pytest

from suite.common import git_state, source_code


def git(folder, *arguments):
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FILES = (
    "suite/__init__.py",
    "suite/worker/loop.py",
    "suite/common/paths.py",
    "workloads/api/data.py",
    "workloads/ncf/model.py",
)
LOOP = "suite/worker/loop.py"


def make_checkout(folder, text="x = 1\n"):
    for name in (*FILES, "docs/page.md", "suite/results/view.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}# {name}\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Return a small checkout that replaces the project in the controller's modules."""
    folder = make_checkout(tmp_path / "checkout")
    for module in (git_state, source_code):
        monkeypatch.setattr(module, "PROJECT", folder)
    monkeypatch.setattr(git_state, "IN_CHECKOUT", True)
    git_state.git_state.cache_clear()
    yield folder
    git_state.git_state.cache_clear()


def unlike():
    git_state.git_state.cache_clear()
    return source_code.files_unlike_commit("ncf", "pytorch")


def test_a_clean_checkout_is_its_commit(checkout):
    assert git_state.git_state() == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False}
    assert unlike() == []


VARIABLES = {
    "GIT_DIR": ".git",
    "GIT_WORK_TREE": ".",
    "GIT_INDEX_FILE": ".git/index",
    "GIT_OBJECT_DIRECTORY": ".git/objects",
    "GIT_COMMON_DIR": ".git",
}


@pytest.mark.parametrize(
    "names", [*((name,) for name in VARIABLES), ("GIT_DIR", "GIT_WORK_TREE")], ids="+".join
)
def test_git_environment_variables_have_no_effect(checkout, tmp_path, monkeypatch, names):
    second = make_checkout(tmp_path / "other", "y = 2\n")
    commit = git(checkout, "rev-parse", "HEAD")
    for name in names:
        monkeypatch.setenv(name, str(second / VARIABLES[name]))
    (checkout / LOOP).write_text("x = 2\n")
    assert unlike() == [LOOP]
    assert git_state.git_state() == {"commit": commit, "dirty": True}


def hide_from_status(checkout, flag):
    git(checkout, "update-index", flag, LOOP)
    (checkout / LOOP).write_text("x = 2\n")


def keep_size_and_time(checkout):
    path = checkout / LOOP
    before = path.stat()
    path.write_text(path.read_text().replace("1", "2"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def link_elsewhere(checkout):
    (checkout / "suite/worker/elsewhere.txt").write_text("x = 2\n")
    (checkout / LOOP).unlink()
    (checkout / LOOP).symlink_to("elsewhere.txt")


HIDDEN = {
    "assume-unchanged": (lambda checkout: hide_from_status(checkout, "--assume-unchanged"), [LOOP]),
    "skip-worktree": (lambda checkout: hide_from_status(checkout, "--skip-worktree"), [LOOP]),
    "the same size and time": (keep_size_and_time, [LOOP]),
    "a link": (link_elsewhere, [LOOP]),
    "a new file": (lambda checkout: (checkout / "suite/worker/new.py").touch(),
     ["suite/worker/new.py"]),
    "a new file that git ignores": (
        lambda checkout: (
            (checkout / ".git/info/exclude").write_text("new.py"),
            (checkout / "suite/worker/new.py").touch(),
        ),
        ["suite/worker/new.py"],
    ),
    "a deleted file": (lambda checkout: (checkout / LOOP).unlink(), [LOOP]),
    "another workload": (lambda checkout: (checkout / "workloads/ncf/model.py").write_text(""),
     ["workloads/ncf/model.py"]),
    "a page": (lambda checkout: (checkout / "docs/page.md").write_text(""), []),
    "code that no worker imports": (
        lambda checkout: (checkout / "suite/results/view.py").write_text(""), [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("trick", HIDDEN)
def test_files_are_compared_by_content(checkout, trick):
    change, expected = HIDDEN[trick]
    change(checkout)
    assert unlike() == expected


def test_a_repository_around_an_unpacked_archive_is_not_its_commit(checkout, monkeypatch, tmp_path):
    around = tmp_path / "around"
    make_checkout(around)
    inside = around / "unpacked"
    for name in FILES:
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_text("x = 1\n")
    for module in (git_state, source_code):
        monkeypatch.setattr(module, "PROJECT", inside)
    git_state.git_state.cache_clear()
    assert git_state.git_state() == {"commit": None, "dirty": None}
    assert unlike() == []


def test_the_state_is_unknown_without_git(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    git_state.git_state.cache_clear()
    assert git_state.git_state() == {"commit": None, "dirty": None}
    assert unlike() == []
